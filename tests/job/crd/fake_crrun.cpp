// SPDX-License-Identifier: GPL-2.0-only
#include "fake_crrun.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/keys.h"
#include "job/names.h"

namespace reprise::crd::test {

using namespace std::chrono_literals;

char state_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name = text.rfind(") ");
  return name == std::string::npos || text[name + 2] == 'Z' ? 0 : text[name + 2];
}

bool parked(int pid) {
  for (int i = 0; i < 4; ++i) {
    if (state_of(pid) != 'D') return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  return true;
}

FakeCrrun::FakeCrrun(unsigned nodes) : nodes_(nodes), keys_(job::make_key_pair()), client_keys_(job::make_key_pair()) {
  char name[] = "/tmp/crd-test-XXXXXX";
  if (!::mkdtemp(name)) throw std::runtime_error("no directory for the test");
  directory_ = name;
  job.set_id(job::make_job_id());
  job.set_local_directory(directory_ + "/local");
  job.set_shared_directory(directory_ + "/shared");
  std::filesystem::create_directories(job::job_directory(job.shared_directory(), job.id()));
  job.set_working_directory(directory_);
  job.set_stdin_target("none");
  job.set_heartbeat_ms(100);
  job.set_lost_after_ms(1500);
  job.set_cookie(job::random_bytes(32));
  listen(0);
}

FakeCrrun::~FakeCrrun() {
  for (const auto& [node, pid] : daemons_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  for (const int fd : stdins_) ::close(fd);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void FakeCrrun::listen(std::uint16_t port) {
  job::ServerEvents events;
  events.up = [this](const job::Peer& peer, job::Up up) {
    if (hears && routes.up(peer, up)) take(up);
  };
  events.disconnected = [this](const job::Peer& peer) { routes.closed(peer); };
  server_ = std::make_unique<job::Server>(loop, keys_, client_keys_.public_key, port, std::move(events));
  port_ = server_->port();
}

void FakeCrrun::die() {
  server_.reset();
  routes = job::Routes(job::make_job_id());
  there_.clear();
}
void FakeCrrun::come_back() { listen(port_); }
void FakeCrrun::break_connections() {
  server_.reset();
  hears = is_heard = true;
  listen(port_);
}

std::string FakeCrrun::run_directory(std::uint32_t node) const { return directory_ + "/run-" + std::to_string(node); }
std::string FakeCrrun::image_directory(std::uint32_t node) const {
  return job::local_directory(job.local_directory() + std::to_string(node), job.id());
}

pid_t FakeCrrun::start_daemon(std::uint32_t node) {
  job::DaemonStart start;
  start.job = job.id();
  start.node = node;
  start.addresses = {"tcp://127.0.0.1:" + std::to_string(port_)};
  start.server_public_key = keys_.public_key;
  start.client = client_keys_;
  start.log_level = std::getenv("CRD_LOG") ? std::getenv("CRD_LOG") : "warning";
  start.run_directory = run_directory(node);
  for (const auto& [child, parent] : parents) start.relays |= parent == node;
  if (parents.count(node)) {
    const job::Relaying& parent = *routes.relaying(parents.at(node));
    start.parent_addresses.assign(parent.endpoints().begin(), parent.endpoints().end());
    start.parent_public_key = parent.public_key();
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[0], 0);
    ::execl(CRD, "crd", "--job-from-stdin", nullptr);
    ::_exit(127);
  }
  ::close(ends[0]);
  const std::string line = job::daemon_start_line(start) + "\n";
  if (::write(ends[1], line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw std::runtime_error("no daemon");
  stdins_.push_back(ends[1]);
  return std::exchange(daemons_[node], pid);
}

void FakeCrrun::kill_daemon(std::uint32_t node) {
  ::kill(daemons_.at(node), SIGKILL);
  ::waitpid(daemons_.at(node), nullptr, 0);
  daemons_.erase(node);
  there_.erase(node);
}

void FakeCrrun::start_daemons() {
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    if (parents.count(node) && !until([&] { return routes.relaying(parents.at(node)) != nullptr; }, 10s))
      throw std::runtime_error("the parent daemon does not connect");
    start_daemon(node);
  }
  if (!until([&] { return there_.size() == nodes_; }, 10s)) throw std::runtime_error("the daemons do not connect");
}

void FakeCrrun::place(std::uint32_t rank, std::uint32_t node) {
  for (auto& one : placement)
    if (one.rank() == rank) return one.set_node(node);
  placement.emplace_back();
  placement.back().set_rank(rank);
  placement.back().set_node(node);
}

void FakeCrrun::launch() {
  job::Down down;
  down.mutable_launch()->set_recovery(recovery);
  for (const auto& one : placement) *down.mutable_launch()->add_placement() = one;
  send_all(down);
}

void FakeCrrun::send(std::uint32_t node, job::Down down) {
  down.clear_to();
  down.add_to(node);
  deliver(std::move(down));
}
void FakeCrrun::send_all(const job::Down& down) { deliver(down); }

void FakeCrrun::deliver(job::Down down) {
  for (const job::Routes::Copy& copy : routes.down(std::move(down), {there_.begin(), there_.end()}))
    if (server_ && is_heard) server_->send(copy.peer, *copy.down);
}

bool FakeCrrun::until(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    loop.restart();
    loop.run_for(10ms);
  }
  return condition();
}

bool FakeCrrun::wait_exits(std::chrono::milliseconds limit) {
  return until([&] { return exits.size() == placement.size() && ended.size() == 2 * placement.size(); }, limit);
}

void FakeCrrun::take(const job::Up& up) {
  const std::uint32_t node = up.from();
  if (seen) seen(up);
  switch (up.what_case()) {
    case job::Up::kHello: {
      ++hello_count;
      hellos[node] = up.hello();
      instances[node] = up.instance();
      there_.insert(node);
      if (!answers) return;
      job::Down down;
      job::Welcome& welcome = *down.mutable_welcome();
      *welcome.mutable_job() = job;
      welcome.mutable_job()->set_local_directory(job.local_directory() + std::to_string(node));
      welcome.set_node(0);  // as in a Welcome to all: a daemon knows its own index
      welcome.set_recovery(recovery);
      for (std::uint32_t i = 0; i < nodes_; ++i) {
        auto* one = welcome.add_nodes();
        one->set_index(i);
        one->set_host("node" + std::to_string(i));
      }
      return send(node, down);
    }
    case job::Up::kRankStarted:
      started[up.rank_started().rank()] = up.rank_started();
      for (auto& [index, spawning] : spawns_) {
        spawning.started.insert(up.rank_started().rank());
        answer_spawn(index, spawning);
      }
      return;
    case job::Up::kRankReady:
      addresses[up.rank_ready().address().rank()] = up.rank_ready().address();
      return;
    case job::Up::kRankExited:
      exits[up.rank_exited().rank()] = up.rank_exited().wait_status();
      finalized[up.rank_exited().rank()] = up.rank_exited().finalized();
      return;
    case job::Up::kOutput: {
      const auto& message = up.output();
      if (message.recovery() != recovery) return;
      if (message.end()) ends.emplace_back(message.rank(), message.offset());
      std::string& text = output[{message.rank(), message.stream()}];
      // Repeated output must be identical.
      const std::size_t known = std::min<std::size_t>(text.size() - std::min<std::size_t>(text.size(), message.offset()), message.data().size());
      if (message.offset() > text.size() || text.compare(message.offset(), known, message.data(), 0, known) != 0) ++contradictions;
      if (message.offset() <= text.size()) text.append(message.data(), known);
      if (message.end()) ended.insert({message.rank(), message.stream()});
      if (!acknowledge) return;
      job::Down down;
      down.mutable_output_seen()->set_rank(message.rank());
      down.mutable_output_seen()->set_stream(message.stream());
      down.mutable_output_seen()->set_offset(message.offset() + message.data().size());
      return send(node, down);
    }
    case job::Up::kFence:
      return fence(up);
    case job::Up::kSpawn:
      return spawn(up);
    case job::Up::kSpawnKnown:
      spawns_[up.spawn_known().index()].known.insert(node);
      return answer_spawn(up.spawn_known().index(), spawns_[up.spawn_known().index()]);
    case job::Up::kModexBlob: {
      blobs_[up.modex_blob().rank()] = up.modex_blob().data();
      for (const auto& [asker, request] : std::exchange(waiting_, {})) {
        job::Up again;
        again.set_from(asker);
        *again.mutable_modex_request() = request;
        take(again);
      }
      return;
    }
    case job::Up::kModexRequest: {
      const auto found = blobs_.find(up.modex_request().rank());
      if (found == blobs_.end()) return waiting_.emplace_back(node, up.modex_request()), void();
      job::Down down;
      down.mutable_modex_reply()->set_id(up.modex_request().id());
      down.mutable_modex_reply()->set_rank(up.modex_request().rank());
      down.mutable_modex_reply()->set_data(found->second);
      return send(node, down);
    }
    case job::Up::kPublish:
    case job::Up::kLookup: {
      job::Down down;
      job::LookupReply& reply = *down.mutable_lookup_reply();
      if (up.has_publish()) {
        reply.set_id(up.publish().id());
        for (const auto& [key, value] : up.publish().values()) published_[key] = value;
        for (const auto& key : up.publish().keys()) published_.erase(key);
      } else {
        reply.set_id(up.lookup().id());
        for (const auto& key : up.lookup().keys())
          if (published_.count(key)) (*reply.mutable_values())[key] = published_[key];
        if (reply.values().empty() && up.lookup().wait()) {
          lookups_.emplace_back(node, up.lookup());
          return;
        }
      }
      send(node, down);
      for (const auto& [asker, lookup] : up.has_publish() ? std::exchange(lookups_, {}) : decltype(lookups_){}) {
        job::Up again;
        again.set_from(asker);
        *again.mutable_lookup() = lookup;
        take(again);
      }
      return;
    }
    case job::Up::kAbort:
      aborts.push_back(up.abort());
      return;
    case job::Up::kHeartbeat: {
      ++heartbeats;
      if (!answers) return;
      // As if the answer had been delayed for long.
      if (!late_answers) heartbeat_ns[node] = up.heartbeat().unix_ns();
      job::Down down;
      down.add_to(node);
      down.mutable_heartbeat()->set_unix_ns(heartbeat_ns[node]);
      for (const auto& one : up.heartbeat().below()) {
        ++relayed_heartbeats[one.node()];
        down.add_to(one.node());
        auto* mine = down.mutable_heartbeat()->add_below();
        mine->set_node(one.node());
        mine->set_unix_ns(one.unix_ns());
      }
      return deliver(std::move(down));
    }
    case job::Up::kLog:
      logs.push_back(up.log().text());
      return;
    case job::Up::kWaveDone:
      for (const auto& rank : up.wave_done().ranks()) wave_done[rank.rank()] = rank;
      return;
    case job::Up::kRestored:
      for (const auto& rank : up.restored().ranks()) restored[rank.rank()] = rank;
      return;
    case job::Up::kResumed:
      for (const auto& rank : up.resumed().ranks()) resumed[rank.rank()] = rank;
      return;
    case job::Up::kStaged:
      for (const auto& rank : up.staged().ranks()) staged[rank.rank()] = rank;
      staging_finished = staging_finished || up.staged().finished();
      return;
    default:
      return;
  }
}

void FakeCrrun::fence(const job::Up& up) {
  const job::Fence& fence = up.fence();
  if (fence.recovery() != recovery || forget_fences) return;
  std::set<std::pair<std::uint32_t, bool>> wanted;
  std::string key = std::to_string(fence.recovery()) + "/" + std::to_string(fence.count()) + "/" + fence.group() + ":";
  for (const std::uint32_t member : fence.members()) key += std::to_string(member) + ",";
  for (const auto& one : placement) {
    const bool spawned = one.rank() >= job.ranks();
    // No members: all of the job's own ranks.
    if (fence.members().empty() ? !spawned : std::find(fence.members().begin(), fence.members().end(), one.rank()) != fence.members().end())
      wanted.emplace(one.node(), spawned);
  }
  for (const auto& [index, spawning] : spawns_)
    for (std::uint32_t rank = 0; rank < spawning.nodes.size() && !spawned_take_part; ++rank)  // else they are in the placement
      if (std::find(fence.members().begin(), fence.members().end(), 100 * index + rank) != fence.members().end())
        wanted.emplace(spawning.nodes[rank], true);
  Open& open = fences_[key];
  open.data += fence.data();
  open.from.emplace(up.from(), fence.spawned());
  if (open.from != wanted) return;
  ++fences;
  job::Down down;
  job::FenceDone& done = *down.mutable_fence_done();
  *done.mutable_members() = fence.members();
  done.set_count(fence.count());
  done.set_data(open.data);
  done.set_recovery(recovery);
  done.set_group(fence.group());
  if (fence.context()) done.set_context(++contexts_);
  fences_.erase(key);
  send_all(down);
}

void FakeCrrun::spawn(const job::Up& up) {
  const auto index = static_cast<std::uint32_t>(spawns_.size() + 1);
  Spawning& spawning = spawns_[index];
  spawning.node = up.from();
  spawning.question = up.spawn().id();
  job::Down down;
  job::SpawnBegin& begin = *down.mutable_spawn_begin();
  begin.set_recovery(recovery);
  begin.set_index(index);
  begin.set_first(100 * index);
  begin.set_parent(up.spawn().from());
  *begin.mutable_apps() = up.spawn().apps();
  for (const auto& app : up.spawn().apps())
    for (std::uint32_t i = 0; i < app.processes(); ++i) spawning.nodes.push_back(static_cast<std::uint32_t>(spawning.nodes.size()) % nodes_);
  begin.mutable_node_of_rank()->Assign(spawning.nodes.begin(), spawning.nodes.end());
  begin.set_wave(last_wave_);
  spawning.begin = begin;
  for (std::uint32_t rank = 0; rank < spawning.nodes.size() && spawned_take_part; ++rank) place(begin.first() + rank, spawning.nodes[rank]);
  send_all(down);
}

void FakeCrrun::answer_spawn(std::uint32_t index, Spawning& spawning) {
  std::size_t started = 0;
  for (std::uint32_t rank = 0; rank < spawning.nodes.size(); ++rank) started += spawning.started.count(100 * index + rank);
  if (spawning.answered || spawning.known.size() < nodes_ || started < spawning.nodes.size()) return;
  spawning.answered = true;
  job::Down down;
  down.mutable_spawn_reply()->set_id(spawning.question);
  down.mutable_spawn_reply()->set_nspace(job::spawned_name(job.id(), index));
  send(spawning.node, down);
}

std::string FakeCrrun::wave(std::uint32_t number, bool commit) {
  wave_done.clear();
  last_wave_ = std::max(last_wave_, number);
  job::Down down;
  for (const auto& [index, spawning] : spawns_)
    if (spawned_take_part) down.mutable_wave_begin()->add_spawned(spawning.begin.first());
  down.mutable_wave_begin()->set_wave(number);
  down.mutable_wave_begin()->set_recovery(recovery);
  down.mutable_wave_begin()->set_timeout_ms(30000);
  send_all(down);
  std::string error = until([&] { return wave_done.size() == placement.size(); }) ? "" : "the wave does not end";
  for (const auto& [rank, report] : wave_done)
    if (error.empty() && !report.error().empty()) error = (report.again() ? "again: " : "") + report.error();
  down.mutable_wave_end()->set_wave(number);
  down.mutable_wave_end()->set_commit(commit && error.empty());
  send_all(down);
  return error;
}

std::string FakeCrrun::recover(std::uint32_t wave, const std::set<std::uint32_t>& restart) {
  restored.clear();
  resumed.clear();
  ++recovery;
  moved.insert(restart.begin(), restart.end());
  job::Down down;
  fill(*down.mutable_recover(), wave, restart);
  down.mutable_recover()->set_recovery(recovery);
  down.mutable_recover()->set_deadline_ms(deadline_ms);
  for (const std::uint32_t rank : restart) {
    exits.erase(rank);
    ended.erase({rank, 1});
    ended.erase({rank, 2});
  }
  send_all(down);
  if (!until([&] { return restored.size() == placement.size(); }, 90s)) return "not all ranks are brought back";
  job::Down go;
  job::Resume& resume = *go.mutable_resume();
  resume.set_recovery(recovery);
  resume.set_nonce(job::random_bytes(32));
  for (const std::uint32_t rank : moved) resume.add_moved(rank);
  for (const auto& [rank, report] : restored) {
    if (!report.error().empty()) return report.error();
    *resume.add_addresses() = report.address();
  }
  send_all(go);
  return until([&] { return resumed.size() == placement.size(); }) ? "" : "not all ranks go on";
}

void FakeCrrun::expect(std::uint32_t wave, const std::set<std::uint32_t>& restart) {
  job::Down down;
  job::Recover& message = *down.mutable_expect();
  if (wave) fill(message, wave, restart);
  send_all(down);
}

void FakeCrrun::fill(job::Recover& message, std::uint32_t wave, const std::set<std::uint32_t>& restart) const {
  message.set_wave(wave);
  for (const auto& one : placement) {
    *message.add_placement() = one;
    if (!names_all_images && !restart.count(one.rank())) continue;
    auto* image = message.add_images();
    image->set_rank(one.rank());
    image->add_paths(job::image_path(image_directory(one.node()), wave, one.rank()));
    image->add_paths(job::image_path(job::job_directory(job.shared_directory(), job.id()), wave, one.rank()));
  }
  for (const std::uint32_t rank : restart) message.add_restart(rank);
  message.mutable_fetch()->Add(fetch.begin(), fetch.end());
  message.mutable_kept()->Add(kept.begin(), kept.end());
  for (const auto& [index, spawning] : spawns_) {
    if (!spawned_take_part) continue;
    job::SpawnBegin& begin = *message.add_spawned();
    begin = spawning.begin;
    begin.set_begun(true);
    for (const auto& one : placement)
      if (one.rank() >= begin.first() && one.rank() - begin.first() < spawning.nodes.size())
        begin.set_node_of_rank(static_cast<int>(one.rank() - begin.first()), one.node());
  }
}

void FakeCrrun::shut_down(bool keep_images) {
  job::Down down;
  down.mutable_shutdown()->set_kill(true);
  down.mutable_shutdown()->set_keep_images(keep_images);
  send_all(down);
  until([&] {
    for (auto at = daemons_.begin(); at != daemons_.end();)
      at = ::waitpid(at->second, nullptr, WNOHANG) == at->second ? daemons_.erase(at) : std::next(at);
    return daemons_.empty();
  }, 15s);
}

}  // namespace reprise::crd::test
