// SPDX-License-Identifier: GPL-2.0-only
// Kept memory that a restart is given: of the same name and size, and such that it can be mapped.
#include "restore/kept_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kept_make.h"
#include "cr.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSize = 8192;

SharedObject& add_memory(Process& image, const std::string& name, const char* prefix = kKeptPrefix) {
  SharedObject& object = *image.add_shared_objects();
  object.set_kind(SharedObject::KEPT);
  object.mutable_file()->set_path(std::string("/memfd:") + prefix + name);
  object.set_size(kSize);
  Mapping& mapping = *image.add_mappings();
  mapping.set_flags(CR_VMA_SHARED | CR_VMA_MAYWRITE);
  mapping.set_shared_object(static_cast<std::uint32_t>(image.shared_objects_size()));
  return object;
}

class KeptMemory : public testing::Test {
 protected:
  KeptMemory() { add_memory(image_, "log"), add_memory(image_, "ring"); }
  /** @return the refusal of @p fd as memory @p name; "" if there is none */
  std::string refusal(const std::string& name, int fd) {
    RestoreOptions options;
    options.kept_memory[name] = fd;
    return error_of([&] { check_kept_memory(image_, options); });
  }
  Process image_;
};

TEST_F(KeptMemory, IsGivenByName) {
  const UniqueFd memory(make_kept_memory("ring", kSize));
  EXPECT_EQ(refusal("ring", memory.get()), "");
  RestoreOptions options;
  options.kept_memory["ring"] = memory.get();
  EXPECT_FALSE(given_memory(image_.shared_objects(0), options));
  EXPECT_TRUE(given_memory(image_.shared_objects(1), options));
}

TEST_F(KeptMemory, OfAnotherNameIsRefused) {
  const UniqueFd memory(make_kept_memory("log", kSize)), other(::memfd_create("log", MFD_CLOEXEC));
  EXPECT_THAT(refusal("ring", memory.get()), HasSubstr("instead of a memfd named reprise.keep.ring"));
  EXPECT_THAT(refusal("log", other.get()), HasSubstr("it is /memfd:log (deleted) instead of"));
  EXPECT_THAT(refusal("logs", memory.get()), HasSubstr("no kept memory named logs; it has log, ring"));
  EXPECT_THAT(refusal("log", 0), HasSubstr("descriptor 0 cannot be kept memory log"));
}

TEST_F(KeptMemory, OfAnotherSizeIsRefused) {
  const UniqueFd memory(make_kept_memory("log", 2 * kSize));
  EXPECT_THAT(refusal("log", memory.get()), HasSubstr("it has 16384 bytes instead of 8192"));
}

TEST_F(KeptMemory, SealedIsRefusedIfItWasWritten) {
  const UniqueFd memory(::memfd_create("reprise.keep.log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), kSize), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_THAT(refusal("log", memory.get()), HasSubstr("sealed against writing"));
  image_.mutable_mappings(0)->set_flags(CR_VMA_SHARED);
  EXPECT_EQ(refusal("log", memory.get()), "");
}

TEST_F(KeptMemory, OfANameThatIsThereTwiceIsRefused) {
  add_memory(image_, "log");
  const UniqueFd memory(make_kept_memory("log", kSize));
  EXPECT_THAT(refusal("log", memory.get()), HasSubstr("two kept memories named log"));
}

TEST_F(KeptMemory, IsGivenAsItWasAllocated) {
  add_memory(image_, "store", kCopiedPrefix);
  const UniqueFd copied(make_kept_memory("store", kSize, true)), other(make_kept_memory("store", kSize));
  EXPECT_EQ(refusal("store", copied.get()), "");
  EXPECT_THAT(refusal("store", other.get()), HasSubstr("it is /memfd:reprise.keep.store (deleted) instead of a memfd named reprise.keep+store"));
}

TEST_F(KeptMemory, IsFilledOnlyIfItIsGivenAndTheImageHasItsContent) {
  add_memory(image_, "store", kCopiedPrefix);
  const UniqueFd memory(make_kept_memory("store", kSize, true)), log(make_kept_memory("log", kSize));
  RestoreOptions options;
  options.fill_memory = {"store"};
  EXPECT_THAT(error_of([&] { check_kept_memory(image_, options); }), HasSubstr("store is to be filled, and is not given"));
  options.kept_memory = {{"store", memory.get()}, {"log", log.get()}};
  EXPECT_EQ(error_of([&] { check_kept_memory(image_, options); }), "");
  options.fill_memory = {"log"};
  EXPECT_THAT(error_of([&] { check_kept_memory(image_, options); }), HasSubstr("does not have the content of kept memory log"));
}

TEST(KeptName, SaysWhetherImagesHaveTheContent) {
  EXPECT_EQ(kept_name("/memfd:reprise.keep+log"), "log");
  EXPECT_TRUE(kept_is_copied("/memfd:reprise.keep+log"));
  EXPECT_FALSE(kept_is_copied("/memfd:reprise.keep.+log"));
  EXPECT_EQ(kept_name("/memfd:reprise.keep-log"), "");
  EXPECT_EQ(memfd_kind("/memfd:reprise.keep+log"), SharedObject::KEPT);
}

TEST(KeptName, HasThePrefix) {
  EXPECT_EQ(kept_name("/memfd:reprise.keep.log"), "log");
  EXPECT_EQ(kept_name("/memfd:reprise.keep."), "");
  EXPECT_EQ(kept_name("/memfd:reprise-request"), "");
  EXPECT_EQ(kept_name("/tmp/memfd:reprise.keep.log"), "");
  EXPECT_EQ(memfd_kind("/memfd:reprise.keep.log"), SharedObject::KEPT);
  EXPECT_EQ(memfd_kind("/memfd:log"), SharedObject::MEMFD);
}

}  // namespace
}  // namespace reprise::test
