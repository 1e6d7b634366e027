// SPDX-License-Identifier: LGPL-2.1-or-later
#include "groups.h"
#include "library.h"
#include "need.h"

namespace {

fnx::Subset full = fnx::Subset::full(), empty;

}  // namespace

extern "C" {
extern const Fenix_Data_subset FENIX_DATA_SUBSET_FULL = {&full};
extern const Fenix_Data_subset FENIX_DATA_SUBSET_EMPTY = {&empty};
}

namespace fnx {

const Subset &subset_in(const Fenix_Data_subset &given) {
  if (!given.impl)
    throw Error(Code::subset_blocks, "the subset was not made: use Fenix_Data_subset_create, or FENIX_DATA_SUBSET_FULL");
  return *static_cast<const Subset *>(given.impl);
}

void put_out(const Subset &subset, Fenix_Data_subset *found) {
  if (found) found->impl = new Subset(subset);
}

}  // namespace fnx

int Fenix_Data_subset_create(int num_blocks, int start_offset, int end_offset, int stride, Fenix_Data_subset *subset_specifier) {
  return fnx::guarded([&] {
    fnx::need(subset_specifier, "subset_specifier").impl = nullptr;
    fnx::put_out(fnx::Subset::regular(num_blocks, start_offset, end_offset, stride), subset_specifier);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_subset_createv(int num_blocks, int *array_start_offsets, int *array_end_offsets, Fenix_Data_subset *subset_specifier) {
  return fnx::guarded([&] {
    fnx::need(subset_specifier, "subset_specifier").impl = nullptr;
    fnx::put_out(fnx::Subset::irregular(num_blocks, array_start_offsets, array_end_offsets), subset_specifier);
    return FENIX_SUCCESS;
  });
}

int Fenix_Data_subset_delete(Fenix_Data_subset *subset_specifier) {
  return fnx::guarded([&] {
    void *&impl = fnx::need(subset_specifier, "subset_specifier").impl;
    if (impl != &full && impl != &empty) delete static_cast<fnx::Subset *>(impl);
    impl = nullptr;
    return FENIX_SUCCESS;
  });
}
