// SPDX-License-Identifier: GPL-2.0-only
// crrun in the simulation: the coordinator, and what it asks for.
#include <algorithm>

#include "job/names.h"
#include "simulation_parts.h"

namespace reprise::job::sim {

void Cluster::begin(Coordinator::Begin how, std::optional<State> state) {
  coordinator_ = std::make_unique<Coordinator>(model_.settings, [] { return std::string(32, 'n'); }, how, std::move(state));
  ++coordinator_generation_;
  crrun_alive_ = true;
  has_saved_ = false;
  held_ = {};
  disk_ = {};
  newest_change_ = 0;
  newest_ = saved_;
  code_ = -1;
  for (Rank rank = 0; how == Coordinator::Begin::attach && rank < model_.ranks; ++rank) {
    const std::string& all = output_[rank];
    coordinator_->was_printed(rank, 1, all.size(), all.substr(all.size() - std::min<std::size_t>(all.size(), 4096)));
    coordinator_->was_printed(rank, 2, 0, "");
  }
  coordinator_->start(now());
  apply();
  tick(coordinator_generation_);
}

void Cluster::tick(std::uint64_t generation) {
  if (!crrun_alive_ || generation != coordinator_generation_) return;
  meter_.run(Meter::Where::loop, [&] { coordinator_->tick(now()); });
  apply();
  if (code_ < 0) later(100'000, [this, generation] { tick(generation); });
}

/** A message has come to crrun, over the connection of node @p via. */
void Cluster::arrived(NodeIndex via, const std::string& instance, const Up& up) {
  if (!crrun_alive_ || daemons_[up.from()]->cut) return;
  if (!meter_.on()) {
    coordinator_->message(up, now());
    return apply();
  }
  const std::string bytes = up.SerializeAsString(), peer = connection_name(via, instance);
  meter_.run(Meter::Where::loop, [&] {
    Up parsed;
    if (parsed.ParseFromString(bytes) && routes_.up(peer, parsed)) coordinator_->message(parsed, now());
  });
  apply();
}

/** The same as Runner::apply(). */
void Cluster::apply() {
  for (std::vector<Effect> effects; crrun_alive_;) {
    meter_.run(Meter::Where::loop, [&] { effects = coordinator_->take(); });
    if (effects.empty()) break;
    for (Effect& effect : effects) {
      std::vector<NodeIndex> living;
      const auto* send = std::get_if<SendDown>(&effect);
      if (send && send->down.to().empty()) meter_.run(Meter::Where::loop, [&] { living = coordinator_->members().living(); });
      if (!Held::depends(effect)) {
        carry_out(effect, living);
        continue;
      }
      held_.put({std::move(effect), std::move(living)});
      release();
    }
  }
  release();
  meter_.turn();
  check_saved();
}

void Cluster::release() {
  while (auto entry = held_.next()) carry_out(entry->effect, entry->living);
}

void Cluster::carry_out(Effect& effect, const std::vector<NodeIndex>& living) {
  if (auto* one = std::get_if<SendDown>(&effect)) send_down(one->down, living);
  if (auto* one = std::get_if<StartDaemon>(&effect)) start_daemon(one->node);
  if (auto* one = std::get_if<StopDaemon>(&effect)) {
    daemons_[one->node]->linked = false;
    meter_.run(Meter::Where::loop, [&] { routes_.stopped(one->node); });
  }
  if (auto* one = std::get_if<SaveState>(&effect)) save(std::move(one->records));
  if (auto* one = std::get_if<RemoveStaged>(&effect))
    std::erase_if(staged_, [&](const auto& image) { return !one->wave || image.first.first == one->wave; });
  if (auto* one = std::get_if<Say>(&effect); one && one->level != Log::DEBUG) said_.push_back(one->text);
  if (auto* one = std::get_if<WriteOutput>(&effect)) {
    if (one->stream == 1 && one->rank < output_.size()) output_[one->rank] += one->data;
    coordinator_->written(one->rank, one->stream, one->offset);
  }
  if (auto* one = std::get_if<Reply>(&effect)) replies_[one->request] = {one->ok, one->text};
  if (auto* one = std::get_if<Finish>(&effect)) code_ = one->code;
  if (auto* one = std::get_if<TimelineEvent>(&effect)) event(one->line);
}

// ------------------------------------------------------------------------------------------- the state

/** The same as Recorder::save(). */
void Cluster::save(std::vector<Record> records) {
  const auto change = std::make_shared<Change>();
  change->number = ++newest_change_;
  change->records = std::move(records);
  held_.saving(change->number);
  if (model_.costs.measure)
    meter_.run(Meter::Where::loop, [&] {
      for (const Record& record : change->records) update(newest_, record);
    });
  disk_.queue.push_back(change);
  write_state();
}

/** Write what has queued, as StateLog does: a line a change, or the whole state when the log is long. */
void Cluster::write_state() {
  if (disk_.busy || disk_.queue.empty()) return;
  const Changes changes = std::exchange(disk_.queue, {});
  std::uint64_t us = model_.costs.sync_us;
  if (model_.costs.measure || model_.costs.crrun_disk > 0) {
    std::size_t bytes = 0;
    meter_.run(Meter::Where::disks, [&] {
      for (const auto& change : changes) bytes += change->text().size();
    });
    disk_.log_bytes += bytes;
    if (!disk_.snapshot_bytes || disk_.log_bytes > std::max(StateLog::kLongLog, disk_.snapshot_bytes)) {
      // JOBDIR gets one as well.
      meter_.run(Meter::Where::disks, [&] { bytes = to_json(newest_).dump().size(); }, 2);
      disk_.snapshot_bytes = bytes;
      disk_.log_bytes = 0;
    }
    traffic_.saved_bytes += bytes;
    if (model_.costs.crrun_disk > 0) us += static_cast<std::uint64_t>(static_cast<double>(bytes) / model_.costs.crrun_disk);
  }
  if (!us) return written(changes);
  disk_.busy = true;
  later(us, [this, changes, generation = coordinator_generation_] {
    if (generation != coordinator_generation_) return;
    disk_.busy = false;
    written(changes);
    write_state();
    apply();
  });
}

void Cluster::written(const Changes& changes) {
  has_saved_ = true;
  for (const auto& change : changes)
    for (const Record& record : change->records)
      update(saved_, large() ? record : record_from_json(nlohmann::json::parse(to_json(record).dump()), model_.ranks));
  held_.saved(changes.back()->number);
}

void Cluster::event(const nlohmann::json& line) {
  meter_.run(Meter::Where::loop, [&] { traffic_.timeline_bytes += meter_.on() ? line.dump().size() : 0; });
  if (line.at("event") == "recovery-begin") gone_back_to_ = line.at("wave");
  if (line.at("event") == "wave-commit" || line.at("event") == "resume") {
    const StoredWave* wave = coordinator_->store().find(line.value("wave", gone_back_to_));
    for (const auto& [number, node] : spawned())
      if (!wave || !wave->find(number))
        violations_.push_back(line.at("event").get<std::string>() + " while process " + std::to_string(number) + " runs that is in no wave");
  }
  if (line.at("event") == "wave-begin") begun_wave_ = line.at("wave");
  if (line.at("event") == "recovery-begin" && line.at("domain") == "all") crossed_.clear();
  if (line.at("event") == "recovery-begin" && line.at("domain") == "spawned") {
    for (Rank rank : line.at("restart").get<std::vector<Rank>>())
      if (rank < model_.ranks) violations_.push_back("rank " + std::to_string(rank) + " is restarted while only spawned processes go back");
    if (!committed_.count(line.at("wave")))
      violations_.push_back("only spawned processes go back to wave " + line.at("wave").dump() + ", which does not count");
  }
  if (line.at("event") == "wave-commit") committed_.insert(line.at("wave").get<WaveNumber>());
  if (line.at("event") == "recovery-begin") {
    if (hangs_) --hangs_;
    // Nothing may be given up that could be had.
    const WaveNumber wave = line.at("wave");
    for (WaveNumber newer : committed_) {
      bool whole = newer > wave;
      for (Rank rank = 0; whole && rank < model_.ranks; ++rank) {
        const auto image = staged_.find({newer, rank});
        whole = image != staged_.end() && !image->second.damaged;
      }
      const StoredWave* known = coordinator_->store().find(newer);
      if (whole && known && known->staged())
        violations_.push_back("back to wave " + std::to_string(wave) + " though " + std::to_string(newer) + " is staged");
    }
    std::erase_if(committed_, [&](WaveNumber newer) { return newer > wave; });
  }
  const auto name = line.at("event").get<std::string>();
  if (!large() || name.find("rank") == std::string::npos) {
    ++counts_[name];
    timeline_.push_back(line);
  }
  for (std::size_t i = 0; i < triggers_.size(); ++i)
    if (triggers_[i].first(line)) {
      later(0, triggers_[i].second);
      triggers_.erase(triggers_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
}

/** What is saved is what a later crrun must know, at every moment. */
void Cluster::check_saved() {
  if (coordinator_ && !coordinator_->unforeseen().empty())
    violations_.push_back("a change of phase is not in the table: " + coordinator_->unforeseen().front());
  if (!crrun_alive_ || !has_saved_ || large() || disk_.busy) return;
  if (model_.costs.node_to_shared > 0) return;  // what a node has staged is saved with its last image
  if (const State now = coordinator_->state(); now != saved_)
    violations_.push_back("what is saved is not the state: " + nlohmann::json::diff(to_json(saved_), to_json(now)).dump());
}

void Cluster::send_down(const Down& down, const std::vector<NodeIndex>& living) {
  meter_.run(Meter::Where::loop, [&] {
    if (!meter_.on()) return;
    const Down* last = nullptr;
    for (const Routes::Copy& copy : routes_.down(down, living))
      if (std::exchange(last, copy.down.get()) != copy.down.get()) (void) copy.down->SerializeAsString();
  });
  auto message = std::make_shared<Parsed>();
  message->down = down;
  message->bytes = down.ByteSizeLong();
  const auto table = [&](const auto& placements) {
    for (const Placement& one : placements) message->ranks_at[one.node()].push_back(one.rank());
  };
  if (down.has_launch()) table(down.launch().placement());
  if (down.has_expect() && !large()) expectations_.push_back(down.expect());
  if (down.has_resume() && !large()) resumes_.push_back(down.resume());
  if (down.has_recover()) {
    if (!large()) recoveries_.push_back(down.recover());
    table(down.recover().placement());
    message->restart.insert(down.recover().restart().begin(), down.recover().restart().end());
  }
  std::set<NodeIndex> to(down.to().begin(), down.to().end());
  const auto send = [&](NodeIndex node) {
    transmit(-1, static_cast<int>(node), message->bytes, message->down.has_heartbeat(),
             [this, node, message] { pass_down(node, message); });
  };
  if (!tree_) {
    const std::vector<NodeIndex> all = to.empty() ? living : std::vector<NodeIndex>(to.begin(), to.end());
    for (NodeIndex node : all) send(node);
    return;
  }
  // To the top of each branch that has somebody to whom it goes.
  std::set<NodeIndex> tops;
  if (to.empty())
    for (NodeIndex node = 0; node < std::min<std::size_t>(model_.fan_out, daemons_.size()); ++node) tops.insert(node);
  for (NodeIndex node : to) {
    while (const auto parent = tree_->parent(node)) node = *parent;
    tops.insert(node);
  }
  for (NodeIndex node : tops) send(node);
}

}  // namespace reprise::job::sim
