// SPDX-License-Identifier: GPL-2.0-only
#include "graph/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace croff {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Region in(std::uintptr_t begin, std::size_t bytes) { return {begin, bytes, true, false}; }
Region out(std::uintptr_t begin, std::size_t bytes) { return {begin, bytes, false, true}; }
Region inout(std::uintptr_t begin, std::size_t bytes) { return {begin, bytes, true, true}; }

TEST(Dependencies, ReadersDoNotWaitForEachOther) {
  Dependencies graph;
  graph.add(1, {in(100, 10)});
  EXPECT_THAT(graph.add(2, {in(100, 10)}), IsEmpty());
}

TEST(Dependencies, WritersAndReadersWait) {
  Dependencies graph;
  graph.add(1, {out(100, 10)});
  EXPECT_THAT(graph.add(2, {in(100, 10)}), ElementsAre(1)) << "a value is read after it was written";
  EXPECT_THAT(graph.add(3, {out(100, 10)}), ElementsAre(1, 2)) << "it is written anew after it was read";
  EXPECT_THAT(graph.add(4, {inout(100, 10)}), ElementsAre(1, 2, 3));
}

TEST(Dependencies, OneSharedByteIsEnough) {
  Dependencies graph;
  graph.add(1, {out(100, 10)});
  EXPECT_THAT(graph.add(2, {in(109, 5)}), ElementsAre(1));
  EXPECT_THAT(graph.add(3, {in(110, 5)}), IsEmpty()) << "they only touch";
  EXPECT_THAT(graph.add(4, {in(90, 10)}), IsEmpty());
}

TEST(Dependencies, EmptyRegionsConflictWithNothing) {
  Dependencies graph;
  graph.add(1, {out(100, 10)});
  EXPECT_THAT(graph.add(2, {inout(105, 0)}), IsEmpty());
}

TEST(Dependencies, NobodyDependsOnWhatIsCleared) {
  Dependencies graph;
  graph.add(1, {out(100, 10)});
  graph.remove(1);
  EXPECT_THAT(graph.add(2, {in(100, 10)}), IsEmpty());
}

TEST(Dependencies, EachTaskIsNamedOnce) {
  Dependencies graph;
  graph.add(1, {out(100, 10), out(200, 10)});
  EXPECT_THAT(graph.add(2, {in(100, 10), in(200, 10)}), ElementsAre(1));
}

}  // namespace
}  // namespace croff
