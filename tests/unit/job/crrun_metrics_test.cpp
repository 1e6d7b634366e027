// SPDX-License-Identifier: GPL-2.0-only
// What crrun --metrics writes: its text, and the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "crrun/metrics_file.h"
#include "crrun/metrics_text.h"
#include "job/files.h"

namespace reprise::job {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/** A job that has lost a node. */
Metrics some() {
  Metrics out;
  out.job = "cr-1";
  out.program = "./app";
  out.ranks = 8;
  out.begun_unix_ns = 1'764'000'000'500'000'000;
  out.phase = Phase::running;
  out.nodes = {{"up", 3}, {"lost", 1}};
  out.lease_left_ms = 1250;
  out.wave_interval_ms = 60'000;
  out.newest_wave_unix_ns = 1'764'000'120'000'000'000;
  out.newest_staged_unix_ns = 1'764'000'060'000'000'000;
  out.waves_to_stage = 1;
  out.tally.wave.add(700'000'000);
  out.tally.wave.add(900'000'000);
  out.tally.wave_standstill.add(20'000'000);
  out.tally.wave_standstill.add(30'000'000);
  out.tally.staging.add(4'000'000'000);
  out.tally.given_up[static_cast<std::size_t>(GivenUp::recovery)] = 1;
  out.tally.recoveries[static_cast<std::size_t>(CauseKind::node_lost)] = 1;
  out.tally.recovery_standstill[static_cast<std::size_t>(CauseKind::node_lost)].add(2'600'000'000);
  out.tally.last_recovery_standstill_ns = 2'600'000'000;
  out.tally.nodes_lost = 1;
  out.tally.ranks_moved = 2;
  out.tally.ranks_restarted = 2;
  out.tally.ranks_failed = 3;
  out.tally.written_bytes = 1'000'000'000'000;
  out.tally.staged_bytes = 500;
  return out;
}

TEST(MetricsTextTest, HasAllThatIsKnownAsOpenMetrics) {
  EXPECT_EQ(metrics_text(some()), R"(# TYPE reprise_job_info gauge
# HELP reprise_job_info The job and its program; the value is always 1.
reprise_job_info{job_id="cr-1",program="./app"} 1
# TYPE reprise_job_start_timestamp_seconds gauge
# UNIT reprise_job_start_timestamp_seconds seconds
# HELP reprise_job_start_timestamp_seconds When this crrun began.
reprise_job_start_timestamp_seconds{job_id="cr-1"} 1764000000.5
# TYPE reprise_job_state gauge
# HELP reprise_job_state 1 for the state of the job, 0 for all others.
reprise_job_state{job_id="cr-1",state="starting"} 0
reprise_job_state{job_id="cr-1",state="running"} 1
reprise_job_state{job_id="cr-1",state="recovering"} 0
reprise_job_state{job_id="cr-1",state="ending"} 0
reprise_job_state{job_id="cr-1",state="ended"} 0
# TYPE reprise_ranks gauge
# HELP reprise_ranks Ranks of the job.
reprise_ranks{job_id="cr-1"} 8
# TYPE reprise_nodes gauge
# HELP reprise_nodes Nodes of the job by their state; those in state spare are the spares that are left.
reprise_nodes{job_id="cr-1",state="starting"} 0
reprise_nodes{job_id="cr-1",state="up"} 3
reprise_nodes{job_id="cr-1",state="spare"} 0
reprise_nodes{job_id="cr-1",state="draining"} 0
reprise_nodes{job_id="cr-1",state="drained"} 0
reprise_nodes{job_id="cr-1",state="lost"} 1
# TYPE reprise_nodes_lost counter
# HELP reprise_nodes_lost Nodes that were given up.
reprise_nodes_lost_total{job_id="cr-1"} 1
# TYPE reprise_lease_margin_seconds gauge
# UNIT reprise_lease_margin_seconds seconds
# HELP reprise_lease_margin_seconds Shortest time that was left of a node's lease since the last writing; negative: its ranks stood still.
reprise_lease_margin_seconds{job_id="cr-1"} 1.25
# TYPE reprise_waves counter
# HELP reprise_waves Waves that were taken.
reprise_waves_total{job_id="cr-1"} 2
# TYPE reprise_waves_given_up counter
# HELP reprise_waves_given_up Waves that were begun and given up, by reason.
reprise_waves_given_up_total{job_id="cr-1",reason="put_off"} 0
reprise_waves_given_up_total{job_id="cr-1",reason="rank_ended"} 0
reprise_waves_given_up_total{job_id="cr-1",reason="spawn"} 0
reprise_waves_given_up_total{job_id="cr-1",reason="error"} 0
reprise_waves_given_up_total{job_id="cr-1",reason="late"} 0
reprise_waves_given_up_total{job_id="cr-1",reason="recovery"} 1
reprise_waves_given_up_total{job_id="cr-1",reason="job_end"} 0
# TYPE reprise_wave_interval_seconds gauge
# UNIT reprise_wave_interval_seconds seconds
# HELP reprise_wave_interval_seconds Interval between waves at present; absent: waves are taken on request.
reprise_wave_interval_seconds{job_id="cr-1"} 60
# TYPE reprise_wave_seconds summary
# UNIT reprise_wave_seconds seconds
# HELP reprise_wave_seconds Time from the begin of a wave until it counts.
reprise_wave_seconds_count{job_id="cr-1"} 2
reprise_wave_seconds_sum{job_id="cr-1"} 1.6
# TYPE reprise_wave_standstill_seconds summary
# UNIT reprise_wave_standstill_seconds seconds
# HELP reprise_wave_standstill_seconds Time that a wave cost its slowest rank.
reprise_wave_standstill_seconds_count{job_id="cr-1"} 2
reprise_wave_standstill_seconds_sum{job_id="cr-1"} 0.05
# TYPE reprise_wave_last_standstill_seconds gauge
# UNIT reprise_wave_last_standstill_seconds seconds
# HELP reprise_wave_last_standstill_seconds Time that the newest wave cost its slowest rank.
reprise_wave_last_standstill_seconds{job_id="cr-1"} 0.03
# TYPE reprise_image_written_bytes counter
# UNIT reprise_image_written_bytes bytes
# HELP reprise_image_written_bytes Images of waves that count, written on the nodes.
reprise_image_written_bytes_total{job_id="cr-1"} 1000000000000
# TYPE reprise_newest_wave_timestamp_seconds gauge
# UNIT reprise_newest_wave_timestamp_seconds seconds
# HELP reprise_newest_wave_timestamp_seconds When the newest wave was taken.
reprise_newest_wave_timestamp_seconds{job_id="cr-1"} 1764000120
# TYPE reprise_wave_staging_seconds summary
# UNIT reprise_wave_staging_seconds seconds
# HELP reprise_wave_staging_seconds Time from when a wave counts until it is in shared storage.
reprise_wave_staging_seconds_count{job_id="cr-1"} 1
reprise_wave_staging_seconds_sum{job_id="cr-1"} 4
# TYPE reprise_image_staged_bytes counter
# UNIT reprise_image_staged_bytes bytes
# HELP reprise_image_staged_bytes Images copied to shared storage.
reprise_image_staged_bytes_total{job_id="cr-1"} 500
# TYPE reprise_waves_to_stage gauge
# HELP reprise_waves_to_stage Waves on the nodes that are not completely in shared storage.
reprise_waves_to_stage{job_id="cr-1"} 1
# TYPE reprise_newest_staged_wave_timestamp_seconds gauge
# UNIT reprise_newest_staged_wave_timestamp_seconds seconds
# HELP reprise_newest_staged_wave_timestamp_seconds When the newest wave that is in shared storage was taken.
reprise_newest_staged_wave_timestamp_seconds{job_id="cr-1"} 1764000060
# TYPE reprise_recoveries counter
# HELP reprise_recoveries Recoveries that were begun, by cause.
reprise_recoveries_total{job_id="cr-1",cause="node_lost"} 1
reprise_recoveries_total{job_id="cr-1",cause="new_daemon"} 0
reprise_recoveries_total{job_id="cr-1",cause="rank_died"} 0
reprise_recoveries_total{job_id="cr-1",cause="link_broken"} 0
reprise_recoveries_total{job_id="cr-1",cause="hang"} 0
reprise_recoveries_total{job_id="cr-1",cause="failed_recovery"} 0
reprise_recoveries_total{job_id="cr-1",cause="request"} 0
reprise_recoveries_total{job_id="cr-1",cause="drain"} 0
reprise_recoveries_total{job_id="cr-1",cause="restart"} 0
reprise_recoveries_total{job_id="cr-1",cause="attach"} 0
# TYPE reprise_recovery_standstill_seconds summary
# UNIT reprise_recovery_standstill_seconds seconds
# HELP reprise_recovery_standstill_seconds Time from the last sign of life of what failed until all ranks run again, by the first cause.
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="node_lost"} 1
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="node_lost"} 2.6
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="new_daemon"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="new_daemon"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="rank_died"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="rank_died"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="link_broken"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="link_broken"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="hang"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="hang"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="failed_recovery"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="failed_recovery"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="request"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="request"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="drain"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="drain"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="restart"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="restart"} 0
reprise_recovery_standstill_seconds_count{job_id="cr-1",cause="attach"} 0
reprise_recovery_standstill_seconds_sum{job_id="cr-1",cause="attach"} 0
# TYPE reprise_recovery_last_standstill_seconds gauge
# UNIT reprise_recovery_last_standstill_seconds seconds
# HELP reprise_recovery_last_standstill_seconds The same of the newest recovery.
reprise_recovery_last_standstill_seconds{job_id="cr-1"} 2.6
# TYPE reprise_ranks_moved counter
# HELP reprise_ranks_moved Ranks that recoveries have moved to another node.
reprise_ranks_moved_total{job_id="cr-1"} 2
# TYPE reprise_ranks_restarted counter
# HELP reprise_ranks_restarted Ranks that recoveries have started as new processes.
reprise_ranks_restarted_total{job_id="cr-1"} 2
# TYPE reprise_ranks_failed counter
# HELP reprise_ranks_failed Ranks that have failed and of which the program was told (--recover ulfm).
reprise_ranks_failed_total{job_id="cr-1"} 3
# EOF
)");
}

