// SPDX-License-Identifier: GPL-2.0-only
#include "base/code.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

TEST(Code, AnotherBuildIsRefused) {
  CodeReference reference = refer(reinterpret_cast<void *>(&mine));
  ++reference.build;
  EXPECT_THROW(resolve(reference), Error);
  reference.object = "libnone.so";
  EXPECT_THROW(resolve(reference), Error);
}

}  // namespace
}  // namespace croff
