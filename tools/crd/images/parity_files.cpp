// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/parity_files.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <xxhash.h>

#include "base/unique_fd.h"
#include "crd/images/parity.h"
#include "crd/images/part_file.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

std::uint64_t checksum(std::span<const char> content) { return XXH64(content.data(), content.size(), 0); }

ParitySet parse_set(const std::string& text, std::uint32_t wave, const std::string& what) {
  ParitySet set;
  if (!set.ParseFromString(text)) throw std::runtime_error(what + " is damaged");
  if (const std::string why = problem_of(set); !why.empty()) throw std::runtime_error(what + " is damaged: " + why);
  if (set.wave() != wave || set.keeper() >= static_cast<std::uint32_t>(set.members_size())) throw std::runtime_error(what + " is of another wave");
  return set;
}

class ParityFile : public Offered {
 public:
  ParityFile(const std::string& directory, std::uint32_t wave)
      : path_(job::parity_path(directory, wave)), set_(read_parity_set(directory, wave)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!fd_) throw std::runtime_error(std::system_error(errno, std::generic_category(), "cannot open " + path_).what());
    if (static_cast<std::uint64_t>(set_.checksums_size()) != (size() + kParityBlock - 1) / kParityBlock)
      throw std::runtime_error(path_ + " is damaged: its description is of another size");
  }
  std::uint64_t size() const override { return chunk_bytes(set_); }
  void read(std::uint64_t offset, char* buffer, std::size_t len) const override {
    for (std::uint64_t block = offset / kParityBlock; len > 0; ++block) {
      const std::uint64_t begin = block * kParityBlock;
      std::vector<char> content(std::min(kParityBlock, size() - begin));
      if (read_piece(fd_.get(), begin, content, path_) != content.size() || checksum(content) != set_.checksums(static_cast<int>(block)))
        throw std::runtime_error(fmt::format("{} is damaged at byte {}", path_, begin));
      const std::size_t some = std::min<std::uint64_t>(len, begin + content.size() - offset);
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset - begin), some, buffer);
      offset += some;
      buffer += some;
      len -= some;
    }
  }
  const ParitySet& set() const { return set_; }

 private:
  const std::string path_;
  const ParitySet set_;
  const UniqueFd fd_;
};

/** @return the set without what is only known when the parity is made */
ParitySet set_of(const Sources::List& sources, std::uint32_t wave) {
  ParitySet set;
  set.set_wave(wave);
  for (const job::ImageSource& source : sources) {
    ParitySet::Member& member = *set.add_members();
    member.set_node(source.node());
    for (const job::StoredImage& image : source.images()) {
      ParitySet::Image& one = *member.add_images();
      one.set_rank(image.rank());
      one.set_bytes(image.bytes());
      one.set_checksum(image.checksum());
    }
  }
  return set;
}

