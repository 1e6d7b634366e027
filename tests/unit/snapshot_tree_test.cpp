// SPDX-License-Identifier: LGPL-2.1-or-later
// The tree of cr_snapshot: numbers, names, parents, and how it is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tree.h"

namespace reprise::snapshots {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> drawn(const Tree& tree) {
  std::vector<std::string> lines;
  for (const Tree::Line& line : tree.draw()) lines.push_back(line.lead + std::to_string(line.number));
  return lines;
}

TEST(SnapshotTree, ARowHasNoBranches) {
  Tree tree;
  for (int i = 0; i < 3; ++i) tree.add("");
  EXPECT_THAT(drawn(tree), ElementsAre("1", "2", "3"));
  EXPECT_EQ(tree.current(), 3U);
  EXPECT_EQ(tree.nodes().at(3).parent, 2U);
}

TEST(SnapshotTree, WhatIsTakenAfterARollbackIsABranch) {
  Tree tree;
  tree.add("");
  tree.add("");
  tree.add("");
  tree.go_to(1);
  tree.add("");
  tree.go_to(2);
  tree.add("");
  EXPECT_THAT(drawn(tree), ElementsAre("1", "├─ 2", "│  ├─ 3", "│  └─ 5", "└─ 4"));
  tree.go_to(0);
  tree.add("");
  EXPECT_THAT(drawn(tree), ElementsAre("├─ 1", "│  ├─ 2", "│  │  ├─ 3", "│  │  └─ 5", "│  └─ 4", "└─ 6"));
}

TEST(SnapshotTree, ChildrenOfADroppedOneGoToItsParent) {
  Tree tree;
  for (int i = 0; i < 3; ++i) tree.add("");
  tree.drop(2);
  EXPECT_EQ(tree.nodes().at(3).parent, 1U);
  EXPECT_EQ(tree.current(), 3U);
  tree.drop(3);
  EXPECT_EQ(tree.current(), 1U) << "the process came from it";
  tree.drop(1);
  EXPECT_EQ(tree.current(), 0U);
  EXPECT_EQ(tree.add(""), 4U) << "numbers are not used again";
  EXPECT_EQ(tree.nodes().at(4).parent, 0U);
}

TEST(SnapshotTree, IsFoundByNumberAndName) {
  Tree tree;
  tree.add("begin");
  tree.add("");
  EXPECT_EQ(tree.find("begin"), 1U);
  EXPECT_EQ(tree.find("2"), 2U);
  for (const char* none : {"", "3", "02", "Begin", " 1"}) {
    try {
      tree.find(none);
      ADD_FAILURE() << none;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Failure::refused) << none;
    }
  }
}

TEST(SnapshotTree, NamesAreUniqueAndNoNumbers) {
  Tree tree;
  tree.add("begin");
  tree.check_name("");
  tree.check_name("a name");
  tree.check_name("7 of 9");
  for (const char* wrong : {"begin", "7", "-x", "two\nlines"}) EXPECT_THROW(tree.check_name(wrong), Error) << wrong;
  tree.drop(1);
  tree.check_name("begin");
}

}  // namespace
}  // namespace reprise::snapshots
