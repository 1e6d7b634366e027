// SPDX-License-Identifier: GPL-2.0-only
#include <google/protobuf/util/json_util.h>

#include "crd/images/manifest.h"
#include "crrun/coordinator/state.h"
#include "image_sample.h"
#include "job/job_file.h"
#include "job_script.pb.h"
#include "rank_channel.h"
#include "seeds.h"

using namespace reprise;
using reprise::test::write_file;

namespace {

using fuzz::CoordinatorRun;
using fuzz::DaemonRun;

std::string state_text() {
  job::State state;
  state.id = "cr-fuzz";
  state.phase = "running";
  state.recovery = 2;
  state.next_wave = 4;
  state.placement = {0, 0, 1, 1};
  state.incarnation = {0, 0, 1, 2};
  state.spares = {3};
  for (job::WaveNumber number : {2u, 3u}) {
    job::StoredWave& wave = state.waves[number];
    wave.wave = number;
    for (job::Rank rank = 0; rank < 4; ++rank) wave.ranks.push_back({rank / 2, number == 3, number == 2, 1000, 7, {1, 2, 3}});
  }
  return job::to_json(state).dump();
}

/** @return every kind of message that a daemon may send, each with some content */
std::vector<job::Up> all_ups() {
  std::vector<job::Up> out;
  const auto* what = job::Up::descriptor()->FindOneofByName("what");
  for (int i = 0; i < what->field_count(); ++i) {
    job::Up up;
    up.set_from(static_cast<std::uint32_t>(i) % 4);
    auto* inner = up.GetReflection()->MutableMessage(&up, what->field(i));
    const auto* type = inner->GetDescriptor();
    for (int j = 0; j < type->field_count(); ++j) {
      const auto* field = type->field(j);
      if (field->is_repeated() && !field->is_map() && field->message_type()) inner->GetReflection()->AddMessage(inner, field);
      if (field->is_repeated() && field->cpp_type() == field->CPPTYPE_UINT32) inner->GetReflection()->AddUInt32(inner, field, 1);
    }
    out.push_back(up);
  }
  return out;
}

CoordinatorRun job_of_four() {
  CoordinatorRun run;
  run.set_nodes(2);
  run.set_spares(1);
  run.set_ranks(3);
  run.set_slots(1);
  run.set_shared(true);
  for (int i = 0; i < 4; ++i) run.add_steps()->mutable_obey();
  run.add_steps()->set_checkpoint(true);
  for (int i = 0; i < 3; ++i) run.add_steps()->mutable_obey();
  return run;
}

void save_coordinators(const std::string& dir) {
  const auto put = [&](const char* name, const CoordinatorRun& run) { write_file(dir + "/coordinator/" + name, run.SerializeAsString()); };
  CoordinatorRun run = job_of_four();
  put("wave", run);
  run.add_steps()->mutable_link_ended()->set_certain(true);
  for (int i = 0; i < 4; ++i) run.add_steps()->mutable_obey();
  put("loss", run);
  run.add_steps()->set_drain(1);
  for (int i = 0; i < 6; ++i) run.add_steps()->mutable_obey();
  put("drain", run);
  run = job_of_four();
  for (int i = 0; i < 12; ++i) run.add_steps()->set_tick_ms(700);
  put("silence", run);
  run = job_of_four();
  job::Spawn& spawn = *run.add_steps()->mutable_up()->mutable_spawn();
  spawn.add_apps()->add_argv("child");
  spawn.mutable_apps(0)->set_processes(2);
  for (int i = 0; i < 3; ++i) run.add_steps()->mutable_obey();
  put("spawn", run);
  for (const job::Up& up : all_ups()) *run.add_steps()->mutable_up() = up;
  put("everything", run);
  CoordinatorRun early;
  early.set_nodes(2);
  early.add_steps()->mutable_obey()->set_not_by(1);
  for (const job::Up& up : all_ups()) *early.add_steps()->mutable_up() = up;
  put("early", early);
  for (std::uint32_t begin : {1u, 2u}) {
    CoordinatorRun again = job_of_four();
    again.set_begin(begin);
    again.set_state(state_text());
    put(begin == 1 ? "restart" : "attach", again);
    for (const job::Up& up : all_ups()) *again.add_steps()->mutable_up() = up;
    put(begin == 1 ? "restart-everything" : "attach-everything", again);
  }
}

template <class Message>
std::string packet(Message message, std::uint32_t type, const std::string& rest) {
  message.head = {type, static_cast<std::uint32_t>(sizeof message + rest.size()), 0, 1};
  return std::string(reinterpret_cast<const char*>(&message), sizeof message) + rest;
}

void save_daemons(const std::string& dir) {
  const auto put = [&](const char* name, const DaemonRun& run) { write_file(dir + "/daemon/" + name, run.SerializeAsString()); };
  DaemonRun run;
  run.set_below(3);
  for (const job::Up& up : all_ups()) *run.add_steps()->mutable_up() = up;
  run.add_steps()->set_tick_ms(600);
  put("up", run);
  DaemonRun down;
  down.set_below(2);
  const auto* what = job::Down::descriptor()->FindOneofByName("what");
  for (int i = 0; i < what->field_count(); ++i) {
    job::Down& one = *down.add_steps()->mutable_down();
    one.GetReflection()->MutableMessage(&one, what->field(i));
  }
  put("down", down);
  DaemonRun pmix;
  crd::FromPmix ask;
  ask.mutable_fence()->add_members(0);
  *pmix.add_steps()->mutable_from_pmix() = ask;
  ask.mutable_publish()->set_id(1);
  (*ask.mutable_publish()->mutable_values())["key"] = "value";
  *pmix.add_steps()->mutable_from_pmix() = ask;
  ask.mutable_lookup()->add_keys("key");
  *pmix.add_steps()->mutable_from_pmix() = ask;
  ask.mutable_spawn()->add_apps(job::SpawnApp().SerializeAsString());
  *pmix.add_steps()->mutable_from_pmix() = ask;
  ask.mutable_modex()->set_id(2);
  *pmix.add_steps()->mutable_from_pmix() = ask;
  pmix.add_steps()->mutable_down()->mutable_modex_reply()->set_id(1);
  pmix.add_steps()->set_resend(true);
  put("pmix", pmix);
  DaemonRun rank;
  cr_rank_hello hello{};
  hello.protocol = CR_RANK_PROTOCOL;
  hello.addresses = 1;
  rank.add_steps()->set_from_rank(packet(hello, CR_RANK_HELLO, std::string("10.0.0.1:5\0", 11)));
  rank.add_steps()->set_from_rank(packet(cr_rank_prepared{}, CR_RANK_PREPARED, "not now"));
  rank.add_steps()->set_from_rank(packet(cr_rank_restored{}, CR_RANK_RESTORED, ""));
  rank.add_steps()->set_from_rank(packet(cr_rank_resumed{}, CR_RANK_RESUMED, ""));
  rank.add_steps()->set_from_rank(packet(cr_rank_wave_request{}, CR_RANK_WAVE_REQUEST, ""));
  rank.add_steps()->set_from_rank(packet(cr_rank_stays{}, CR_RANK_STAYS, "messages have crossed"));
  rank.add_steps()->set_from_rank(packet(cr_rank_copy_kept{}, CR_RANK_COPY_KEPT, "log"));
  rank.add_steps()->set_from_rank(packet(cr_rank_lost{}, CR_RANK_LOST, "gone"));
  rank.add_steps()->set_from_rank(packet(cr_rank_counters_at{}, CR_RANK_COUNTERS, ""));
  rank.add_steps()->set_from_rank(std::string("\x0d\0\0\0\x12\0\0\0\0\0\0\0\1\0\0\0hi", 18));
  rank.add_steps()->set_stream(std::string("\2\0\0\0\x60\1", 6));
  auto& frames = *rank.add_steps()->mutable_frames();
  frames.add_frames("U");
  frames.add_frames("body");
  put("rank", rank);
}

void save_files(const std::string& dir) {
  const auto put = [&](const char* name, char which, const std::string& text) { write_file(dir + "/files/" + name, which + text); };
  crd::Manifest manifest;
  manifest.wave = 3;
  manifest.streams = {{0, 1}, {1, 2}, {2, 3}};
  manifest.pipes = {{0, 0}, {1, 1}};
  manifest.files = {"/usr/bin/app"};
  put("manifest", 0, crd::manifest_text(manifest));
  put("job", 1,
      R"({"version":1,"spec":{"id":"cr-1","ranks":2,"argv":["app"]},"nodes":[{"host":"a","slots":2}],"host":"h","pid":1,)"
      R"("port":1,"addresses":["1.2.3.4"],"server":{"public":"p","secret":"s"},"client":{"public":"p","secret":"s"},)"
      R"("settings":{"fan_out":64,"lost_after_ms":3000,"oversubscribe":true}})");
  put("state", 2, state_text());
  put("hosts", 3, "a:2,b,[::1]:3,c");
  put("hostfile", 3, "a slots=2 # one\nb:3\nc max-slots=4\n");
  put("slurm", 3, "2(x3),1");
  put("options", 4, "-n\n4\n--hosts\na,b\n--checkpoint-every=60s\n--local-limit\n2G\n-x\nA=b\n./app\n-v");
  put("time", 4, "1.5min");
}

}  // namespace

void save_jobs(const std::string& dir) {
  save_coordinators(dir);
  save_daemons(dir);
  save_files(dir);
}
