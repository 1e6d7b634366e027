// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Parity of the images of a set of nodes, one of which may be lost. Pure: it reads and writes by what it is given.
 *
 * The stream of a member is its images one after the other, filled up with zeros to the longest of the set, and cut into n - 1
 * chunks, n being the number of members. Member i keeps the exclusive or of one chunk of each other member: of member j that with the
 * number that i has among the members without j. So each chunk of a lost member is in the parity of one other member. Two members
 * are mirrors of each other.
 */
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "crd/images/images.pb.h"

namespace reprise::crd {

/** Bytes of parity with one checksum. */
inline constexpr std::uint64_t kParityBlock = 1 << 20;

/** @return the number of the chunk of member @p of whose parity member @p keeper keeps */
std::size_t parity_chunk(std::size_t keeper, std::size_t of);
/** @return bytes of the stream of a member, without zeros that fill it up */
std::uint64_t stream_bytes(const ParitySet::Member& member);
/** @return bytes of each chunk, and of the parity that each member keeps */
std::uint64_t chunk_bytes(const ParitySet& set);
/** @return "", or why it describes no set: it comes from another node */
std::string problem_of(const ParitySet& set);

/** Fill @p into with a part of an image of a member. */
using ReadImage = std::function<void(std::size_t member, const ParitySet::Image& image, std::uint64_t offset, std::span<char> into)>;
/** Fill @p into with a part of the parity that a member keeps. */
using ReadParity = std::function<void(std::size_t member, std::uint64_t offset, std::span<char> into)>;
using WriteBytes = std::function<void(std::uint64_t offset, std::span<const char> content)>;

/** Make the parity that member @p keeper keeps, from its beginning to its end. */
void make_parity(const ParitySet& set, std::size_t keeper, const ReadImage& read, const WriteBytes& write);

/**
 * Make [@p from, @p to) of the stream of member @p lost out of what all others have.
 * @param write called with offsets in the stream, from the beginning to the end
 */
void rebuild(const ParitySet& set, std::size_t lost, std::uint64_t from, std::uint64_t to, const ReadImage& read, const ReadParity& parity,
             const WriteBytes& write);

}  // namespace reprise::crd
