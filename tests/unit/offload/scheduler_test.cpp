// SPDX-License-Identifier: GPL-2.0-only
// The scheduler with an engine that does what the test says, step by step.
#include "runtime/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>

namespace croff {
namespace {

using testing::ElementsAre;

class FakeGroup : public Group {
 public:
  FakeGroup(int size, std::vector<std::string> &log) : size_(size), log_(log) {}
  int size() const override { return size_; }
  bool shared() const override { return false; }
  MPI_Comm name() const override { return nullptr; }
  bool lost() const override { return lost_; }
  void launch(int, const Order &order) override {
    log_.push_back("launch " + std::to_string(order.task));
    inputs[order.task].clear();
    for (const Input &input : order.regions)
      inputs[order.task].push_back(input.reads ? *reinterpret_cast<const int *>(input.source) : 0);
    reports_.push_back({Report::sent, order.task, Code::ok, ""});
  }
  void fetch(int, TaskId task, const std::vector<Target> &targets) override {
    log_.push_back("fetch " + std::to_string(task));
    for (const Target &target : targets) *reinterpret_cast<int *>(target.data) = outputs[task];
    reports_.push_back({Report::received, task, Code::ok, ""});
  }
  void discard(int, TaskId task) override { log_.push_back("discard " + std::to_string(task)); }
  std::vector<Report> poll() override {
    if (reports_.empty() && !script.empty() && times(script.front().after) >= script.front().times) {
      script.front().act();
      script.pop_front();
    }
    return std::exchange(reports_, {});
  }
  std::optional<Votes> agree(const std::function<Votes()> &mine) override { return mine(); }
  void replace() override {
    log_.push_back("replace");
    lost_ = false;
    reports_.clear();
  }
  void release() override {}

  /** The task has finished with this output. */
  void done(TaskId task, int output) {
    outputs[task] = output;
    reports_.push_back({Report::done, task, Code::ok, ""});
  }
  void failed(TaskId task) { reports_.push_back({Report::failed, task, Code::task, "it does not converge"}); }
  void lose() {
    lost_ = true;
    reports_.clear();
  }

  /** It happens when all else is quiet, and the log has `after` so many times. */
  struct Step {
    Step(std::function<void()> act) : act(std::move(act)) {}
    Step(std::string after, int times, std::function<void()> act) : act(std::move(act)), after(std::move(after)), times(times) {}
    std::function<void()> act;
    std::string after;
    int times = 0;
  };
  int times(const std::string &entry) const { return static_cast<int>(std::count(log_.begin(), log_.end(), entry)); }
  std::deque<Step> script;
  std::map<TaskId, std::vector<int>> inputs;
  std::map<TaskId, int> outputs;

 private:
  const int size_;
  std::vector<std::string> &log_;
  bool lost_ = false;
  std::vector<Report> reports_;
};

class SchedulerTest : public testing::Test {
 protected:
  FakeGroup &group(int size) {
    auto made = std::make_unique<FakeGroup>(size, log);
    FakeGroup &result = *made;
    ids[&result] = scheduler.add(std::move(made));
    return result;
  }
  Region in(int &x) { return {reinterpret_cast<std::uintptr_t>(&x), sizeof x, true, false}; }
  Region out(int &x) { return {reinterpret_cast<std::uintptr_t>(&x), sizeof x, false, true}; }
  Region inout(int &x) { return {reinterpret_cast<std::uintptr_t>(&x), sizeof x, true, true}; }
  void submit(FakeGroup &where, int booster, std::vector<Region> regions, std::optional<int> domain = {}, bool recover = true) {
    Task task;
    task.group = ids[&where];
    task.booster = booster;
    task.recover = recover;
    task.regions = std::move(regions);
    scheduler.submit(std::move(task), domain);
  }

  static void plan(FakeGroup &group, const std::vector<std::function<void()>> &steps) {
    for (const auto &step : steps) group.script.emplace_back(step);
  }

