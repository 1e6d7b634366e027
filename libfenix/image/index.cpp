// SPDX-License-Identifier: LGPL-2.1-or-later
#include "index.h"

#include <map>
#include <optional>
#include <stdexcept>

namespace fnx {
namespace {

class Writer {
 public:
  explicit Writer(const Arena &arena) : arena_(arena) {}
  void number(std::int64_t value) { numbers_.push_back(value); }
  void list(const std::vector<std::int64_t> &values) {
    number(static_cast<std::int64_t>(values.size()));
    numbers_.insert(numbers_.end(), values.begin(), values.end());
  }
  void list(const std::vector<int> &values) { list(std::vector<std::int64_t>(values.begin(), values.end())); }
  void payload(const Payload &payload) {
    number(arena_.offset_of(payload.data()));
    number(static_cast<std::int64_t>(payload.size()));
  }
  std::vector<std::int64_t> take() { return std::move(numbers_); }

 private:
  const Arena &arena_;
  std::vector<std::int64_t> numbers_;
};

/** Throws std::out_of_range where the index makes no sense. */
class Reader {
 public:
  Reader(const std::vector<std::int64_t> &numbers, Arena &arena) : numbers_(numbers), arena_(arena) {}
  std::int64_t number() { return numbers_.at(at_++); }
  int small() { return static_cast<int>(number()); }
  /** How many of something follow, each of at least one number. */
  std::size_t count() {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::uint64_t>(value) > numbers_.size() - at_) throw std::out_of_range("count");
    return static_cast<std::size_t>(value);
  }
  std::vector<std::int64_t> list() {
    std::vector<std::int64_t> values(count());
    for (std::int64_t &value : values) value = number();
    return values;
  }
  std::vector<int> small_list() {
    const std::vector<std::int64_t> values = list();
    return {values.begin(), values.end()};
  }
  Payload payload() {
    const std::int64_t offset = number(), bytes = number();
    if (bytes == 0) return Payload(&arena_);
    std::byte *at = arena_.claim(offset, bytes);
    if (!at) throw std::out_of_range("payload");
    return Payload(&arena_, at, static_cast<std::size_t>(bytes));
  }

 private:
  const std::vector<std::int64_t> &numbers_;
  Arena &arena_;
  std::size_t at_ = 0;
};

/** Images that snapshots share are in the index once. */
using ImageNumbers = std::map<const Image *, std::int64_t>;

void write(Writer &to, const Image &image) {
  to.payload(image.data);
  to.payload(image.parity);
  for (const Shape &shape : image.shapes) {
    for (const std::int64_t value : {shape.count, shape.element, shape.dense}) to.number(value);
    to.list(shape.found.numbers());
  }
}

ImagePointer read_image(Reader &from, const std::shared_ptr<const Layout> &layout) {
  auto image = std::make_shared<Image>(nullptr);
  image->layout = layout;
  image->data = from.payload();
  image->parity = from.payload();
  for (std::size_t i = 0; i < layout->cohort.size(); ++i) {
    Shape shape;
    shape.count = from.number();
    shape.element = from.number();
    shape.dense = from.number();
    shape.found = Subset::of(from.list());
    image->shapes.push_back(std::move(shape));
  }
  if (image->shape().bytes() != image->data.size()) throw std::out_of_range("image");
  return image;
}

void write(Writer &to, const Layout &layout) {
  to.number(layout.ranks);
  to.number(layout.rank);
  to.number(layout.index);
  to.list(layout.cohort);
  to.number(static_cast<std::int64_t>(layout.cohorts.size()));
  for (const std::vector<int> &cohort : layout.cohorts) to.list(cohort);
}

std::shared_ptr<const Layout> read_layout(Reader &from) {
  auto layout = std::make_shared<Layout>();
  layout->ranks = from.small();
  layout->rank = from.small();
  layout->index = from.small();
  layout->cohort = from.small_list();
  for (std::size_t left = from.count(); left > 0; --left) layout->cohorts.push_back(from.small_list());
  if (layout->index < 0 || static_cast<std::size_t>(layout->index) >= layout->cohort.size()) throw std::out_of_range("layout");
  return layout;
}

void write(Writer &to, const KeptGroup &group) {
  const GroupWish &wish = group.wish;
  for (const int value : {wish.id, wish.start, wish.depth, wish.policy.mode, wish.policy.separation, wish.policy.size, group.next_time})
    to.number(value);
  write(to, *group.layout);
  ImageNumbers images;
  std::vector<const Image *> in_order;
  for (const Snapshot &snapshot : group.snapshots)
    for (const auto &[id, image] : snapshot.members)
      if (image->layout == group.layout && images.emplace(image.get(), in_order.size()).second) in_order.push_back(image.get());
  to.number(static_cast<std::int64_t>(in_order.size()));
  for (const Image *image : in_order) write(to, *image);
  to.number(static_cast<std::int64_t>(group.snapshots.size()));
  for (const Snapshot &snapshot : group.snapshots) {
    std::vector<std::int64_t> members;
    for (const auto &[id, image] : snapshot.members)
      if (const auto found = images.find(image.get()); found != images.end()) members.insert(members.end(), {id, found->second});
    to.number(snapshot.time);
    to.list(members);
  }
}

KeptGroup read_group(Reader &from) {
  KeptGroup group;
  GroupWish &wish = group.wish;
  for (int *value : {&wish.id, &wish.start, &wish.depth, &wish.policy.mode, &wish.policy.separation, &wish.policy.size, &group.next_time})
    *value = from.small();
  group.layout = read_layout(from);
  std::vector<ImagePointer> images;
  for (std::size_t left = from.count(); left > 0; --left) images.push_back(read_image(from, group.layout));
  for (std::size_t left = from.count(); left > 0; --left) {
    Snapshot snapshot;
    snapshot.time = from.small();
    const std::vector<std::int64_t> members = from.list();
    for (std::size_t i = 0; i + 1 < members.size(); i += 2)
      snapshot.members[static_cast<int>(members[i])] = images.at(static_cast<std::size_t>(members[i + 1]));
    group.snapshots.push_back(std::move(snapshot));
  }
  return group;
}

}  // namespace

std::vector<std::int64_t> index_of(const std::vector<KeptGroup> &groups, const Arena &arena) {
  Writer to(arena);
  to.number(static_cast<std::int64_t>(groups.size()));
  for (const KeptGroup &group : groups) write(to, group);
  return to.take();
}

std::vector<KeptGroup> groups_in(const std::vector<std::int64_t> &index, Arena &arena) {
  std::vector<KeptGroup> groups;
  if (index.empty()) return groups;
  try {
    Reader from(index, arena);
    for (std::size_t left = from.count(); left > 0; --left) groups.push_back(read_group(from));
  } catch (const std::out_of_range &) {
    groups.clear();
  }
  return groups;
}

}  // namespace fnx
