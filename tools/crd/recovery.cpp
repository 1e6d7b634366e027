// SPDX-License-Identifier: GPL-2.0-only
#include "crd/recovery.h"

#include <algorithm>
#include <utility>

#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {

Recovery::Guard Recovery::guard() const {
  return [this, turn = turn_] { return turn == turn_; };
}

void Recovery::note(std::uint32_t number, const char* what) const {
  spdlog::debug("recovery {}: rank {}: {} after {} ms", number_, number, what, (unix_ns() - begun_ns_) / 1'000'000);
}

void Recovery::abandon() {
  ++turn_;
  timer_.cancel();
  fetching_.stop();
  // A tool that is killed during its work may leave its rank dead. A tool that had not begun leaves it unchanged. The
  // next recovery checks which. A process that a killed cr_restart was making dies with it.
  for (auto& [number, bringing] : ranks_) {
    Rank* rank = node_.find(number);
    if (bringing.restart && bringing.tool && rank) {
      rank->pid = -1;
      rank->exited = true;
    }
    node_.end_tool(std::move(bringing.tool));
    if (bringing.ready) node_.end_tool(std::move(bringing.ready->tool));
  }
  ranks_.clear();
}

void Recovery::forget() {
  abandon();
  old_pmix_.clear();
  pmix_mixed_.clear();
}

void Recovery::begin(const job::Recover& message) {
  if (message.recovery() <= node_.recovery && node_.recovery != 0) {
    spdlog::debug("recovery {} is void: {} is known", message.recovery(), node_.recovery);
    return;
  }
  superseding_ = !ranks_.empty();
  abandon();
  node_.recovery = number_ = message.recovery();
  stay_ = message.stay();
  if (!stay_) node_.own_since = number_;
  wave_ = message.wave();
  begun_ns_ = unix_ns();
  renewals_.clear();
  told_ = resumed_told_ = false;
  node_.placement.clear();
  for (const job::Placement& one : message.placement()) node_.placement[one.rank()] = one.node();
  node_.kept.only([this](std::uint32_t rank) {
    const auto where = node_.placement.find(rank);
    return where != node_.placement.end() && where->second == node_.index;
  });
  const std::set<std::uint32_t> restart(message.restart().begin(), message.restart().end());
  const auto images = images_here(node_, message);
  std::vector<std::uint32_t> here;
  for (const auto& [number, where] : node_.placement) {
    if (where != node_.index || !takes_back(number)) continue;
    Bringing& bringing = ranks_[number];
    const Rank* rank = node_.find(number);
    bringing.restart = restart.count(number) || !rank || !rank->alive();
    bringing.anew = bringing.restart || rank->newer_than(wave_);
    bringing.report.set_rank(number);
    bringing.report.set_restarted(bringing.restart);
    bringing.report.set_begin_unix_ns(unix_ns());
    bringing.resume_report.set_rank(number);
    bringing.place = images.at(number);
    bringing.ready = standby_.take(number, bringing.restart, bringing.place);
    here.push_back(number);
  }
  // What was prepared begins with the memory of the image.
  for (const job::KeepCopy& newer : message.kept())
    if (const auto found = ranks_.find(newer.copy().rank()); found != ranks_.end() && found->second.ready)
      node_.end_tool(std::move(std::exchange(found->second.ready, std::nullopt)->tool));
  ready_pmix_ = standby_.take_pmix(node_.placement, here);
  standby_.abandon();
  spdlog::info("recovery {} to wave {}: {} ranks here", number_, wave_, ranks_.size());
  if (message.deadline_ms()) {
    timer_.expires_after(std::chrono::milliseconds(message.deadline_ms()));
    timer_.async_wait([this, current = guard()](const asio::error_code& error) {
      if (error || !current()) return;
      for (auto& [number, bringing] : ranks_)
        if (!bringing.done) fail(number, fmt::format("rank {} was not restored in time", number));
    });
  }
  copies_.recovering();
  kill_those_that_leave([this, orders = fetching_.orders(message), kept = copies_.orders(message)] {
    copies_.bring(wave_, kept, [this, orders, current = guard()](const std::vector<KeptCopies::Brought>& brought) {
      if (!current()) return;
      for (const KeptCopies::Brought& one : brought) node_.kept.give(wave_, one.rank, one.name, one.memory);
      // The disk thread may still be renaming a wave's images.
      node_.on_disk([] { return 0; }, [this, orders, current](int) {
        if (current()) fetch_and_begin(orders);
      });
    });
  });
}

