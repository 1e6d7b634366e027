// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fetch.h"

#include <algorithm>

#include "cohort/parity.h"

namespace fnx {
namespace {

constexpr int kTag = 2;
constexpr std::size_t kPart = std::size_t{1} << 30;  // MPI counts in int

void send(std::span<const std::byte> bytes, int to, MPI_Comm comm) {
  for (std::size_t at = 0; at < bytes.size(); at += kPart)
    check(MPI_Send(&bytes[at], static_cast<int>(std::min(kPart, bytes.size() - at)), MPI_BYTE, to, kTag, comm));
}

void receive(std::vector<std::byte> &bytes, int from, MPI_Comm comm) {
  for (std::size_t at = 0; at < bytes.size(); at += kPart)
    check(MPI_Recv(&bytes[at], static_cast<int>(std::min(kPart, bytes.size() - at)), MPI_BYTE, from, kTag, comm, MPI_STATUS_IGNORE));
}

/** What a rank can do for a request. */
struct Help {
  bool has = false;   // it has stored the data itself
  int index = -1;     // of the wanted rank in this one's cohort; -1: it is not in it
  int others = 0;     // so many of that cohort are needed
};

Help help_with(const ImagePointer &image, int source) {
  Help help;
  if (!image) return help;
  const Layout &layout = *image->layout;
  help.has = layout.rank == source;
  const auto at = std::find(layout.cohort.begin(), layout.cohort.end(), source);
  if (help.has || at == layout.cohort.end()) return help;
  help.index = static_cast<int>(at - layout.cohort.begin());
  help.others = static_cast<int>(layout.cohort.size()) - 1;
  return help;
}

/** Numbers that a requester needs first. */
std::vector<std::int64_t> head_of(const Image &image, const Help &help) {
  const Shape &shape = help.has ? image.shape() : image.shapes[help.index];
  std::vector<std::int64_t> head{help.index, static_cast<std::int64_t>(image.shapes.size()),
                                 static_cast<std::int64_t>(image.parity.size()), shape.count, shape.element, shape.dense};
  const std::vector<std::int64_t> blocks = shape.found.numbers();
  head.insert(head.end(), blocks.begin(), blocks.end());
  return head;
}

std::vector<std::byte> part_of(const Image &image) {
  return contribution(image.data, image.parity, image.layout->index, image.shapes.size(), image.parity.size(), {0, image.parity.size()});
}

void give(const Image &image, const Help &help, int to, MPI_Comm comm) {
  const std::vector<std::int64_t> head = head_of(image, help);
  check(MPI_Send(head.data(), static_cast<int>(head.size()), MPI_INT64_T, to, kTag, comm));
  if (help.has)
    send(image.data, to, comm);
  else
    send(part_of(image), to, comm);
}

/** What is wanted, from one that has it or from the parts of its cohort. */
class Collected {
 public:
  void add(const std::vector<std::int64_t> &head, std::span<const std::byte> part) {
    head_ = head;
    blocks_.resize(part.size());
    for (std::size_t at = 0; at < part.size(); ++at) blocks_[at] ^= part[at];
  }
  void receive_one(MPI_Comm comm) {
    MPI_Status status;
    int length;
    check(MPI_Probe(MPI_ANY_SOURCE, kTag, comm, &status));
    check(MPI_Get_count(&status, MPI_INT64_T, &length));
    std::vector<std::int64_t> head(length);
    check(MPI_Recv(head.data(), length, MPI_INT64_T, status.MPI_SOURCE, kTag, comm, MPI_STATUS_IGNORE));
    std::vector<std::byte> part(head[0] < 0 ? head[3] * head[4] : head[1] * head[2]);
    receive(part, status.MPI_SOURCE, comm);
    add(head, part);
  }
  Fetched get() && {
    Fetched fetched{{head_[3], head_[4], head_[5], Subset::of({head_.begin() + 6, head_.end()})}, {}};
    if (head_[0] < 0) {
      fetched.data = std::move(blocks_);
      return fetched;
    }
    fetched.data.resize(fetched.shape.bytes());
    std::vector<std::byte> parity(head_[2]);
    reconstruct(blocks_, head_[0], head_[1], head_[2], {0, parity.size()}, fetched.data, parity);
    return fetched;
  }

 private:
  std::vector<std::int64_t> head_;
  std::vector<std::byte> blocks_;
};

}  // namespace

std::optional<Fetched> fetch(Group &group, const ImagePointer &image, int source) {
  const MPI_Comm comm = group.comm();
  const int ranks = size_of(comm), me = rank_in(comm);
  std::vector<int> sources(ranks);
  check(MPI_Allgather(&source, 1, MPI_INT, sources.data(), 1, MPI_INT, comm));
  // For each request: ranks that have the data, ranks that have a part, and how many of these are needed, as often as they are.
  std::vector<int> own(3 * ranks), all(3 * ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Help help = help_with(image, sources[rank]);
    own[3 * rank] = help.has;
    own[3 * rank + 1] = help.index >= 0;
    own[3 * rank + 2] = help.others;
  }
  check(MPI_Allreduce(own.data(), all.data(), 3 * ranks, MPI_INT, MPI_SUM, comm));
  std::optional<Fetched> fetched;
  for (int rank = 0; rank < ranks; ++rank) {
    const int owners = all[3 * rank], parts = all[3 * rank + 1], needed = all[3 * rank + 2];
    const Help help = help_with(image, sources[rank]);
    const bool whole = owners > 0, together = !whole && parts > 0 && parts * parts == needed;
    if (!whole && !together) continue;
    const bool gives = whole ? help.has : help.index >= 0;
    if (gives && rank != me) give(*image, help, rank, comm);
    if (rank != me) continue;
    Collected collected;
    if (gives && help.has)
      collected.add(head_of(*image, help), image->data);
    else if (gives)
      collected.add(head_of(*image, help), part_of(*image));
    for (int others = (whole ? 1 : parts) - gives; others > 0; --others) collected.receive_one(comm);
    fetched = std::move(collected).get();
  }
  return fetched;
}

}  // namespace fnx
