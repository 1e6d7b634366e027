// SPDX-License-Identifier: LGPL-2.1-or-later
// Redundant data: made when a member is stored, used when a rank is lost. Collective over the cohort.
#pragma once

#include <memory>
#include <vector>

#include "image/image.h"
#include "owned_comm.h"

namespace fnx {

/** An image on its way to the cohort. If it is given up before its end, the communicator is revoked. */
class Protection {
 public:
  /**
   * Tells the cohort the shape, and begins to send. Data and own shape of the image are there.
   * @throw Failure
   */
  Protection(std::shared_ptr<Image> image, MPI_Comm cohort);
  ~Protection();
  Protection(const Protection &) = delete;
  Protection &operator=(const Protection &) = delete;

  /** @return it is complete. @throw Failure */
  bool test();
  /** @throw Failure */
  void wait();
  const std::shared_ptr<Image> &image() const { return image_; }

 private:
  void exchange_shapes();
  void begin_copy();
  void begin_parity();

  std::shared_ptr<Image> image_;
  MPI_Comm cohort_;
  std::vector<MPI_Request> requests_;
  std::vector<std::vector<std::byte>> given_;  // to the parity of others, until the requests are complete
};

/** What rebuild() needs to know of images: as numbers for a message. */
std::vector<std::int64_t> describe(const std::vector<Snapshot> &snapshots, const std::shared_ptr<const Layout> &layout);
/** In the lost rank: images of the right sizes. */
std::vector<Snapshot> described(const std::vector<std::int64_t> &numbers, const std::shared_ptr<const Layout> &layout,
                                Memory *memory);

/**
 * Give the rank of the cohort that was lost its data and parity again.
 * @param lost      its index
 * @param snapshots in the others: what is there; in the lost one it is replaced
 * @param memory    where images are made
 */
void rebuild(std::vector<Snapshot> &snapshots, int lost, const std::shared_ptr<const Layout> &layout, MPI_Comm cohort,
             Memory *memory);

}  // namespace fnx
