// SPDX-License-Identifier: LGPL-2.1-or-later
// Messages between masters and boosters over the intercommunicator. Both run the same executable: structures are sent as they are.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace croff::wire {

// Tags of the library on the intercommunicator.
constexpr int kOrder = 31000;   // master to booster
constexpr int kInput = 31001;   // what belongs to an order
constexpr int kNotice = 31002;  // booster to master
constexpr int kOutput = 31003;

enum class Op : std::int32_t { run, fetch, discard, leave };

struct Order {
  Op op = Op::run;
  std::int32_t regions = 0;
  std::uint64_t task = 0;
  std::uint64_t values = 0;  // bytes
  std::uint64_t offset = 0, build = 0;
  char object[CodeReference::kMostObject + 1] = {};
};

/** Of `run`: one for each region, in a message of kInput. */
struct Region {
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0, writes = 0;
};

enum class Note : std::int32_t { hello, done, failed, leaves };

struct Notice {
  Note note = Note::hello;
  std::int32_t code = 0;
  std::uint64_t task = 0;
  char text[240] = {};
};

/** Counts of MPI are ints: larger regions are sent in pieces. */
constexpr std::size_t kPiece = std::size_t{1} << 30;

template <class Pointer, class Function>
void in_pieces(Pointer data, std::size_t bytes, Function one) {
  for (std::size_t at = 0; at < bytes; at += kPiece) one(data + at, static_cast<int>(std::min(kPiece, bytes - at)));
}

}  // namespace croff::wire