void Recovery::fetch_and_begin(const std::vector<job::Fetch>& orders) {
  const auto then = [this](std::uint32_t rank, const Fetching::Result& result) { fetched(rank, result); };
  for (const std::uint32_t number : fetching_.begin(wave_, orders, then))
    if (const auto found = ranks_.find(number); found != ranks_.end()) found->second.awaited = !found->second.ready;
  begin_all();
}

void Recovery::fetched(std::uint32_t number, const Fetching::Result& result) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end() || !std::exchange(found->second.awaited, false) || found->second.done) return;
  note(number, result.error.empty() ? "its image has come from another node" : "no image of it has come from another node");
  Bringing& bringing = found->second;
  if (result.error.empty()) {
    const job::ImagePlace others = bringing.place;
    bringing.place.clear_paths();
    bringing.place.add_paths(job::image_path(node_.images(), wave_, number));
    for (const std::string& path : others.paths()) bringing.place.add_paths(path);
    ++bringing.next_path;
    return find_images(node_, {{number, bringing.place}}, [this, number, current = guard()](const std::map<std::uint32_t, FoundImage>& found) {
      if (current()) found_image(number, found.at(number));
    });
  }
  bringing.image_bad = result.bad;
  bringing.problems = result.error;
  if (bringing.place.paths_size()) return bring(number);
  bringing.report.set_image_bad(result.bad);
  fail(number, result.error);
}

void Recovery::begin_all() {
  std::vector<std::uint32_t> ready;
  std::map<std::uint32_t, job::ImagePlace> places;
  for (auto& [number, bringing] : ranks_) {
    if (bringing.awaited) continue;
    if (!bringing.ready && bringing.place.paths_size()) {
      places[number] = bringing.place;
      ++bringing.next_path;
    } else {
      ready.push_back(number);
    }
  }
  for (const std::uint32_t number : ready) bring(number);
  find_images(node_, places, [this, current = guard()](const std::map<std::uint32_t, FoundImage>& found) {
    if (!current()) return;
    for (const auto& [number, image] : found) found_image(number, image);
    prepare_pmix();
    tell_when_done();
  });
}

void Recovery::kill_those_that_leave(std::function<void()> then) {
  bool some_left = false;
  for (auto at = node_.ranks.begin(); at != node_.ranks.end();) {
    if (!takes_back(at->first)) {
      ++at;
      continue;
    }
    const auto wanted = ranks_.find(at->first);
    if (wanted != ranks_.end() && !wanted->second.restart) {
      signal_group(at->second->pid, SIGCONT);  // a stopped process cannot be rolled back
      ++at;
      continue;
    }
    if (wanted == ranks_.end()) {
      spdlog::info("rank {} has moved away", at->first);
      some_left = true;
    }
    std::shared_ptr<Rank> rank = std::move(at->second);
    at = node_.ranks.erase(at);
    node_.end_rank(*rank, [rank] {});
  }
  // Also those that an older recovery had begun to end.
  node_.when_gone([this, some_left, then = std::move(then), current = guard()] {
    if (!current()) return;
    look_who_lives();
    node_.when_gone([this, some_left, then, current] {
      if (!current()) return;
      node_.settled = number_;
      if (some_left && !ranks_.empty()) {
        job::Up up;
        up.mutable_restored()->set_recovery(number_);
        node_.send(std::move(up));
      }
      then();
    });
  });
}

/** Killing cr_pause may have killed its rank, and crrun does not know that yet. */
void Recovery::look_who_lives() {
  for (auto& [number, bringing] : ranks_) {
    const auto found = node_.ranks.find(number);
    if (bringing.restart || (found != node_.ranks.end() && found->second->alive() && process_runs(found->second->pid))) continue;
    spdlog::info("rank {} has ended and is restarted", number);
    bringing.restart = bringing.anew = true;
    bringing.report.set_restarted(true);
    if (found == node_.ranks.end()) continue;
    std::shared_ptr<Rank> rank = std::move(found->second);
    node_.ranks.erase(found);
    node_.end_rank(*rank, [rank] {});
  }
}

