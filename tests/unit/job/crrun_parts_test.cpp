// SPDX-License-Identifier: GPL-2.0-only
// crrun's command line, nodes and output; the page of crjob.
#include <gmock/gmock.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "crjob/interval_text.h"
#include "crjob/report.h"
#include "crrun/coordinator/interval.h"
#include "crrun/held.h"
#include "crrun/hosts.h"
#include "crrun/launcher.h"
#include "crrun/options.h"
#include "crrun/output_record.h"
#include "crrun/output_writer.h"
#include "crrun/settings_json.h"
#include "crrun/slurm_step.h"
#include "job/job_file.h"

#include "crrun_command_line.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

std::vector<std::string> described(const std::vector<Host>& hosts) {
  std::vector<std::string> out;
  for (const Host& host : hosts) out.push_back(host.name + "=" + std::to_string(host.slots));
  return out;
}

TEST(HostsTest, Lists) {
  EXPECT_THAT(described(parse_hosts("a:2,b,10.0.0.1:3")), ElementsAre("a=2", "b=0", "10.0.0.1=3"));
  EXPECT_THAT(described(parse_hosts("fe80::1,[fe80::2]:4")), ElementsAre("fe80::1=0", "fe80::2=4"));
  EXPECT_THAT(described(parse_hosts("a,a,b")), ElementsAre("a=2", "b=0")) << "named twice: two slots";
  EXPECT_THROW(parse_hosts("a:x"), std::runtime_error);
  EXPECT_THROW(parse_hosts("a:0"), std::runtime_error);
  EXPECT_THROW(parse_hosts("-oProxyCommand=x"), std::runtime_error) << "ssh would take it for an option";
}

TEST(HostsTest, FilesAsOpenMpiHasThem) {
  EXPECT_THAT(described(parse_hostfile("# nodes\nn1 slots=4\n\nn2 slots=2 max-slots=8 # two\nn3\n", "f")),
              ElementsAre("n1=4", "n2=2", "n3=0"));
  try {
    parse_hostfile("n1\nn2 slot=3\n", "f");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("f:2"));
  }
  EXPECT_THROW(parse_hostfile("# none\n", "f"), std::runtime_error);
}

