// SPDX-License-Identifier: GPL-2.0-only
// Options of mapping and binding, rankfiles, and several programs on crrun's command line.
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <map>

#include "crrun/mapping_options.h"
#include "crrun/options.h"
#include "job/files.h"
#include "job/programs.h"

#include "crrun_command_line.h"

namespace reprise::job {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Options options_of(std::vector<std::string> line) {
  Options out = parse(std::move(line)).options;
  split_programs(out);
  return out;
}

Settings settings(std::vector<std::string> line) {
  line.insert(line.begin(), {"--hosts", "a:4,b:4"});
  return make_settings(options_of(std::move(line)), "cr-1");
}

std::string refusal(std::vector<std::string> line) {
  try {
    settings(std::move(line));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "it is accepted";
}

TEST(MapByTest, IsMpiruns) {
  EXPECT_EQ(settings({"app"}).spec.ranks(), 8u);
  EXPECT_EQ(settings({"app"}).spec.bind_to(), "none");
  EXPECT_TRUE(settings({"--map-by", "node", "app"}).spec.mapping().by_node());
  const Settings ppr = settings({"-n", "4", "--map-by", "PPR:2:package:PE=2", "app"});
  EXPECT_EQ(ppr.spec.mapping().per_part(), 2u);
  EXPECT_EQ(ppr.spec.mapping().part(), Mapping::PACKAGE);
  EXPECT_EQ(ppr.spec.mapping().pe(), 2u);
  EXPECT_EQ(ppr.spec.bind_to(), "core");
  const Settings span = settings({"--map-by", "numa:span:oversubscribe", "-n", "9", "app"});
  EXPECT_TRUE(span.spec.mapping().span());
  EXPECT_TRUE(span.oversubscribe);
  EXPECT_EQ(span.spec.bind_to(), "numa") << "what ranks are mapped to, they are bound to";
  EXPECT_FALSE(settings({"--oversubscribe", "--map-by", ":nooversubscribe", "app"}).oversubscribe);
  EXPECT_EQ(settings({"--map-by", "socket", "--bind-to", "core:overload-allowed", "app"}).spec.bind_to(), "core");
  EXPECT_TRUE(settings({"--bind-to", "core:overload-allowed", "app"}).spec.mapping().overload());
}

TEST(MapByTest, SoManyRanksPerNode) {
  const std::vector<std::vector<std::string>> lines{{"-N", "3"}, {"--npernode", "3"}, {"-npernode", "3"}, {"--map-by", "ppr:3:node"}};
  for (const std::vector<std::string>& line : lines) {
    std::vector<std::string> words = line;
    words.push_back("app");
    const Settings it = settings(words);
    EXPECT_EQ(it.spec.ranks(), 6u) << line[0];
    EXPECT_EQ(it.spec.mapping().per_part(), 3u) << line[0];
    EXPECT_EQ(it.spec.bind_to(), "none") << line[0];
  }
  EXPECT_EQ(settings({"-N", "2", "--map-by", ":pe=2", "app"}).spec.mapping().pe(), 2u);
  EXPECT_THAT(refusal({"-N", "2", "--map-by", "core", "app"}), AllOf(HasSubstr("-N 2"), HasSubstr("ppr:2:node")));
}

TEST(MapByTest, WhatIsNotKnownIsNamedWithWhatThereIs) {
  EXPECT_THAT(refusal({"--map-by", "l3cache", "app"}), AllOf(HasSubstr("\"l3cache\""), HasSubstr("package")));
  EXPECT_THAT(refusal({"--map-by", "core:nolocal", "app"}), AllOf(HasSubstr("\"nolocal\""), HasSubstr("oversubscribe")));
  EXPECT_THAT(refusal({"--map-by", "core:pe=0", "app"}), HasSubstr("\"0\""));
  EXPECT_THAT(refusal({"--map-by", "ppr:2", "app"}), HasSubstr("ppr:N:WHAT"));
  EXPECT_THAT(refusal({"--map-by", "ppr:x:node", "app"}), HasSubstr("\"x\""));
  EXPECT_THAT(refusal({"--map-by", "slot:span", "app"}), HasSubstr("span is for"));
  EXPECT_THAT(refusal({"--bind-to", "l2cache", "app"}), HasSubstr("none, hwthread, core, numa, package"));
  EXPECT_THAT(refusal({"--bind-to", "core:if-supported", "app"}), HasSubstr("overload-allowed"));
  EXPECT_THAT(refusal({"--bind-to", "none", "--map-by", "slot:pe=2", "app"}), HasSubstr("pe=N binds ranks to cores"));
  EXPECT_THAT(refusal({"--bind-to", "package", "--map-by", "core", "app"}), HasSubstr("within the core"));
  EXPECT_THAT(refusal({"--map-by", "ppr:1:package", "app"}), HasSubstr("-n N"));
  EXPECT_THAT(refusal({"--map-by", "rankfile", "app"}), HasSubstr("file=PATH"));
}

TEST(MapByTest, ARestartKeepsItUnlessItIsGiven) {
  Settings it = settings({"-n", "4", "--map-by", "package:pe=2", "app"});
  change_settings(it, Options{});
  EXPECT_EQ(it.spec.mapping().pe(), 2u);
  EXPECT_EQ(it.spec.bind_to(), "core");
  change_settings(it, options_of({"--bind-to", "core:overload-allowed"}));
  EXPECT_TRUE(it.spec.mapping().overload());
  change_settings(it, options_of({"--map-by", "node"}));
  EXPECT_TRUE(it.spec.mapping().by_node());
  EXPECT_EQ(it.spec.bind_to(), "none");
}

std::vector<std::string> described(const std::string& text) {
  std::vector<std::string> out;
  for (const RankSlots& line : parse_rankfile(text, "ranks", {"a", "b"})) out.push_back(line.host() + " " + line.slots() + " " + line.where());
  return out;
}

TEST(RankfileOptions, LinesInAnyOrder) {
  EXPECT_THAT(described("# two\nrank 1=b slot=1:0,1\n\nrank 0=+n0 slot=10-12 # first\n"),
              ElementsAre("a 10-12 ranks:4", "b 1:0,1 ranks:2"));
}

TEST(RankfileOptions, ErrorsNameFileAndLine) {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      described(text);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "it is accepted";
  };
  EXPECT_THAT(refused("rank 0=a slot=0\nrank 1 b slot=1\n"), AllOf(HasSubstr("ranks:2: "), HasSubstr("rank N=HOST slot=LIST")));
  EXPECT_THAT(refused("rank 0=a slot=x\n"), HasSubstr("ranks:1: slot=x"));
  EXPECT_THAT(refused("rank 0=c slot=0\n"), HasSubstr("ranks:1: c is not a node of this job"));
  EXPECT_THAT(refused("rank 0=+n2 slot=0\n"), HasSubstr("ranks:1: +n2"));
  EXPECT_THAT(refused("rank x=a slot=0\n"), HasSubstr("ranks:1: \"x\""));
  EXPECT_THAT(refused("rank 0=a slot=0\nrank 0=b slot=0\n"), HasSubstr("ranks:2: rank 0 has a line already: ranks:1"));
  EXPECT_THAT(refused("rank 1=a slot=0\n"), HasSubstr("ranks: rank 0 has no line"));
  EXPECT_THAT(refused("# none\n"), HasSubstr("ranks has no line"));
}

class RankfileOfAJob : public testing::Test {
 protected:
  RankfileOfAJob() { write_atomically(path_, "rank 0=b slot=0\nrank 1=a slot=1\n"); }
  ~RankfileOfAJob() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "reprise-rankfile-" + std::to_string(::getpid());
};

TEST_F(RankfileOfAJob, SaysHowManyRanksThereAre) {
  const std::map<std::string, std::string> both{{"--rankfile", path_}, {"--map-by", "rankfile:file=" + path_}};
  for (const auto& [option, value] : both) {
    const Settings it = settings({option, value, "app"});
    EXPECT_EQ(it.spec.ranks(), 2u) << option;
    EXPECT_EQ(it.spec.rankfile(0).host(), "b") << option;
    EXPECT_EQ(settings({option, value, "-n", "1", "app"}).spec.rankfile_size(), 1) << option;
  }
  EXPECT_THAT(refusal({"--rankfile", path_, "-n", "3", "app"}), HasSubstr(path_ + ": rank 2 has no line"));
  EXPECT_THAT(refusal({"--rankfile", path_, "--bind-to", "core", "app"}), HasSubstr("--bind-to core"));
  EXPECT_THAT(refusal({"--rankfile", path_, "-N", "2", "app"}), HasSubstr("--rankfile"));
  EXPECT_NE(refusal({"--rankfile", path_ + ".none", "app"}).find(path_ + ".none"), std::string::npos);
}

TEST(ProgramOptionsTest, EachHasItsOwn) {
  const Settings it = settings({"-n", "2", "-x", "A=1", "--wdir", "/one", "--mca", "k", "v", "./a", "-n", "7", ":", "-np", "3", "-x", "A=2", "./b", "x", ":", "-n1", "./c"});
  ASSERT_EQ(it.spec.apps_size(), 3);
  EXPECT_EQ(it.spec.ranks(), 6u);
  EXPECT_THAT(command_line(it.spec), ElementsAre("./a", "-n", "7", ":", "./b", "x", ":", "./c"));
  EXPECT_EQ(it.spec.apps(0).working_directory(), "/one");
  EXPECT_EQ(it.spec.apps(1).working_directory(), std::filesystem::current_path().string());
  EXPECT_EQ(it.spec.apps(0).environment(0).value(), "1");
  EXPECT_EQ(it.spec.apps(1).environment(0).value(), "2");
  EXPECT_EQ(it.spec.apps(2).environment_size(), 0);
  EXPECT_EQ(it.spec.apps(0).hosts(), "") << "a list before the first program is the job's";
  EXPECT_EQ(it.spec.environment(it.spec.environment_size() - 1).name(), "OMPI_MCA_k") << "for all";
}

TEST(ProgramOptionsTest, NodesOfTheirOwn) {
  const Settings it = make_settings(options_of({"--hosts", "a:2", "-n", "2", "x", ":", "--hosts", "a,b:2", "-n", "3", "y"}), "cr-1");
  ASSERT_EQ(it.nodes.size(), 2u);
  EXPECT_EQ(it.nodes[0].slots(), 3u);
  EXPECT_EQ(it.spec.apps(0).hosts(), "a");
  EXPECT_EQ(it.spec.apps(1).hosts(), "a,b");
}

TEST(ProgramOptionsTest, WithSoManyPerNodeNeedNoNumber) {
  const Settings it = settings({"-N", "1", "x", ":", "y"});
  EXPECT_EQ(it.spec.ranks(), 4u);
  EXPECT_EQ(it.spec.apps(1).processes(), 2u);
}

TEST(ProgramOptionsTest, RefusalsNameTheProgram) {
  EXPECT_THAT(refusal({"-n", "2", "x", ":", "y"}), AllOf(HasSubstr("y: "), HasSubstr("-n N")));
  EXPECT_THAT(refusal({"-n", "2", "x", ":", "--map-by", "core", "y"}), AllOf(HasSubstr("program 2"), HasSubstr("--map-by")));
  EXPECT_THAT(refusal({"-n", "2", "x", ":"}), HasSubstr("program 2 (behind \":\") is missing"));
  EXPECT_THAT(refusal({"-n", "5", "x", ":", "-n", "4", "y"}), HasSubstr("8 slots for 9 ranks"));
}

}  // namespace
}  // namespace reprise::job