/** @return whether the parity of @p set is there and intact */
bool kept(const ParitySet& set, const std::string& directory) {
  try {
    const ParityFile file(directory, set.wave());
    ParitySet there = file.set();
    there.clear_checksums();
    for (ParitySet::Member& member : *there.mutable_members())
      for (ParitySet::Image& image : *member.mutable_images()) image.clear_manifest();
    if (there.SerializeAsString() != set.SerializeAsString()) return false;
    std::vector<char> block(kParityBlock);
    for (std::uint64_t at = 0; at < file.size(); at += block.size()) file.read(at, block.data(), std::min<std::uint64_t>(block.size(), file.size() - at));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

const job::ImageSource& source_of(const Sources& sources, std::uint32_t node) {
  for (const job::ImageSource& source : sources.list())
    if (source.node() == node) return source;
  throw std::runtime_error(sources.host(node) + " is in the set of parity, and crrun has not named it");
}

/** Fill @p into from a node. */
void read_into(Sources& sources, std::uint32_t node, const ImageRequest& what, std::uint64_t offset, std::span<char> into, const CopyLimits& limits) {
  sources.reading(source_of(sources, node), [&](ImageClient& from) {
    from.read(what, offset, offset + into.size(), limits, [&](std::uint64_t at, std::span<const char> content) {
      std::copy(content.begin(), content.end(), into.begin() + static_cast<std::ptrdiff_t>(at - offset));
    });
  });
}

ReadImage image_reader(Sources& sources, const ParitySet& set, const CopyLimits& limits) {
  return [&](std::size_t member, const ParitySet::Image& image, std::uint64_t offset, std::span<char> into) {
    read_into(sources, set.members(static_cast<int>(member)).node(), request_of(ImageRequest::IMAGE, set.wave(), image.rank()), offset, into, limits);
  };
}

/** @return the description of the set that @p sources are, from the first of them that has one */
ParitySet find_set(Sources& sources, const CopyLimits& limits) {
  std::string problems;
  bool answered = false;
  for (const job::ImageSource& source : sources.list()) {
    if (!source.has_from()) continue;
    try {
      const std::string text = sources.reading(source, [&](ImageClient& from) {
        return from.read_all(request_of(ImageRequest::PARITY_SET, sources.wave(), 0), kMostParitySet, limits);
      });
      return parse_set(text, sources.wave(), "the description of parity on " + sources.host(source.node()));
    } catch (const std::system_error&) {
      throw;
    } catch (const std::exception& problem) {
      problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
      answered |= dynamic_cast<const Unreachable*>(&problem) == nullptr;
    }
  }
  if (!answered) throw Unreachable(problems.empty() ? "all nodes of its set are lost" : problems);
  throw std::runtime_error(problems);
}

void rebuild_from(Sources& sources, const ParitySet& set, std::uint32_t rank, const std::string& to, const CopyLimits& limits) {
  for (int member = 0; member < set.members_size(); ++member) {
    std::uint64_t begin = 0;
    for (const ParitySet::Image& image : set.members(member).images()) {
      if (image.rank() != rank) {
        begin += image.bytes();
        continue;
      }
      job::StoredImage known;
      known.set_rank(rank);
      known.set_bytes(image.bytes());
      known.set_checksum(image.checksum());
      const Manifest manifest = copied_manifest(image.manifest(), known, set.wave());
      if (complete(to, manifest)) return;
      PartFile part(to);
      rebuild(
          set, static_cast<std::size_t>(member), begin, begin + image.bytes(), image_reader(sources, set, limits),
          [&](std::size_t keeper, std::uint64_t offset, std::span<char> into) {
            read_into(sources, set.members(static_cast<int>(keeper)).node(), request_of(ImageRequest::PARITY, set.wave(), 0), offset, into, limits);
          },
          [&](std::uint64_t at, std::span<const char> content) { part.write(at - begin, content); });
      finish_image(part, manifest);
      return;
    }
  }
  throw std::runtime_error("the parity does not have it");
}

}  // namespace

ParitySet read_parity_set(const std::string& directory, std::uint32_t wave) {
  const std::string path = job::parity_set_path(directory, wave);
  return parse_set(job::read_file(path), wave, path);
}

std::unique_ptr<Offered> open_parity(const std::string& directory, std::uint32_t wave) { return std::make_unique<ParityFile>(directory, wave); }

std::uint64_t parity_bytes(const Sources::List& sources) {
  const ParitySet set = set_of(sources, 0);
  return problem_of(set).empty() ? chunk_bytes(set) : 0;
}

void keep_parity(Sources& sources, std::uint32_t node, const std::string& directory, const CopyLimits& limits) {
  ParitySet set = set_of(sources.list(), sources.wave());
  if (const std::string why = problem_of(set); !why.empty()) throw std::runtime_error("crrun has named an impossible set of parity: " + why);
  const auto own = std::find_if(set.members().begin(), set.members().end(), [&](const ParitySet::Member& one) { return one.node() == node; });
  if (own == set.members().end()) throw std::runtime_error("crrun has named a set of parity that this node is not in");
  set.set_keeper(static_cast<std::uint32_t>(own - set.members().begin()));
  if (kept(set, directory)) return;
  // If this node is lost, so is what it keeps: nobody needs its own manifests here.
  for (ParitySet::Member& member : *set.mutable_members()) {
    if (member.node() == node) continue;
    const job::ImageSource& source = source_of(sources, member.node());
    for (int i = 0; i < member.images_size(); ++i)
      sources.reading(source, [&](ImageClient& from) {
        member.mutable_images(i)->set_manifest(manifest_text(sources.manifest(from, source.images(i), limits)));
      });
  }
  PartFile part(job::parity_path(directory, set.wave()));
  make_parity(set, set.keeper(), image_reader(sources, set, limits), [&](std::uint64_t at, std::span<const char> content) {
    part.write(at, content);
    set.add_checksums(checksum(content));
  });
  job::write_atomically(job::parity_set_path(directory, set.wave()), set.SerializeAsString());
  part.take_name();
}

void rebuild_image(Sources& sources, std::uint32_t rank, const std::string& to, const CopyLimits& limits) {
  const auto text = [&](const std::exception& problem) {
    return fmt::format("the image of rank {} for wave {} cannot be rebuilt from parity: {}", rank, sources.wave(), problem.what());
  };
  try {
    rebuild_from(sources, find_set(sources, limits), rank, to, limits);
  } catch (const std::system_error&) {
    throw;
  } catch (const Unreachable& problem) {
    throw Unreachable(text(problem));
  } catch (const std::exception& problem) {
    throw std::runtime_error(text(problem));
  }
}

}  // namespace reprise::crd
