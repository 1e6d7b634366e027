// SPDX-License-Identifier: GPL-2.0-only
// Kept memory that the daemon holds for its ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kept_make.h"
#include "crd/kept_memory.h"

namespace reprise::crd {
namespace {

/** @return kept memory whose first bytes are @p text */
UniqueFd memory(const std::string& name, const std::string& text) {
  UniqueFd made(make_kept_memory(name.c_str(), 4096));
  EXPECT_EQ(::pwrite(made.get(), text.c_str(), text.size() + 1, 0), static_cast<ssize_t>(text.size() + 1)) << errno;
  return made;
}
UniqueFd again(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

/** One file of @p name, as cr_checkpoint hands it over. */
std::vector<KeptFile> files(const std::string& name, UniqueFd fd) {
  std::vector<KeptFile> out;
  out.push_back({name, std::move(fd)});
  return out;
}

/** @return "NAME=TEXT" of each memory */
std::vector<std::string> words(const RankMemory& memory) {
  std::vector<std::string> out;
  for (const auto& [name, fd] : memory) {
    char text[64] = "?";
    EXPECT_GT(::pread(fd->memory.get(), text, sizeof text, 0), 0);
    out.push_back(name + "=" + text);
  }
  return out;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KeptMemory, IsThatOfTheWave) {
  KeptMemory kept;
  kept.saved(4, 1, files("log", memory("log", "four")));
  kept.saved(5, 1, files("log", memory("log", "five")));
  kept.saved(5, 2, files("other", memory("other", "of two")));
  EXPECT_THAT(words(kept.of(4, 1)), ElementsAre("log=four"));
  EXPECT_THAT(words(kept.of(5, 1)), ElementsAre("log=five"));
  EXPECT_THAT(words(kept.of(5, 2)), ElementsAre("other=of two"));
  EXPECT_THAT(kept.of(4, 2), IsEmpty());
  EXPECT_THAT(kept.of(6, 1), IsEmpty());
  kept.prune({5, 6});
  EXPECT_THAT(kept.of(4, 1), IsEmpty());
  EXPECT_THAT(words(kept.of(5, 1)), ElementsAre("log=five"));
  kept.clear();
  EXPECT_THAT(kept.of(5, 1), IsEmpty());
}

TEST(KeptMemory, IsMadeAndHeldForARankThatComesHere) {
  KeptMemory kept;
  kept.saved(4, 1, files("log", memory("log", "four")));
  const RankMemory first = kept.complete(4, 1, {{"log", 4096}, {"store", 8192}});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_THAT(words(kept.of(4, 1))[0], "log=four");
  char bytes[8192];
  ASSERT_EQ(::pread(first.at("store")->memory.get(), bytes, sizeof bytes, 0), 8192);
  EXPECT_EQ(std::string(bytes, sizeof bytes), std::string(sizeof bytes, 0));
  ASSERT_EQ(::pwrite(first.at("store")->memory.get(), "kept", 5, 0), 5);
  EXPECT_THAT(words(kept.complete(4, 1, {{"log", 4096}, {"store", 8192}})), ElementsAre("log=four", "store=kept")) << "the rank is restarted here again";
  EXPECT_EQ(kept.complete(4, 2, {{"store", 8192}}).size(), 1u);
  kept.only([](std::uint32_t rank) { return rank == 2; });
  EXPECT_EQ(::pread(kept.complete(4, 1, {{"store", 8192}}).at("store")->memory.get(), bytes, 4, 0), 4);
  EXPECT_EQ(std::string(bytes, 4), std::string(4, 0)) << "it has been elsewhere";
}

TEST(KeptMemory, ThatTheImageDoesNotHaveIsNotGiven) {
  KeptMemory kept;
  const std::map<std::string, std::uint64_t> sizes{{"log", 4096}};
  kept.give(4, 1, "log", std::make_shared<HeldMemory>(HeldMemory{memory("log", "given")}));
  kept.give(4, 1, "later", std::make_shared<HeldMemory>(HeldMemory{memory("later", "given")}));
  EXPECT_THAT(words(kept.complete(4, 1, sizes)), ElementsAre("log=given"));
  const RankMemory larger = kept.complete(4, 1, {{"log", 8192}});
  char first = '?';
  EXPECT_EQ(::pread(larger.at("log")->memory.get(), &first, 1, 4096), 1) << "it is made anew";
  EXPECT_EQ(first, 0);
}

TEST(KeptMemory, IsFilledFromTheImageUntilItsRankWasRestarted) {
  KeptMemory kept;
  const std::map<std::string, std::uint64_t> sizes{{"log", 4096}, {"store", 4096}};
  const RankMemory first = kept.complete(4, 1, sizes, {"store"});
  EXPECT_TRUE(first.at("store")->unfilled);
  EXPECT_FALSE(first.at("log")->unfilled);
  std::vector<KeptFile> made = files("store", again(first.at("store")->memory));
  made.push_back({"log", again(first.at("log")->memory)});
  EXPECT_THAT(copied_of(made), ElementsAre("store")) << "cr_restart looks at the name of the memfd";
  // A restart that has failed may have written some of it.
  EXPECT_TRUE(kept.complete(4, 1, sizes, {"store"}).at("store")->unfilled);
  kept.filled(4, 2);
  kept.filled(5, 1);
  EXPECT_TRUE(kept.of(4, 1).at("store")->unfilled);
  kept.filled(4, 1);
  EXPECT_FALSE(kept.complete(4, 1, sizes, {"store"}).at("store")->unfilled) << "what the rank has done since would be lost";
  kept.saved(5, 1, std::move(made));
  EXPECT_FALSE(kept.complete(5, 1, sizes, {"store"}).at("store")->unfilled);
}

TEST(KeptMemory, HasSizesForTheManifest) {
  EXPECT_THAT(sizes_of(files("log", memory("log", "x"))), ElementsAre(std::pair<const std::string, std::uint64_t>("log", 4096)));
  EXPECT_THAT(sizes_of(files("a=b", memory("log", "x"))), IsEmpty());
}

TEST(KeptMemory, TakesNoDescriptorsForTheSameMemoryAgain) {
  KeptMemory kept;
  const UniqueFd first = memory("log", "it");
  kept.saved(1, 7, files("log", again(first)));
  const RankMemory before = kept.of(1, 7);
  kept.saved(2, 7, files("log", again(first)));
  EXPECT_EQ(kept.of(2, 7), before);
  kept.prune({2});
  EXPECT_THAT(words(kept.of(2, 7)), ElementsAre("log=it"));
}

TEST(KeptMemory, IsForgottenWhereItsRankIsNot) {
  KeptMemory kept;
  for (const std::uint32_t rank : {1, 2}) kept.saved(3, rank, files("log", memory("log", "it")));
  kept.only([](std::uint32_t rank) { return rank == 2; });
  EXPECT_THAT(kept.of(3, 1), IsEmpty());
  EXPECT_THAT(words(kept.of(3, 2)), ElementsAre("log=it"));
}

TEST(KeptMemory, ThatARestartWouldRefuseIsNotGiven) {
  KeptMemory kept;
  const UniqueFd sealed = memory("log", "it");
  kept.saved(1, 0, files("log", again(sealed)));
  kept.saved(1, 1, files("a=b", memory("a=b", "no option can name it")));
  EXPECT_THAT(words(kept.of(1, 0)), ElementsAre("log=it"));
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << errno;
  EXPECT_THAT(kept.of(1, 0), IsEmpty());
  EXPECT_THAT(kept.of(1, 1), IsEmpty());
}

TEST(KeptReceiver, TakesMoreThanASocketHolds) {
  asio::io_context loop;
  KeptReceiver receiver(loop);
  UniqueFd sender = receiver.take_sender();
  const UniqueFd one = memory("log", "it");
  constexpr int kMany = 1000;
  std::atomic<int> sent = 0;
  std::thread thread([&] {
    for (; sent < kMany; ++sent)
      if (!send_kept(sender.get(), {std::to_string(sent), again(one)})) break;
    sender.reset();
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (sent < kMany && std::chrono::steady_clock::now() < end) {
    loop.restart();
    loop.run_for(std::chrono::milliseconds(5));
  }
  thread.join();
  const std::vector<KeptFile> all = receiver.take();
  EXPECT_EQ(receiver.problem(), "");
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kMany));
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].name, std::to_string(i));
}

TEST(KeptReceiver, SaysWhenSomethingIsMissing) {
  asio::io_context loop;
  KeptReceiver receiver(loop);
  const UniqueFd sender = receiver.take_sender();
  ASSERT_EQ(::send(sender.get(), "log", 3, 0), 3);  // without a descriptor
  ASSERT_TRUE(send_kept(sender.get(), {"other", memory("other", "it")}));
  EXPECT_EQ(receiver.take().size(), 1u);
  EXPECT_NE(receiver.problem(), "");
}

}  // namespace
}  // namespace reprise::crd