TEST(HostsTest, SlurmsCounts) {
  EXPECT_THAT(parse_slurm_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THROW(parse_slurm_counts("many"), std::runtime_error);
}

TEST(HostsTest, MoreNodesThanThereCanBeAreNotCounted) {
  EXPECT_THROW(parse_slurm_counts("1(x999999999)"), std::runtime_error);
  EXPECT_THROW(parse_slurm_counts("1(x900000),1(x900000)"), std::runtime_error);
}

TEST(HostsTest, ThisHostIsKnown) {
  EXPECT_TRUE(is_this_host("localhost"));
  EXPECT_TRUE(is_this_host("127.0.0.1"));
  EXPECT_FALSE(is_this_host("192.0.2.1"));
}

TEST(HostsTest, SparesTakeAsMuchAsTheLargestNode) {
  const auto nodes = make_nodes(parse_hosts("a:2,b:5"), parse_hosts("c,d:1"));
  EXPECT_EQ(nodes[2].slots(), 5u);
  EXPECT_TRUE(nodes[2].spare());
  EXPECT_EQ(nodes[3].slots(), 1u);
  EXPECT_THROW(make_nodes(parse_hosts("a"), parse_hosts("a")), std::runtime_error);
}

TEST(OptionsTest, EndAtTheProgramsName) {
  const Parsed p = parse({"-np", "4", "--mca", "btl", "self", "-x", "A=1", "-x", "B", "--tag-output", "-v", "./app", "-n", "9", "--help"});
  EXPECT_EQ(p.options.ranks, 4u);
  EXPECT_THAT(p.options.mca, ElementsAre(std::pair<std::string, std::string>("btl", "self")));
  EXPECT_THAT(p.options.exported, ElementsAre("A=1", "B"));
  EXPECT_TRUE(p.options.tag_output);
  EXPECT_TRUE(p.options.verbose);
  EXPECT_THAT(p.options.program, ElementsAre("./app", "-n", "9", "--help"));
  EXPECT_THAT(parse({"-n", "2", "--", "-odd", "x"}).options.program, ElementsAre("-odd", "x"));
  EXPECT_EQ(parse({"--hosts=a:2", "-n2", "app"}).options.ranks, 2u);
  EXPECT_THAT(parse({"-host", "a,b", "app"}).options.hosts, ElementsAre("a,b"));
  EXPECT_THROW(parse({"--no-such-option", "app"}), CLI::ParseError);
}

TEST(OptionsTest, TimesAndBytes) {
  EXPECT_EQ(milliseconds("250ms", "x"), 250u);
  EXPECT_EQ(milliseconds("1.5s", "x"), 1500u);
  EXPECT_EQ(milliseconds("3", "x"), 3000u);
  EXPECT_EQ(milliseconds("2min", "x"), 120'000u);
  EXPECT_THROW(milliseconds("soon", "x"), std::runtime_error);
  EXPECT_THROW(milliseconds("3 parsecs", "x"), std::runtime_error);
  EXPECT_EQ(byte_count("1.5G", "x"), 1'500'000'000u);
  EXPECT_EQ(byte_count("2MB", "x"), 2'000'000u);
  EXPECT_THROW(byte_count("-1", "x"), std::runtime_error);
}

TEST(OptionsTest, WhatIsNoNumberOrTooMuchIsRefused) {
  EXPECT_THROW(milliseconds("nan", "--timeout"), std::runtime_error);
  EXPECT_THROW(milliseconds("inf", "--timeout"), std::runtime_error);
  EXPECT_THROW(milliseconds("1e15d", "--timeout"), std::runtime_error);
  EXPECT_THROW(byte_count("1e15T", "--local-limit"), std::runtime_error);
}

TEST(OptionsTest, TooFewSlotsAreToldWithTheWayOut) {
  Parsed p = parse({"-n", "5", "--hosts", "a:2,b:2", "app"});
  try {
    make_settings(p.options, "cr-1");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--oversubscribe"));
  }
  p.options.oversubscribe = true;
  const Settings settings = make_settings(p.options, "cr-1");
  EXPECT_EQ(settings.spec.ranks(), 5u);
  EXPECT_LT(settings.spec.lost_after_ms(), settings.lost_after_ms) << "daemons stop before crrun gives them up";
}

TEST(LauncherTest, UnderstandsWhatSrunSaysOfTheEndOfATask) {
  const auto one = task_end("srun: error: node2: task 1: Exited with exit code 66");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->hosts, "node2");
  EXPECT_EQ(one->how, "Exited with exit code 66");
  const auto several = task_end("srun: error: node[2-3,7]: tasks 1-2,6: Killed");
  ASSERT_TRUE(several);
  EXPECT_EQ(several->hosts, "node[2-3,7]");
  EXPECT_FALSE(task_end("srun: error: Unable to create step for job 3"));
  EXPECT_FALSE(task_end("crd on node2: error: task 1: Killed"));
  EXPECT_THAT(slurm_names("node2"), ElementsAre("node2"));
  EXPECT_TRUE(slurm_names("n[1-2]; rm x").empty());
}

TEST(SlurmStepTest, DaemonsMayUseAllThatTheJobHas) {
  ::unsetenv("SLURM_MEM_PER_CPU");
  ::setenv("SLURM_CPUS_PER_TASK", "1", 1);
  ::setenv("SLURM_TRES_PER_TASK", "cpu=1,it's", 1);
  const auto words = step_command({"node1", "node3"}, "exec crd");
  ::unsetenv("SLURM_CPUS_PER_TASK");
  ::unsetenv("SLURM_TRES_PER_TASK");
  // srun does not see what the user has asked for each task; the ranks do.
  EXPECT_THAT(std::vector(words.begin(), words.begin() + 6),
              ElementsAre("env", "-u", "SLURM_CPUS_PER_TASK", "-u", "SLURM_TRES_PER_TASK", "srun"));
  EXPECT_THAT(words, IsSupersetOf({"--mem=0", "--nodes=2", "--ntasks=2", "--no-kill", "node1,node3"}));
  EXPECT_EQ(words.back(), "export SLURM_CPUS_PER_TASK='1'; export SLURM_TRES_PER_TASK='cpu=1,it'\\''s'; exec crd");
}

TEST(OptionsTest, ANumberOfSparesTakesTheLastNodes) {
  Parsed p = parse({"--hosts", "a:2,b:2,c:1", "--spares", "2", "app"});
  const Settings settings = make_settings(p.options, "cr-1");
  ASSERT_EQ(settings.nodes.size(), 3u);
  EXPECT_FALSE(settings.nodes[0].spare());
  EXPECT_TRUE(settings.nodes[1].spare());
  EXPECT_EQ(settings.nodes[2].host(), "c");
  EXPECT_TRUE(settings.nodes[2].spare());
  EXPECT_EQ(settings.spec.ranks(), 2u);
  p.options.spares = {"3"};
  EXPECT_THROW(make_settings(p.options, "cr-1"), std::runtime_error) << "no node is left for the ranks";
}

TEST(OptionsTest, TheShortestSilenceIsNotLongerThanTheLongest) {
  Parsed p = parse({"--hosts", "a", "--detect", "6s", "--detect-at-least", "6s", "app"});
  EXPECT_EQ(make_settings(p.options, "cr-1").shortest_silence_ms, 6000u);
  p.options.detect_at_least = "7s";
  EXPECT_THROW(make_settings(p.options, "cr-1"), std::runtime_error);
}

TEST(OptionsTest, IncrementalWavesAreWholeNowAndThen) {
  const auto spec = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--hosts", "a", "app"});
    return make_settings(parse(std::move(words)).options, "cr-1").spec;
  };
  EXPECT_EQ(spec({}).incremental(), 0u);
  EXPECT_EQ(spec({"--incremental"}).incremental(), 16u);
  EXPECT_EQ(spec({"--incremental=3"}).incremental(), 3u);
  for (const char* wrong : {"--incremental=-1", "--incremental=2.5", "--incremental=1001", "--incremental=x", "--incremental=3s"})
    EXPECT_THROW(spec({wrong}), std::runtime_error) << wrong;
  // A restart goes on in the same way unless it is told otherwise.
  Settings again = make_settings(parse({"--incremental=3", "--hosts", "a", "app"}).options, "cr-1");
  change_settings(again, parse({}).options);
  EXPECT_EQ(again.spec.incremental(), 3u);
  change_settings(again, parse({"--incremental=0"}).options);
  EXPECT_EQ(again.spec.incremental(), 0u);
}

TEST(OptionsTest, CrrunChoosesTheIntervalOnRequest) {
  const Settings fixed = make_settings(parse({"--hosts", "a", "--checkpoint-every", "60s", "app"}).options, "cr-1");
  EXPECT_FALSE(fixed.wave_interval_auto);
  EXPECT_EQ(fixed.wave_interval_ms, 60'000u);
  const Settings once = make_settings(parse({"--hosts", "a", "--checkpoint-every", "start", "app"}).options, "cr-1");
  EXPECT_TRUE(once.wave_at_start);
  EXPECT_FALSE(once.wave_interval_auto);
  EXPECT_EQ(once.wave_interval_ms, 0u);
  Settings settings = make_settings(parse({"--hosts", "a", "--checkpoint-every", "auto", "app"}).options, "cr-1");
  EXPECT_TRUE(settings.wave_interval_auto);
  EXPECT_EQ(settings.node_mtbf_ms, 0u) << "learned";
  EXPECT_DOUBLE_EQ(settings.wave_share, 0.05);
  settings = make_settings(
      parse({"--hosts", "a", "--checkpoint-every", "auto", "--node-mtbf", "900d", "--checkpoint-share", "2.5%", "app"}).options, "cr-1");
  EXPECT_EQ(settings.node_mtbf_ms, 900 * 86'400'000ull);
  EXPECT_DOUBLE_EQ(settings.wave_share, 0.025);
  // --restart keeps them, and can change them.
  Settings again;
  settings_from_json(again, nlohmann::json::parse(settings_json(settings).dump()));
  change_settings(again, Options{});
  EXPECT_EQ(settings_json(again), settings_json(settings)) << settings_json(again);
  Options options;
  options.node_mtbf = "10d";
  change_settings(again, options);
  EXPECT_EQ(again.node_mtbf_ms, 10 * 86'400'000ull);
  options = {};
  options.checkpoint_every = "5min";
  change_settings(again, options);
  EXPECT_FALSE(again.wave_interval_auto);
  EXPECT_EQ(again.wave_interval_ms, 300'000u);
}

TEST(OptionsTest, WhatCannotBeMeantForTheIntervalIsRefusedByName) {
  const auto refusal = [](std::vector<std::string> words) -> std::string {
    words.insert(words.begin(), {"--hosts", "a"});
    words.push_back("app");
    try {
      make_settings(parse(words).options, "cr-1");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"--node-mtbf", "900d"}), HasSubstr("--node-mtbf is for --checkpoint-every auto"));
  EXPECT_THAT(refusal({"--checkpoint-every", "60s", "--checkpoint-share", "3"}), HasSubstr("--checkpoint-share is for"));
  EXPECT_THAT(refusal({"--checkpoint-every", "auto", "--node-mtbf", "5s"}), HasSubstr("--node-mtbf 5s"));
  EXPECT_THAT(refusal({"--checkpoint-every", "auto", "--node-mtbf", "5y"}), HasSubstr("is not a time"));
  for (const char* share : {"0", "95", "5s", "x"})
    EXPECT_THAT(refusal({"--checkpoint-every", "auto", "--checkpoint-share", share}), HasSubstr("--checkpoint-share")) << share;
  EXPECT_THAT(refusal({"--checkpoint-every", "automatic"}), HasSubstr("--checkpoint-every"));
}

TEST(OptionsTest, CrrunWatchesForHangsOnRequest) {
  EXPECT_EQ(make_settings(parse({"--hosts", "a", "app"}).options, "cr-1").spec.look_ms(), 0u) << "no daemon looks";
  Settings settings = make_settings(parse({"--hosts", "a", "--hang-after", "30s", "app"}).options, "cr-1");
  EXPECT_EQ(settings.hang_after_ms, 30'000u);
  EXPECT_EQ(settings.spec.look_ms(), 3000u);
  EXPECT_FALSE(settings.hang_recover);
  EXPECT_EQ(make_settings(parse({"--hosts", "a", "--hang-after", "5s", "app"}).options, "cr-1").spec.look_ms(), 1000u);
  settings = make_settings(parse({"--hosts", "a", "--hang-after", "1h", "--on-hang", "recover", "app"}).options, "cr-1");
  EXPECT_EQ(settings.spec.look_ms(), 5000u);
  EXPECT_TRUE(settings.hang_recover);
  // --restart keeps it, and can change it.
  change_settings(settings, Options{});
  EXPECT_EQ(settings.hang_after_ms, 3'600'000u);
  EXPECT_TRUE(settings.hang_recover);
  Options options;
  options.on_hang = "say";
  change_settings(settings, options);
  EXPECT_FALSE(settings.hang_recover);
  options = {};
  options.hang_after = "0";
  change_settings(settings, options);
  EXPECT_EQ(settings.spec.look_ms(), 0u);
  EXPECT_THROW(make_settings(parse({"--hosts", "a", "--hang-after", "1s", "app"}).options, "cr-1"), std::runtime_error);
  EXPECT_THROW(make_settings(parse({"--hosts", "a", "--on-hang", "recover", "app"}).options, "cr-1"), std::runtime_error);
  EXPECT_THROW(parse({"--hosts", "a", "--on-hang", "pray", "app"}), CLI::ParseError);
}

TEST(OptionsTest, SettingsComeBackFromTheJobsFile) {
  Settings settings;
  settings.wave_interval_ms = 77;
  settings.double_up = false;
  settings.fan_out = 5;
  Settings other;
  settings_from_json(other, nlohmann::json::parse(settings_json(settings).dump()));
  EXPECT_EQ(settings_json(other), settings_json(settings));
  // What --restart does with an option that was not given.
  change_settings(other, Options{});
  EXPECT_EQ(other.fan_out, 5u);
}

TEST(LaunchTest, TheScriptQuotesAndChecks) {
  LaunchOptions options;
  options.job_directory = "/a b/it's";
  options.working_directory = "/w";
  options.program = "./app";
  const std::string script = remote_script(options);
  EXPECT_THAT(script, HasSubstr("test -r '/a b/it'\\''s/job.json' || exit 66"));
  EXPECT_THAT(script, HasSubstr("cd '/w' || exit 68"));
  EXPECT_THAT(script, HasSubstr("exec crd --job-from-stdin"));
}

TEST(TaggerTest, WholeLinesOnlyAndWhatWasTakenBackIsNotPrinted) {
  LineTagger tagger("[j,0]<stdout>: ");
  EXPECT_EQ(tagger.feed("one\ntwo", 0, false).text, "[j,0]<stdout>: one\n");
  EXPECT_EQ(tagger.feed("ice\n", 2, false).text, "[j,0]<stdout>: tice\n");
  EXPECT_EQ(tagger.feed("end", 0, false).text, "");
  EXPECT_EQ(tagger.held(), 3u);
  EXPECT_EQ(tagger.feed("", 0, true).text, "[j,0]<stdout>: end\n");
  EXPECT_EQ(tagger.feed("a\nb\nc", 0, false).raw, "a\nb\n");
  EXPECT_EQ(tagger.held(), 1u);
}

TEST(IntervalTextTest, SaysHowOftenAndWhy) {
  IntervalChoice choice{.interval_ms = 432'000, .limit = IntervalLimit::optimum, .cost = 0.9, .usable_after = 130, .recovery = 4,
                        .mtbf = 26 * 3600.0, .mtbf_given = true, .optimum = 432, .share = 0.05, .loss = 0.0059, .failures = 1};
  EXPECT_EQ(interval_text(to_json(choice)),
            "waves every 7.2 min (auto: a wave costs 900 ms, one failure in 26 h as given; limit of 5 % not reached; a wave is usable "
            "after 2.2 min; waves and failures cost about 0.59 % of the time)");
  choice.mtbf_given = false;
  EXPECT_THAT(interval_text(to_json(choice)), HasSubstr("one failure in 26 h as learned, 1 failure so far; "));
  choice.limit = IntervalLimit::share;
  EXPECT_THAT(interval_text(to_json(choice)), HasSubstr("limit of 5 % reached, the optimum would be 7.2 min"));
  choice.limit = IntervalLimit::staging;
  EXPECT_THAT(interval_text(to_json(choice)), HasSubstr("staging takes so long, the optimum would be 7.2 min"));
  choice.limit = IntervalLimit::shortest;
  EXPECT_THAT(interval_text(to_json(choice)), HasSubstr("shortest interval, the optimum would be"));
  nlohmann::json waiting = to_json(choice);
  waiting["waits_for_staging_of"] = 7;
  EXPECT_THAT(interval_text(waiting), HasSubstr("\nthe next wave waits until wave 7 is copied"));
  choice = {.interval_ms = 30'000, .mtbf = 45 * 86'400.0};
  EXPECT_EQ(interval_text(to_json(choice)),
            "the first wave after 30 s (auto: it shows what a wave costs; one failure in 45 days as learned, 0 failures so far)");
}

TEST(ReportTest, NothingInTheDataCanBecomeMarkup) {
  const std::string page = report_page(
      R"x({"event":"job-begin","t":1,"argv":["</script><script>alert(1)"],"nodes":[]})x" "\nnot json\n", "<b>job</b>");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;job&lt;/b&gt;"));
  EXPECT_THAT(page, HasSubstr("data-count=\"1\""));
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
}

TEST(JobFileTest, IsReadAsItWasWrittenAndFoundByItsName) {
  const std::string home = testing::TempDir() + "crrun_state_" + std::to_string(::getpid());
  std::filesystem::create_directories(home + "/job");
  ::setenv("XDG_STATE_HOME", home.c_str(), 1);
  JobFile file;
  file.spec.set_id("cr-12ab");
  file.spec.set_ranks(2);
  file.spec.add_argv("app");
  file.spec.set_cookie(std::string("\0\xff", 2));
  file.nodes = make_nodes(parse_hosts("a:2"), parse_hosts("b"));
  file.directory = home + "/job";
  file.port = 4711;
  file.server = make_key_pair();
  file.client = make_key_pair();
  file.run_secret = random_name(16);
  file.write();
  const auto mode = std::filesystem::status(home + "/job/job.json").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0600u);
  const JobFile again = JobFile::read(home + "/job");
  EXPECT_EQ(again.spec.cookie(), file.spec.cookie());
  EXPECT_EQ(again.nodes[1].spare(), true);
  EXPECT_EQ(again.client.secret_key, file.client.secret_key);
  EXPECT_EQ(again.run_secret, file.run_secret);
  write_registry({"cr-12ab", home + "/job", "h", "app", 1, 5, false, 0});
  write_registry({"cr-12cd", home + "/other", "h", "app", 1, 6, true, 3});
  EXPECT_EQ(find_job("12a"), home + "/job");
  EXPECT_EQ(find_job("cr-12cd"), home + "/other");
  EXPECT_THROW(find_job("cr-12"), std::runtime_error);
  EXPECT_THROW(find_job("zz"), std::runtime_error);
  EXPECT_THROW(JobFile::read(home), std::runtime_error);
  // Directories are made and removed by the id, and nodes are found by their place.
  JobFile bad = file;
  bad.spec.set_id("../..");
  bad.write();
  EXPECT_THROW(JobFile::read(home + "/job"), std::runtime_error);
  bad = file;
  bad.nodes[1].set_index(4'000'000'000);
  bad.write();
  EXPECT_THROW(JobFile::read(home + "/job"), std::runtime_error);
  std::filesystem::remove_all(home);
}

SendDown to_all(bool heartbeat) {
  SendDown out;
  if (heartbeat)
    out.down.mutable_heartbeat();
  else
    out.down.mutable_wave_end()->set_commit(true);
  return out;
}

TEST(HeldEffects, WaitForTheStateBeforeThemAndForNoLaterOne) {
  EXPECT_TRUE(Held::depends(to_all(false)));
  EXPECT_TRUE(Held::depends(RemoveStaged{1}));
  EXPECT_FALSE(Held::depends(to_all(true))) << "the ranks stop when heartbeats are not answered";
  EXPECT_FALSE(Held::depends(Say{}));
  Held held;
  held.put({RemoveStaged{1}, {}});
  held.saving(7);
  held.put({RemoveStaged{2}, {4, 5}});
  held.saving(9);
  held.put({RemoveStaged{3}, {}});
  const auto wave = [&] {
    const auto entry = held.next();
    return entry ? std::get<RemoveStaged>(entry->effect).wave : 0;
  };
  EXPECT_EQ(wave(), 1u);
  EXPECT_EQ(wave(), 0u);
  held.saved(8);  // newer than the one that is waited for
  const auto second = held.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->living, (std::vector<NodeIndex>{4, 5}));
  EXPECT_EQ(wave(), 0u);
  held.saved(7);  // an answer that came late
  EXPECT_EQ(wave(), 0u);
  held.give_up();
  EXPECT_EQ(wave(), 3u);
  EXPECT_TRUE(held.empty());
}

class Recorded : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/reprise-output-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  OutputRecord open(std::uint32_t ranks = 3) const { return OutputRecord(directory_ + "/record", ranks, 8); }

  std::string directory_;
};

TEST_F(Recorded, OutputIsKnownToALaterCrrun) {
  {
    OutputRecord record = open();
    EXPECT_FALSE(record.read(1, 1));
    record.wrote(1, 1, 5, "12345");
    record.wrote(1, 2, 3, "err");
    record.wrote(1, 1, 10, "67890");
  }
  OutputRecord record = open();
  EXPECT_EQ(record.read(1, 1)->offset, 10u);
  EXPECT_EQ(record.read(1, 1)->history, "34567890") << "the last 8 bytes";
  EXPECT_EQ(record.read(1, 2)->history, "err");
  EXPECT_FALSE(record.read(0, 1));
  EXPECT_FALSE(record.read(3, 1)) << "there is no such rank";
}

TEST_F(Recorded, MoreThanIsKeptOutputThatChangesAndGaps) {
  OutputRecord record = open();
  record.wrote(0, 1, 20, "abcdefghijklmnopqrst");
  EXPECT_EQ(record.read(0, 1)->history, "mnopqrst");
  record.wrote(0, 1, 18, "XY");  // after a rollback, from 16 on
  EXPECT_EQ(record.read(0, 1)->offset, 18u);
  EXPECT_EQ(record.read(0, 1)->history, "mnopXY");
  record.wrote(0, 1, 103, "gap");
  EXPECT_EQ(record.read(0, 1)->history, "gap");
  record.wrote(0, 1, 52, "to");  // before all that is kept
  EXPECT_EQ(record.read(0, 1)->offset, 52u);
  EXPECT_EQ(record.read(0, 1)->history, "to");
}

TEST_F(Recorded, ARecordOfAnotherFormIsNotUsed) {
  open().wrote(0, 1, 3, "abc");
  EXPECT_FALSE(open(4).read(0, 1));
  open(4).remove();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/record"));
}

}  // namespace
}  // namespace reprise::job
