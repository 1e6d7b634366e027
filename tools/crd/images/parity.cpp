// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/parity.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "image/format.h"

namespace reprise::crd {
namespace {

constexpr int kMostMembers = 1 << 16;
/** Images of a member are not larger together; no sum of members' sizes overflows then. */
constexpr std::uint64_t kMostStream = 1ULL << 46;

/** Exclusive or with a part of a member's stream, which may end before. */
void add_stream(const ParitySet& set, std::size_t member, std::uint64_t offset, std::span<char> into, std::vector<char>& buffer,
                const ReadImage& read) {
  std::uint64_t begin = 0;  // of the image in the stream
  for (const ParitySet::Image& image : set.members(static_cast<int>(member)).images()) {
    const std::uint64_t from = std::max(begin, offset), to = std::min(begin + image.bytes(), offset + into.size());
    if (from < to) {
      buffer.resize(to - from);
      read(member, image, from - begin, buffer);
      std::transform(buffer.begin(), buffer.end(), into.begin() + static_cast<std::ptrdiff_t>(from - offset),
                     into.begin() + static_cast<std::ptrdiff_t>(from - offset), [](char one, char other) { return static_cast<char>(one ^ other); });
    }
    begin += image.bytes();
  }
}

}  // namespace

std::size_t parity_chunk(std::size_t keeper, std::size_t of) { return keeper < of ? keeper : keeper - 1; }

std::uint64_t stream_bytes(const ParitySet::Member& member) {
  std::uint64_t bytes = 0;
  for (const ParitySet::Image& image : member.images()) bytes += image.bytes();
  return bytes;
}

std::uint64_t chunk_bytes(const ParitySet& set) {
  std::uint64_t longest = 0;
  for (const ParitySet::Member& member : set.members()) longest = std::max(longest, stream_bytes(member));
  const std::uint64_t chunks = static_cast<std::uint64_t>(set.members_size()) - 1;
  // Whole pages: those are read and verified as such.
  return ((longest + chunks - 1) / chunks + image::kPage - 1) / image::kPage * image::kPage;
}

std::string problem_of(const ParitySet& set) {
  if (set.members_size() < 2 || set.members_size() > kMostMembers) return "a set of parity has two members or more";
  std::set<std::uint32_t> nodes;
  for (const ParitySet::Member& member : set.members()) {
    if (!nodes.insert(member.node()).second) return "a node is in it twice";
    std::uint64_t bytes = 0;
    for (const ParitySet::Image& image : member.images())
      if (image.bytes() > kMostStream || (bytes += image.bytes()) > kMostStream) return "its images have an impossible size";
  }
  return "";
}

void make_parity(const ParitySet& set, std::size_t keeper, const ReadImage& read, const WriteBytes& write) {
  const std::uint64_t chunk = chunk_bytes(set);
  std::vector<char> parity, buffer;
  for (std::uint64_t at = 0; at < chunk; at += kParityBlock) {
    parity.assign(std::min(kParityBlock, chunk - at), 0);
    for (std::size_t member = 0; member < static_cast<std::size_t>(set.members_size()); ++member)
      if (member != keeper) add_stream(set, member, parity_chunk(keeper, member) * chunk + at, parity, buffer, read);
    write(at, parity);
  }
}

void rebuild(const ParitySet& set, std::size_t lost, std::uint64_t from, std::uint64_t to, const ReadImage& read, const ReadParity& parity,
             const WriteBytes& write) {
  const std::uint64_t chunk = chunk_bytes(set);
  std::vector<char> part, buffer;
  while (from < to) {
    const std::size_t number = from / chunk;
    const std::uint64_t at = from % chunk;  // in the chunk
    // Blocks as the parity has them: so that each is read and verified once.
    const std::uint64_t end = std::min({chunk, at / kParityBlock * kParityBlock + kParityBlock, at + (to - from)});
    const std::size_t keeper = number < lost ? number : number + 1;
    part.resize(end - at);
    parity(keeper, at, part);
    for (std::size_t member = 0; member < static_cast<std::size_t>(set.members_size()); ++member)
      if (member != keeper && member != lost) add_stream(set, member, parity_chunk(keeper, member) * chunk + at, part, buffer, read);
    write(from, part);
    from += end - at;
  }
}

}  // namespace reprise::crd
