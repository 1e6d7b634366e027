// SPDX-License-Identifier: GPL-2.0-only
#include "base/code.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace croff {
namespace {

void mine() {}

TEST(Code, AFunctionOfTheExecutableIsFoundAgain) {
  const CodeReference reference = refer(reinterpret_cast<void *>(&mine));
  EXPECT_EQ(reference.object, "");
  EXPECT_EQ(resolve(reference), reinterpret_cast<void *>(&mine));
}

TEST(Code, AFunctionOfALibraryIsFoundAgain) {
  const CodeReference reference = refer(reinterpret_cast<void *>(&atoi));
  EXPECT_NE(reference.object, "");
  EXPECT_EQ(resolve(reference), reinterpret_cast<void *>(&atoi));
  EXPECT_EQ(describe(reference), "atoi");
}

TEST(Code, WhatIsNoFunctionIsRefused) {
  int on_the_stack = 0;
  EXPECT_THROW(refer(&on_the_stack), Error);
  EXPECT_THROW(refer(nullptr), Error);
}

TEST(Code, ALibraryWhoseNameNoOrderCanHoldIsRefused) {
  Dl_info library;
  ASSERT_TRUE(dladdr(reinterpret_cast<void *>(static_cast<double (*)(double)>(&std::cos)), &library));
  const auto directory = std::filesystem::path(testing::TempDir()) / "croff-long-name";
  const auto copy = directory / ("lib" + std::string(100, 'x') + ".so");
  std::filesystem::create_directories(directory);
  std::filesystem::copy_file(library.dli_fname, copy, std::filesystem::copy_options::overwrite_existing);
  void *loaded = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(loaded) << dlerror();
  EXPECT_THROW(refer(dlsym(loaded, "lround")), Error);
  dlclose(loaded);
  std::filesystem::remove_all(directory);
}

TEST(Code, AnotherBuildIsRefused) {
  CodeReference reference = refer(reinterpret_cast<void *>(&mine));
  ++reference.build;
  EXPECT_THROW(resolve(reference), Error);
  reference.object = "libnone.so";
  EXPECT_THROW(resolve(reference), Error);
}

}  // namespace
}  // namespace croff