void Recovery::prepare_pmix() {
  if (ranks_.empty()) old_pmix_.clear();
  for (const Side side : kSides) {
    if (stay_ && side == Side::own) continue;
    const auto is_client = [&](const auto& one) { return node_.side_of(one.first) == side; };
    if (std::none_of(ranks_.begin(), ranks_.end(), is_client)) {
      node_.pmix.drop(side);
      pmix_mixed_.erase(side);
    } else if (pmix_mixed_.count(side) ||
               std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& one) { return is_client(one) && one.second.anew; })) {
      replace_pmix(side);
    }
  }
}

/** libpmix's server remembers what its clients have sent. If that is stale for one of them, all get a new server. */
void Recovery::replace_pmix(Side side) {
  if (renewals_.count(side)) return;
  pmix_mixed_.insert(side);
  std::vector<std::uint32_t> numbers;
  for (auto& [number, bringing] : ranks_) {
    if (node_.side_of(number) != side) continue;
    bringing.stale = true;
    if (bringing.report.error().empty()) bringing.done = false;
    numbers.push_back(number);
  }
  std::unique_ptr<PmixRenewal>& renewal = renewals_[side];
  if (side == Side::own) renewal = std::move(ready_pmix_);
  if (!renewal) renewal = std::make_unique<PmixRenewal>(node_, side, node_.placement, numbers);
  old_pmix_.push_back(renewal->take_old());
  for (const std::uint32_t number : numbers)
    renewal->connection(number, [this, number, current = guard()](UniqueFd fd, const std::string& error) {
      if (!current()) return;
      if (!error.empty()) return fail(number, error);
      ranks_.at(number).pmix = std::move(fd);
      note(number, "new PMIx connection made");
      give_pmix(number);
    });
}

void Recovery::bring(std::uint32_t number) {
  Bringing& bringing = ranks_.at(number);
  if (bringing.done) return;
  if (auto ready = std::exchange(bringing.ready, std::nullopt)) {
    if (ready->fits(bringing.restart, node_.find(number))) {
      ++bringing.next_path;
      note(number, "a prepared process is used");
      bringing.report.set_stood_by(true);
      return use(number, std::move(*ready));
    }
    node_.end_tool(std::move(ready->tool));
    return node_.when_gone([this, number, current = guard()] {
      if (current()) bring(number);
    });
  }
  if (bringing.next_path >= bringing.place.paths_size()) {
    bringing.report.set_image_bad(bringing.image_bad || bringing.place.paths_size() == 0);
    return fail(number, bringing.problems.empty() ? fmt::format("there is no image of rank {} for wave {}", number, wave_)
                                                  : bringing.problems);
  }
  find_image(node_, bringing.place, bringing.next_path++, [this, number, current = guard()](const FoundImage& found) {
    if (current()) found_image(number, found);
  });
}

void Recovery::found_image(std::uint32_t number, const FoundImage& found) {
  if (ranks_.at(number).done) return;
  if (!found.error.empty()) return another_image(number, found.error, true);
  const Rank* rank = node_.find(number);
  try {
    if (ranks_.at(number).restart)
      use(number, ready_restart(node_, number, found));
    else if (rank && rank->alive())
      use(number, ready_pause(node_, *rank, found));
    else
      fail(number, fmt::format("rank {} has ended", number));
  } catch (const std::exception& error) {
    fail(number, error.what());
  }
}

void Recovery::use(std::uint32_t number, Attempt attempt) {
  note(number, "its image is being restored");
  Bringing& it = ranks_.at(number);
  it.manifest = std::move(attempt.manifest);
  if (const std::string directory = node_.job_directory(); !directory.empty() && attempt.path.starts_with(directory + "/"))
    it.report.set_shared_bytes_read(it.report.shared_bytes_read() + it.manifest.bytes);
  it.local = attempt.path.starts_with(node_.images() + "/");
  it.tool = std::move(attempt.tool);
  if (it.restart)
    restart(number, std::move(attempt.rank));
  else
    pause(number);
}

void Recovery::pause(std::uint32_t number) {
  Bringing& bringing = ranks_.at(number);
  Rank& rank = *node_.find(number);
  for (auto& output : rank.outputs) output->pause();
  // Drop the input that the rank has not read yet. What it reads until it is frozen is void as well.
  if (rank.input) rank.input->rewind(bringing.manifest.streams.count(0) ? bringing.manifest.streams.at(0) : 0);
  bringing.tool->go([this, number, current = guard()](const ToolResult& result) {
    if (current()) tool_said(number, result);
  });
}