TEST(MetricsTextTest, WhatIsNotKnownIsAbsent) {
  Metrics metrics;
  metrics.job = "cr-1";
  const std::string text = metrics_text(metrics);
  for (const char* name : {"lease_margin", "wave_interval", "last_standstill", "newest_wave", "newest_staged", "to_stage", "staged_bytes", "exit_status"})
    EXPECT_THAT(text, Not(HasSubstr(name)));
  EXPECT_THAT(text, HasSubstr("reprise_waves_total{job_id=\"cr-1\"} 0\n")) << "counters begin with 0";
  EXPECT_THAT(text, EndsWith("\n# EOF\n"));
}

TEST(MetricsTextTest, TheEndHasTheExitStatus) {
  Metrics metrics = some();
  metrics.phase = Phase::finished;
  metrics.exit_code = kRestartable;
  const std::string text = metrics_text(metrics);
  EXPECT_THAT(text, HasSubstr("reprise_job_state{job_id=\"cr-1\",state=\"ended\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("reprise_job_state{job_id=\"cr-1\",state=\"running\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("reprise_job_exit_status{job_id=\"cr-1\"} 75\n"));
}

TEST(MetricsTextTest, NamesAreQuotedAndALateNodeHasANegativeMargin) {
  Metrics metrics = some();
  metrics.program = "./a \"b\"\\c\nd";
  metrics.lease_left_ms = -40;
  const std::string text = metrics_text(metrics);
  EXPECT_THAT(text, HasSubstr(R"(program="./a \"b\"\\c\nd"} 1)"));
  EXPECT_THAT(text, HasSubstr("reprise_lease_margin_seconds{job_id=\"cr-1\"} -0.04\n"));
}

TEST(MetricsTextTest, HasOnlyTypesThatPrometheusOwnFormatHas) {
  std::istringstream text(metrics_text(some()));
  std::set<std::string> families;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string hash, keyword, family, type;
    words >> hash >> keyword >> family >> type;
    if (keyword != "TYPE") continue;
    EXPECT_TRUE(type == "counter" || type == "gauge" || type == "summary") << line;
    EXPECT_TRUE(families.insert(family).second) << family << " comes twice";
  }
  EXPECT_GT(families.size(), 20u);
}

class MetricsFileTest : public testing::Test {
 protected:
  MetricsFileTest() {
    char name[] = "/tmp/crrun-metrics-XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/job.prom";
  }
  ~MetricsFileTest() override { fs::remove_all(directory_); }
  static bool until(const std::function<bool()>& what) {
    for (int i = 0; i < 500 && !what(); ++i) std::this_thread::sleep_for(10ms);
    return what();
  }
  bool has(const std::string& text) const { return fs::exists(path_) && read_file(path_) == text; }
  std::string refusal(const std::string& path) {
    try {
      MetricsFile::check(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  std::string directory_, path_;
};

TEST_F(MetricsFileTest, ACheckLeavesMetricsWithoutContentThatOthersCanRead) {
  const mode_t before = ::umask(022);
  MetricsFile::check(path_);
  ::umask(before);
  EXPECT_EQ(read_file(path_), "# EOF\n");
  struct stat st {};
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0644u);
}

TEST_F(MetricsFileTest, WhatCannotBeWrittenIsRefusedByName) {
  const std::string none = directory_ + "/none/job.prom";
  EXPECT_THAT(refusal(none), HasSubstr("--metrics " + none + " cannot be written"));
  EXPECT_THAT(refusal(none), HasSubstr("name a file in a directory"));
  EXPECT_THAT(refusal(directory_), HasSubstr(directory_ + " is not a file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("is not a file"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(MetricsFileTest, TheLastTextIsWrittenAndNothingElseIsLeft) {
  {
    MetricsFile file(path_);
    for (int i = 0; i < 100; ++i) file.put(std::to_string(i) + "\n# EOF\n");
  }
  EXPECT_EQ(read_file(path_), "99\n# EOF\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
}

/**
 * Have rename(2) of the calling thread, and of those that it starts, hang until somebody answers.
 * @return where to answer, see seccomp_unotify(2)
 */
UniqueFd hang_in_rename() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rename, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return UniqueFd(static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter)));
}

/** Let the next hanging call go on. */
void go_on(const UniqueFd& listener) {
  seccomp_notif call{};
  ASSERT_EQ(::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
  seccomp_notif_resp answer{};
  answer.id = call.id;
  answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ASSERT_EQ(::ioctl(listener.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
}

TEST_F(MetricsFileTest, AFileSystemThatHangsIsNotWaitedFor) {
  // In a thread of its own, which ends with its filter.
  std::thread([&] {
    const UniqueFd listener = hang_in_rename();
    ASSERT_TRUE(listener) << std::strerror(errno);
    MetricsFile file(path_);
    for (int i = 0; i < 1000; ++i) file.put("old\n");
    pollfd hangs{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&hangs, 1, 10000), 1) << "it does not write";
    EXPECT_FALSE(fs::exists(path_));
    file.put("new\n");  // and is not held up
    go_on(listener);
    go_on(listener);
    EXPECT_TRUE(until([&] { return has("new\n"); })) << "it goes on when that is over";
  }).join();
}

TEST_F(MetricsFileTest, AFileThatCouldNotBeWrittenIsWrittenLater) {
  MetricsFile file(path_);
  fs::rename(directory_, directory_ + ".gone");
  file.put("lost\n");
  std::this_thread::sleep_for(50ms);
  fs::rename(directory_ + ".gone", directory_);
  file.put("new\n");
  EXPECT_TRUE(until([&] { return has("new\n"); }));
}

}  // namespace
}  // namespace reprise::job
