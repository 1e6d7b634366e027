// SPDX-License-Identifier: GPL-2.0-only
// The simulated cluster: its parts, its time and its network, and what was seen of it.
#include <algorithm>

#include "simulation_parts.h"

namespace reprise::job::sim {

Cluster::Cluster(Model model) : model_(std::move(model)), random_(model_.seed), meter_(model_.costs.measure) {
  Settings& settings = model_.settings;
  settings.job_directory = "/shared/job";
  settings.spec.set_id("job");
  settings.spec.set_ranks(model_.ranks);
  settings.spec.add_argv("program");
  settings.spec.set_local_directory("/local");
  if (model_.shared) settings.spec.set_shared_directory("/shared");
  settings.spec.set_stdin_target("0");
  if (!settings.spec.heartbeat_ms()) settings.spec.set_heartbeat_ms(static_cast<std::uint32_t>(settings.lost_after_ms / 6));
  settings.spec.set_lost_after_ms(static_cast<std::uint32_t>(settings.lost_after_ms * 2 / 3));
  for (std::uint32_t i = 0; i < model_.nodes + model_.spares; ++i) {
    Node node;
    node.set_index(i);
    node.set_host("node" + std::to_string(i));
    node.set_slots(model_.slots);
    node.set_spare(i >= model_.nodes);
    settings.nodes.push_back(node);
    daemons_.push_back(std::make_unique<Daemon>());
  }
  if (model_.fan_out) tree_ = std::make_unique<Tree>(model_.nodes + model_.spares, model_.fan_out);
  output_.resize(model_.ranks);
  begin(Coordinator::Begin::launch, std::nullopt);
}

Cluster::~Cluster() = default;

void Cluster::later(std::uint64_t us, std::function<void()> what) { queue_.push({now_us_ + us, order_++, std::move(what)}); }

void Cluster::at(std::uint64_t ms, std::function<void()> what) {
  later(ms * 1000 > now_us_ ? ms * 1000 - now_us_ : 0, std::move(what));
}

void Cluster::when(std::function<bool(const nlohmann::json&)> matches, std::function<void()> what) {
  triggers_.emplace_back(std::move(matches), std::move(what));
}

bool Cluster::run_while(const std::function<bool()>& condition, std::uint64_t limit_ms) {
  const std::uint64_t end = now_us_ + limit_ms * 1000;
  while (condition()) {
    if (queue_.empty() || queue_.top().us > end) return false;
    Later next = std::move(const_cast<Later&>(queue_.top()));  // its place in the queue does not change
    queue_.pop();
    now_us_ = next.us;
    next.what();
  }
  return true;
}

bool Cluster::run(std::uint64_t limit_ms) {
  return run_while([this] { return code_ < 0; }, limit_ms);
}

void Cluster::run_until(std::uint64_t ms) {
  at(ms, [] {});
  run_while([&] { return now_us_ < ms * 1000; });
}

std::uint64_t Cluster::some_time() {
  return model_.fixed_times ? model_.image_us : std::uniform_int_distribution<std::uint64_t>(1, model_.image_us)(random_);
}

/** To read or write images of ranks of one node, which share its disk. */
std::uint64_t Cluster::image_time(std::size_t images, double bandwidth) {
  if (bandwidth <= 0) return some_time();
  return static_cast<std::uint64_t>(static_cast<double>(images * model_.image_bytes) / bandwidth);
}

void Cluster::transmit(int from, int to, std::size_t bytes, bool heartbeat, std::function<void()> arrived) {
  if (!heartbeat) {
    ++traffic_.all;
    traffic_.all_bytes += bytes;
  }
  if (!heartbeat && (from < 0 || to < 0)) {
    ++traffic_.at_crrun;
    traffic_.crrun_bytes += bytes;
  }
  const auto cost = model_.message_us +
                    (model_.bytes_per_us > 0 ? static_cast<std::uint64_t>(static_cast<double>(bytes) / model_.bytes_per_us) : 0);
  std::uint64_t sent = now_us_;
  if (cost) {
    std::uint64_t& busy = busy_us_[from].first;
    sent = busy = std::max(busy, now_us_) + cost;
  }
  later(sent + model_.latency_us - now_us_, [this, to, cost, arrived = std::move(arrived)] {
    if (!cost) return arrived();
    std::uint64_t& busy = busy_us_[to].second;
    busy = std::max(busy, now_us_) + cost;
    later(busy - now_us_, arrived);
  });
}

// --------------------------------------------------------------------------------------- what was seen

void Cluster::check(Rank rank) {
  if (large()) return;
  int count = 0;
  for (const auto& daemon : daemons_)
    if (const auto found = daemon->ranks.find(rank); found != daemon->ranks.end() && daemon->may(found->second)) ++count;
  if (count > 1)
    violations_.push_back("rank " + std::to_string(rank) + " runs " + std::to_string(count) + " times at " +
                          std::to_string(now_ms()) + " ms");
}

std::optional<std::uint64_t> Cluster::progress_ms(Rank rank) const {
  const auto node = where(rank);
  return node ? std::optional(daemons_[*node]->ranks.at(rank).progress_ms) : std::nullopt;
}

std::optional<NodeIndex> Cluster::where(Rank rank) const {
  std::optional<NodeIndex> out;
  for (NodeIndex node = 0; node < daemons_.size(); ++node) {
    const auto found = daemons_[node]->ranks.find(rank);
    if (found == daemons_[node]->ranks.end() || !daemons_[node]->may(found->second)) continue;
    if (out) return std::nullopt;
    out = node;
  }
  return out;
}

std::string Cluster::expected_output(Rank rank) const {
  std::string out;
  for (std::uint64_t at = model_.step_ms; model_.output && at <= model_.work_ms; at += model_.step_ms)
    out += line(rank, at);
  return out;
}

std::string Cluster::line(Rank rank, std::uint64_t progress_ms) const {
  const std::string text = std::to_string(rank) + " at " + std::to_string(progress_ms);
  return text + std::string(model_.line_bytes > text.size() ? model_.line_bytes - text.size() : 0, ' ') + "\n";
}

std::size_t Cluster::count(const std::string& event) const {
  const auto found = counts_.find(event);
  return found == counts_.end() ? 0 : found->second;
}

bool Cluster::said(const std::string& part) const { return times_said(part) > 0; }

std::size_t Cluster::times_said(const std::string& part) const {
  const auto has = [&](const std::string& text) { return text.find(part) != std::string::npos; };
  return static_cast<std::size_t>(std::count_if(said_.begin(), said_.end(), has));
}

}  // namespace reprise::job::sim
