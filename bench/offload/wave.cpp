// SPDX-License-Identifier: GPL-2.0-only
#include "wave.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr int kSponge = 12;  // points at the left, the right and the bottom that swallow waves (Cerjan)

double damping(const Grid &grid, int column, int depth) {
  const int edge = std::min({column, grid.columns - 1 - column, grid.depth - 1 - depth});
  const double in = edge < kSponge ? 0.015 * (kSponge - edge) : 0;
  return std::exp(-in * in);
}

}  // namespace

Slab::Slab(const Grid &grid, int first, int count, const double *slowness, MPI_Comm comm)
    : grid_(grid), first_(first), count_(count), slowness_(slowness), comm_(comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  left_ = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  right_ = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  const std::size_t with_halo = static_cast<std::size_t>(count + 2 * kHalo) * grid.depth;
  before_.resize(with_halo), now_.resize(with_halo), after_.resize(with_halo);
  source_.resize(static_cast<std::size_t>(count) * grid.depth);
  acceleration_.resize(source_.size());
  damping_.resize(source_.size());
  for (int column = 0; column < count; ++column)
    for (int depth = 0; depth < grid.depth; ++depth)
      damping_[static_cast<std::size_t>(column) * grid.depth + depth] = damping(grid, first + column, depth);
}

void Slab::add(int column, int depth, double value) {
  const int here = column - first_;
  if (here >= 0 && here < count_) source_[static_cast<std::size_t>(here) * grid_.depth + depth] += value;
}

void Slab::exchange() {
  const int size = kHalo * grid_.depth;
  MPI_Sendrecv(&now_[index(0, 0)], size, MPI_DOUBLE, left_, 1, &now_[index(count_, 0)], size, MPI_DOUBLE, right_, 1, comm_,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(&now_[index(count_ - kHalo, 0)], size, MPI_DOUBLE, right_, 2, &now_[index(-kHalo, 0)], size, MPI_DOUBLE, left_, 2, comm_,
               MPI_STATUS_IGNORE);
}

void Slab::step() {
  exchange();
  const int n = grid_.depth;
  const double scale = 1 / (12 * grid_.spacing * grid_.spacing), square = grid_.dt * grid_.dt;
  for (int column = 0; column < count_; ++column) {
    const double *here = &now_[index(column, 0)];
    // The field is 0 above the surface and below the bottom.
    for (int depth = 2; depth < n - 2; ++depth) {
      const double *u = here + depth;
      const double bend = 16 * (u[-1] + u[1] + u[-n] + u[n]) - (u[-2] + u[2] + u[-2 * n] + u[2 * n]) - 60 * u[0];
      const std::size_t point = static_cast<std::size_t>(column) * n + depth;
      acceleration_[point] = (scale * bend + source_[point]) / slowness_[point];
      after_[index(column, depth)] =
          damping_[point] * (2 * u[0] - damping_[point] * before_[index(column, depth)] + square * acceleration_[point]);
    }
  }
  std::swap(before_, now_);
  std::swap(now_, after_);
  std::fill(source_.begin(), source_.end(), 0);
}