void Recovery::restart(std::uint32_t number, std::unique_ptr<Rank> made) {
  Rank* rank = made.get();
  rank->incarnation = number_;
  node_.ranks[number] = std::move(made);
  for (auto& output : rank->outputs) {
    output->rewind(number_, output->offset(), 0);  // the process may have been prepared before the recovery
    output->resume();
  }
  ranks_.at(number).tool->go([this, number, current = guard()](const ToolResult& result) { if (current()) tool_said(number, result); },
                             [this, number, rank](int status) {
                               // cr_restart ends as the rank does.
                               Rank* it = node_.find(number);
                               if (it == rank && it->pid > 0) node_.rank_ended(*it, status);
                             });
}

void Recovery::tool_said(std::uint32_t number, const ToolResult& result) {
  Bringing& bringing = ranks_.at(number);
  Rank* rank = node_.find(number);
  if (bringing.done || !rank) return;
  if (!result.ok) {
    // cr_pause and cr_restart check the image before they change anything: "permanent" can also mean a damaged image.
    const bool bad = result.permanent && result.message.find("image") != std::string::npos;
    if (bringing.restart) rank->exited = true, rank->pid = -1;
    return another_image(number, result.message, bad);
  }
  bringing.tool_done = true;
  if (bringing.restart) {
    node_.kept.filled(wave_, number);
    rank->imaged_in = rank->restarted_from = wave_;
  }
  note(number, "is restored");
  const auto& report = result.report;
  spdlog::debug("rank {}: {} took, in ns: {}", number, bringing.restart ? "cr_restart" : "cr_pause",
                report.value("ns", nlohmann::json::object()).dump());
  bringing.report.set_pid(report.value("pid", 0));
  bringing.report.set_pages(report.value("pages", std::uint64_t{0}));
  bringing.report.set_pages_restored(report.value("pages_restored", std::uint64_t{0}));
  bringing.report.set_frozen_ns(report.value("ns", nlohmann::json::object()).value("frozen", std::uint64_t{0}));
  for (const auto& warning : report.value("warnings", nlohmann::json::array()))
    node_.say(job::Log::INFO, fmt::format("rank {}: {}", number, warning.get<std::string>()), number);
  rank->saved_in = bringing.local ? wave_ : 0;
  if (bringing.restart) {
    rank->pid = bringing.report.pid();
    rank->restarter = std::move(bringing.tool);
    bind(*rank, bringing.manifest);
    bringing.report.set_bound_to(node_.bound_to(*rank));
  } else {
    const auto queued = report.value("pipes", nlohmann::json::object());
    for (std::uint32_t stream = 1; stream <= 2; ++stream) {
      std::uint64_t count = 0;
      for (const auto& [fd, of] : bringing.manifest.pipes)
        if (of == stream && count == 0) count = queued.value(std::to_string(fd), std::uint64_t{0});
      const auto& streams = bringing.manifest.streams;
      rank->outputs[stream - 1]->rewind(number_, streams.count(stream) ? streams.at(stream) : 0, count);
      rank->outputs[stream - 1]->resume();
    }
    rank->finalized = false;
    rank->broken_link.reset();
    rank->released.reset();
    // Drop the connection: a rank that stands still connects again and sends CR_RANK_RESTORED again.
    if (bringing.said_early) node_.hang_up(number);
  }
  check(number);
}

/** The image has the processors of the node where it was taken. */
void Recovery::bind(Rank& rank, const Manifest& manifest) {
  if (!node_.own(rank.number)) return;  // spawned processes are not bound
  Cpus before;
  for (const unsigned cpu : manifest.cpus)
    if (cpu < before.size()) before.set(cpu);
  Binder binder(node_.topology, node_.job, node_.host());
  for (const auto& [number, other] : node_.ranks)
    if (other.get() != &rank && node_.own(number) && other->alive()) binder.has(number, other->binding);
  rank.binding = binder.bind(rank.number, 0);
  if (!rank.binding.why_not.empty())
    node_.say(job::Log::INFO, "it is not bound any more: " + rank.binding.why_not, rank.number);
  if (before.none() && rank.binding.cpus.none()) return;
  const std::string errors = bind_process(rank.pid, before, rank.binding.cpus.any() ? rank.binding.cpus : node_.topology.all());
  if (!errors.empty()) node_.say(job::Log::WARNING, "it could not be bound: " + errors, rank.number);
}