  std::vector<std::string> log;
  std::map<FakeGroup *, GroupId> ids;
  Scheduler scheduler;
};

TEST_F(SchedulerTest, OutputsAreInPlaceWhenTheWholeDomainHasFinished) {
  FakeGroup &boosters = group(2);
  int x = 1, y = 2;
  submit(boosters, 0, {inout(x)});
  submit(boosters, 1, {inout(y)});
  plan(boosters, {
    [&] { boosters.done(1, 10); },
    [&] { EXPECT_EQ(log.size(), 2u) << "nothing is fetched"; },
    [&] { boosters.done(2, 20); },
  });
  scheduler.wait();
  EXPECT_THAT(log, ElementsAre("launch 1", "launch 2", "fetch 1", "fetch 2"));
  EXPECT_EQ(x, 10);
  EXPECT_EQ(y, 20);
}

TEST_F(SchedulerTest, ALossExecutesTheFinishedOnesAgainWithTheOldInputs) {
  FakeGroup &boosters = group(2);
  int x = 1, y = 2;
  submit(boosters, 0, {inout(x)});
  submit(boosters, 1, {inout(y)});
  plan(boosters, {
    [&] { boosters.done(1, 10); },
    [&] { boosters.lose(); },
    [&] { boosters.done(1, 11); },
    [&] { boosters.done(2, 21); },
  });
  scheduler.wait();
  EXPECT_THAT(log, ElementsAre("launch 1", "launch 2", "replace", "launch 1", "launch 2", "fetch 1", "fetch 2"));
  EXPECT_THAT(boosters.inputs[1], ElementsAre(1));
  EXPECT_EQ(x, 11);
  EXPECT_EQ(scheduler.counts().executions, 4u);
}

TEST_F(SchedulerTest, ALaterPeerGetsWhatAnEarlierOneHasPutOut) {
  FakeGroup &boosters = group(1);
  int x = 1;
  submit(boosters, 0, {inout(x)}, 5);
  submit(boosters, 0, {inout(x)}, 5);
  plan(boosters, {
    [&] { boosters.done(1, 10); },
    [&] { EXPECT_THAT(boosters.inputs[2], ElementsAre(10)); EXPECT_EQ(x, 1) << "it is not cleared"; boosters.lose(); },
    [&] { boosters.done(1, 10); },
    [&] { boosters.done(2, 100); },
  });
  scheduler.wait();
  EXPECT_THAT(log, ElementsAre("launch 1", "fetch 1", "launch 2", "replace", "launch 1", "fetch 1", "launch 2", "fetch 2"));
  EXPECT_EQ(x, 100);
}

TEST_F(SchedulerTest, ATaskOfAMergedDomainOnAnotherGroupFirstEnds) {
  FakeGroup &first = group(1), &second = group(1);
  int x = 1, y = 2;
  submit(first, 0, {inout(x)}, 1);            // 1
  submit(second, 0, {in(x), inout(y)}, 1);    // 2: needs 1
  submit(first, 0, {in(y), inout(x)}, 1);     // 3: needs 2, so that both domains wait for each other
  EXPECT_EQ(scheduler.counts().merges, 1u);
  first.script.emplace_back([&] { first.done(1, 10); });
  first.script.emplace_back("launch 2", 1, [&] { first.lose(); });
  first.script.emplace_back("launch 1", 2, [&] { first.done(1, 10); });
  first.script.emplace_back("launch 3", 1, [&] { first.done(3, 30); });
  second.script.emplace_back("launch 1", 2, [&] { second.done(2, 7); });
  second.script.emplace_back("launch 2", 2, [&] { second.done(2, 20); });
  scheduler.wait();
  EXPECT_THAT(second.inputs[2], ElementsAre(10, 2)) << "the second time, too";
  EXPECT_EQ(std::count(log.begin(), log.end(), "discard 2"), 1);
  EXPECT_EQ(std::count(log.begin(), log.end(), "launch 2"), 2);
  EXPECT_EQ(std::count(log.begin(), log.end(), "replace"), 1);
  EXPECT_EQ(x, 30);
  EXPECT_EQ(y, 20);
}

TEST_F(SchedulerTest, WithoutRecoverALossIsAnErrorOfTheTaskAndOfThoseThatDependOnIt) {
  FakeGroup &boosters = group(2);
  int x = 1, y = 2;
  submit(boosters, 0, {inout(x)}, {}, false);
  submit(boosters, 1, {in(x), inout(y)});
  plan(boosters, {[&] { boosters.lose(); }});
  try {
    scheduler.wait();
    FAIL() << "nothing is thrown";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, Code::lost);
  }
  EXPECT_THAT(log, ElementsAre("launch 1", "replace"));
  scheduler.wait();  // the error was told
}

TEST_F(SchedulerTest, AFailureIsThatOfTheWholeDomain) {
  FakeGroup &boosters = group(2);
  int x = 1, y = 2;
  submit(boosters, 0, {inout(x)});
  submit(boosters, 1, {inout(y)});
  plan(boosters, {[&] { boosters.failed(1); }});
  try {
    scheduler.wait();
    FAIL() << "nothing is thrown";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, Code::task);
    EXPECT_THAT(error.what(), testing::HasSubstr("it does not converge"));
  }
  EXPECT_THAT(log, ElementsAre("launch 1", "launch 2", "discard 1", "replace")) << "the other one may wait for it for ever";
  EXPECT_EQ(x, 1);
  EXPECT_EQ(y, 2);
}

}  // namespace
}  // namespace croff
