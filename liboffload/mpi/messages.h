// SPDX-License-Identifier: LGPL-2.1-or-later
// How orders and notices travel over the intercommunicator.
#pragma once

#include <algorithm>
#include <cstddef>

namespace croff::messages {

// Tags of the library on the intercommunicator.
constexpr int kOrder = 31000;   // master to booster
constexpr int kInput = 31001;   // what belongs to an order
constexpr int kNotice = 31002;  // booster to master
constexpr int kOutput = 31003;

/** Counts of MPI are ints: larger regions are sent in pieces. */
constexpr std::size_t kPiece = std::size_t{1} << 30;

template <class Pointer, class Function>
void in_pieces(Pointer data, std::size_t bytes, Function one) {
  for (std::size_t at = 0; at < bytes; at += kPiece) one(data + at, static_cast<int>(std::min(kPiece, bytes - at)));
}

}  // namespace croff::messages