void Recovery::another_image(std::uint32_t number, const std::string& why, bool bad) {
  Bringing& bringing = ranks_.at(number);
  bringing.image_bad = bringing.image_bad || bad;
  bringing.problems += (bringing.problems.empty() ? "" : "; ") + why;
  node_.end_tool(std::move(bringing.tool));
  if (bringing.next_path < bringing.place.paths_size())
    node_.say(job::Log::WARNING, fmt::format("rank {}: {}; trying {}", number, why, bringing.place.paths(bringing.next_path)), number);
  node_.when_gone([this, number, current = guard()] {
    if (current()) bring(number);
  });
}

void Recovery::restored(const RankMessage& message) {
  const auto& said = message.as<cr_rank_restored>();
  const auto found = ranks_.find(said.head.rank);
  Rank* rank = node_.find(said.head.rank);
  if (found == ranks_.end() || !rank || found->second.done) return;
  Bringing& bringing = found->second;
  if (superseding_ && !bringing.restart && !bringing.tool_done) {
    // The rank may stand still since an older recovery, and this message may be from that one. The rank is asked again
    // when it is certainly restored.
    bringing.said_early = true;
    return;
  }
  bringing.said = true;
  note(said.head.rank, "stands still");
  const auto addresses = message.strings(sizeof said, said.addresses);
  if (!addresses.empty()) rank->addresses = addresses;
  if (said.pmix_stale) replace_pmix(node_.side_of(said.head.rank));
  give_pmix(said.head.rank);
  check(said.head.rank);
}

/** Send the PMIx connection once the rank stands still and the connection is there. */
void Recovery::give_pmix(std::uint32_t number) {
  Bringing& bringing = ranks_.at(number);
  if (!bringing.said || !bringing.pmix || std::exchange(bringing.pmix_sent, true)) return;
  cr_rank_message message{CR_RANK_PMIX, sizeof message, number, number_};
  node_.tell(number, &message, sizeof message, bringing.pmix.get());
}

void Recovery::pmix_done(const RankMessage& message) {
  const auto found = ranks_.find(message.head().rank);
  if (found == ranks_.end() || !found->second.pmix_sent) return;
  found->second.stale = false;
  note(message.head().rank, "has its PMIx connection");
  found->second.pmix.reset();
  found->second.report.set_fresh_pmix(true);
  check(message.head().rank);
}

void Recovery::check(std::uint32_t number) {
  Bringing& bringing = ranks_.at(number);
  if (!bringing.tool_done || !bringing.said || bringing.stale || bringing.done) return;
  Rank* rank = node_.find(number);
  bringing.done = true;
  bringing.report.set_end_unix_ns(unix_ns());
  job::RankAddress& address = *bringing.report.mutable_address();
  address.set_rank(number);
  address.set_incarnation(rank ? rank->incarnation : 0);
  if (rank) address.mutable_addresses()->Assign(rank->addresses.begin(), rank->addresses.end());
  tell_when_done();
}

void Recovery::fail(std::uint32_t number, const std::string& why) {
  Bringing& bringing = ranks_.at(number);
  if (bringing.done) return;
  spdlog::error("rank {} cannot be restored: {}", number, why);
  bringing.done = true;
  node_.end_tool(std::move(bringing.tool));
  bringing.report.set_error(why);
  bringing.report.set_end_unix_ns(unix_ns());
  // Report at once. crrun says so, and begins another recovery when all ranks have answered: those that are being restored now
  // could not be used if their tools were killed.
  job::Up up;
  up.mutable_restored()->set_recovery(number_);
  *up.mutable_restored()->add_ranks() = bringing.report;
  node_.send(std::move(up));
  tell_when_done();
}

void Recovery::tell_when_done() {
  if (told_ || std::any_of(ranks_.begin(), ranks_.end(), [](const auto& one) { return !one.second.done; })) return;
  told_ = true;
  timer_.cancel();
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const auto& one) { return one.second.report.error().empty(); })) {
    old_pmix_.clear();
    pmix_mixed_.clear();
  }
  job::Up up;
  up.mutable_restored()->set_recovery(number_);
  for (const auto& [number, bringing] : ranks_)
    if (bringing.report.error().empty()) *up.mutable_restored()->add_ranks() = bringing.report;
  if (up.restored().ranks_size() || ranks_.empty()) node_.send(std::move(up));
}

void Recovery::rank_ended(std::uint32_t number) {
  const auto found = ranks_.find(number);
  if (found != ranks_.end()) fail(number, fmt::format("rank {} ended while it was being restored", number));
}

}  // namespace reprise::crd
