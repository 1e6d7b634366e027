// SPDX-License-Identifier: GPL-2.0-only
// Sound in a plane: the acoustic wave equation, m u_tt = u_xx + u_zz + source, with m = 1 / velocity². Finite differences of
// fourth order in space and second order in time. A process has some columns of the grid, and gets two of each neighbour in
// every step.
#pragma once

#include <mpi.h>

#include <vector>

struct Grid {
  int columns, depth;  // points
  int steps;           // in time
  double spacing, dt;  // metres, seconds
  int receivers_at;    // all columns have a receiver at this depth
};

/** Columns [first, first + count) of the field. Points are stored by columns: [column][depth]. */
class Slab {
 public:
  /**
   * @param slowness m of these columns
   * @param comm     its processes have the columns in the order of their ranks
   */
  Slab(const Grid &grid, int first, int count, const double *slowness, MPI_Comm comm);

  /** One step in time. Collective. Sources are added before: add(). */
  void step();
  /** A source at a point, if it is here, for the next step. */
  void add(int column, int depth, double value);
  /** The field at a point of this slab. @param column from 0 */
  double at(int column, int depth) const { return now_[index(column, depth)]; }
  /** The second derivative in time, of the last step and all points of the slab. */
  const std::vector<double> &acceleration() const { return acceleration_; }

 private:
  std::size_t index(int column, int depth) const { return static_cast<std::size_t>(column + kHalo) * grid_.depth + depth; }
  void exchange();

  static constexpr int kHalo = 2;
  const Grid grid_;
  const int first_, count_;
  const double *slowness_;
  MPI_Comm comm_;
  int left_, right_;
  std::vector<double> before_, now_, after_;  // with the halo
  std::vector<double> source_, acceleration_, damping_;
};
