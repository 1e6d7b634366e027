// SPDX-License-Identifier: GPL-2.0-only
#include "runner.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include <asio/post.hpp>

#include "crrun/hosts.h"
#include "crrun/metrics_text.h"
#include "job/endpoints.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::job {

namespace {
constexpr auto kTick = std::chrono::milliseconds(100);
/** Per level of the tree: a node whose parent has not connected by then is started without one. */
constexpr auto kParentWait = std::chrono::seconds(10);
constexpr auto kDiskSlow = std::chrono::seconds(5);
constexpr auto kMetricsEvery = std::chrono::seconds(5);
constexpr std::size_t kInputBytes = 64 << 10;
/** Of the end of each stream, for a later crrun. */
constexpr std::size_t kRecordedBytes = 1 << 20, kRecordedInAll = 64 << 20;

std::string output_record(const JobFile& file) { return host_directory() + "/" + file.spec.id() + ".output"; }

/** @return the record of the output; an attached coordinator learns what is in it */
OutputRecord open_record(const JobFile& file, Coordinator& coordinator, Coordinator::Begin begin) {
  const std::uint32_t ranks = file.spec.ranks();
  OutputRecord record(output_record(file), ranks, std::clamp<std::size_t>(kRecordedInAll / (2 * ranks), 4096, kRecordedBytes));
  for (Rank rank = 0; begin == Coordinator::Begin::attach && rank < ranks; ++rank)
    for (const std::uint32_t stream : {1u, 2u})
      if (auto printed = record.read(rank, stream)) coordinator.was_printed(rank, stream, printed->offset, std::move(printed->history));
  return record;
}
}  // namespace

Now Runner::now() {
  timespec real{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return {static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(steady).count()),
          static_cast<std::uint64_t>(real.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(real.tv_nsec)};
}

Runner::Runner(JobFile file, Settings settings, Coordinator::Begin begin, std::optional<NumberedState> state,
               RunOptions options)
    : file_(std::move(file)),
      options_(std::move(options)),
      tree_(settings.nodes.size() > settings.fan_out
                ? std::optional<Tree>(std::in_place, static_cast<std::uint32_t>(settings.nodes.size()), settings.fan_out)
                : std::nullopt),
      coordinator_(std::move(settings), [] { return random_bytes(32); }, begin,
                   state ? std::optional<State>(std::move(state->state)) : std::nullopt),
      launcher_(
          loop_, options_.launch,
          [this](NodeIndex node, bool certain, const std::string& why) {
            coordinator_.link_ended(node, certain, why, now());
            apply();
          },
          [this](const std::string& host, const std::string& line) {
            // Output of a daemon before it has connected is reported with the reason of its end.
            if (options_.verbose) std::fprintf(stderr, "crrun: %s%s%s\n", host.c_str(), host.empty() ? "" : ": ", line.c_str());
          }),
      output_(options_.tag_output, open_record(file_, coordinator_, begin),
              [this](std::uint64_t mark) {
                asio::post(loop_, [this, mark] { written(mark); });
              }),
      recorder_(file_.directory, file_.spec.id(), state ? state->number : 0,
                {.saved =
                     [this](std::uint64_t number) {
                       asio::post(loop_, [this, number] {
                         held_.saved(number);
                         apply();
                       });
                     },
                 .replaced =
                     [this] {
                       asio::post(loop_, [this] {
                         coordinator_.replaced(now());
                         apply();
                       });
                     }}),
      signals_(loop_),
      timer_(loop_),
      input_timer_(loop_) {
  ServerEvents events;
  events.up = [this](const Peer& peer, Up up) { message(peer, std::move(up)); };
  events.ask = [this](const Peer& peer, const Ask& request) { ask(peer, request); };
  events.disconnected = [this](const Peer& peer) {
    const auto had = routes_.closed(peer);
    if (!had) return;
    coordinator_.connection_closed(had->first, had->second, now());
    apply();
  };
  events.refused = [](const std::string& address, const std::string& why) {
    std::fprintf(stderr, "crrun: a connection from %s was refused: %s\n", address.c_str(), why.c_str());
  };
  server_ = std::make_unique<Server>(loop_, file_.server, file_.client.public_key, file_.port, std::move(events));
  if (!file_.port) {
    file_.port = server_->port();
    bool local = true;
    for (const Node& node : file_.nodes) local &= is_this_host(node.host());
    file_.addresses = own_endpoints(file_.port, options_.interfaces, local);
    if (file_.addresses.empty())
      throw std::runtime_error("this host has no address that nodes could reach: name a network by --interface");
  }
  if (!options_.metrics_file.empty()) metrics_ = std::make_unique<MetricsFile>(options_.metrics_file);
  file_.pid = ::getpid();
  file_.boot = boot_id();
  file_.write();
  write_registry({file_.spec.id(), file_.directory, file_.host, file_.spec.argv(0), file_.pid, now().unix_ns, false, 0});
}

int Runner::run() {
  ::signal(SIGPIPE, SIG_IGN);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD}) signals_.add(number);
  got_signal();
  coordinator_.start(now());
  apply();
  timer();
  loop_.run();
  next_metrics_ = {};
  tell_metrics();
  output_.flush();
  if (code_) output_.forget();
  return code_.value_or(1);
}

void Runner::got_signal() {
  signals_.async_wait([this](std::error_code error, int number) {
    if (error) return;
    if (number == SIGCHLD) {
      launcher_.reap();
    } else {
      coordinator_.signal(number, now());
      apply();
      if (number == SIGTSTP) {
        // Stop the ranks first, then this process, as the shell expects.
        asio::post(loop_, [] { ::raise(SIGSTOP); });
      }
    }
    got_signal();
  });
}

void Runner::timer() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](std::error_code error) {
    if (error || code_) return;
    coordinator_.tick(now());
    apply();
    watch_disk();
    tell_metrics();
    start_waiting();
    read_input();
    if (!code_) timer();
  });
}

void Runner::message(const Peer& peer, Up up) {
  if (!routes_.up(peer, up)) return;
  if (up.has_hello()) launcher_.said_hello(up.from());
  coordinator_.message(up, now());
  if (up.has_child_gone()) coordinator_.connection_closed(up.child_gone().node(), up.child_gone().instance(), now());
  apply();
}

void Runner::ask(const Peer& peer, const Ask& ask) {
  if (ask.what_case() == Ask::kStatus || ask.what_case() == Ask::WHAT_NOT_SET) {
    Answer answer;
    answer.set_ok(ask.what_case() == Ask::kStatus);
    if (answer.ok()) {
      nlohmann::json status = coordinator_.status(now());
      for (nlohmann::json& node : status["nodes"])
        if (const auto via = routes_.via(node.at("index").get<NodeIndex>())) node["via"] = coordinator_.members().host(*via);
      status["crrun"] = {{"host", file_.host}, {"pid", file_.pid}};
      answer.set_status_json(status.dump());
    } else {
      answer.set_text("this crrun does not support that request");
    }
    server_->answer(peer, answer);
    return;
  }
  const std::uint64_t request = next_request_++;
  requests_[request] = peer;
  switch (ask.what_case()) {
    case Ask::kCheckpoint: coordinator_.request_checkpoint(request, now()); break;
    case Ask::kDrain: coordinator_.request_drain(request, ask.drain(), now()); break;
    default: coordinator_.request_end(request, now()); break;
  }
  apply();
}

void Runner::send(const Down& down, const std::vector<NodeIndex>& living) {
  const std::vector<Routes::Copy> copies = routes_.down(down, living);
  for (auto copy = copies.begin(); copy != copies.end();) {
    std::vector<Peer> peers;
    const Down* const one = copy->down.get();
    for (; copy != copies.end() && copy->down.get() == one; ++copy) peers.push_back(copy->peer);
    server_->send(peers, *one);
  }
}

void Runner::start_daemon(NodeIndex node) {
  const auto parent = tree_ ? tree_->parent(node) : std::nullopt;
  if (!parent) return start_daemon(node, nullptr);
  const Relaying* relaying = routes_.relaying(*parent);
  if (relaying || coordinator_.members().at(*parent).state != NodeState::starting) return start_daemon(node, relaying);
  auto until = std::chrono::steady_clock::now();
  for (auto above = parent; above; above = tree_->parent(*above)) until += kParentWait;
  waiting_[node] = until;
}

void Runner::start_waiting() {
  const bool over = coordinator_.phase() == Coordinator::Phase::ending || coordinator_.phase() == Coordinator::Phase::finished;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const NodeIndex node = at->first, parent = *tree_->parent(node);
    const Relaying* relaying = routes_.relaying(parent);
    const bool wait = !over && !relaying && coordinator_.members().at(parent).state == NodeState::starting &&
                      std::chrono::steady_clock::now() < at->second;
    if (wait) {
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    if (!over) start_daemon(node, relaying);
    else coordinator_.link_ended(node, true, "it was not started", now());
  }
  if (over) apply();
}

void Runner::start_daemon(NodeIndex node, const Relaying* parent) {
  DaemonStart start;
  start.job = file_.spec.id();
  start.node = node;
  start.addresses = file_.addresses;
  start.boot = file_.boot;
  start.server_public_key = file_.server.public_key;
  start.client = file_.client;
  start.log_level = options_.verbose ? "debug" : "warning";
  start.run_directory = run_directory(file_.spec.id(), file_.run_secret);
  start.relays = tree_ && !tree_->children(node).empty();
  start.interfaces = options_.interfaces;
  if (parent) {
    start.parent_addresses.assign(parent->endpoints().begin(), parent->endpoints().end());
    start.parent_public_key = parent->public_key();
  }
  launcher_.start(coordinator_.members().at(node).node, std::move(start));
}

void Runner::say(const Say& say) {
  if (say.level == Log::DEBUG && !options_.verbose) return;
  if (say.level == Log::INFO && options_.quiet) return;
  const char* const prefix = say.level == Log::WARNING ? "warning: " : say.level == Log::ERROR ? "error: " : "";
  std::fprintf(stderr, "crrun: %s%s\n", prefix, say.text.c_str());
}

void Runner::carry_out(Effect& effect, const std::vector<NodeIndex>& living) {
  std::visit(
      [&](auto& one) {
        using T = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<T, SendDown>) send(one.down, living);
        if constexpr (std::is_same_v<T, StartDaemon>) start_daemon(one.node);
        if constexpr (std::is_same_v<T, StopDaemon>) {
          waiting_.erase(one.node);
          routes_.stopped(one.node);
          launcher_.stop(one.node);
        }
        if constexpr (std::is_same_v<T, SaveState>) held_.saving(recorder_.save(std::move(one.records)));
        if constexpr (std::is_same_v<T, Say>) say(one);
        if constexpr (std::is_same_v<T, WriteOutput>) write(one);
        if constexpr (std::is_same_v<T, TimelineEvent>) recorder_.event(one.line);
        if constexpr (std::is_same_v<T, RemoveStaged>) recorder_.remove(one);
        if constexpr (std::is_same_v<T, Reply>) {
          Answer answer;
          answer.set_ok(one.ok);
          answer.set_text(one.text);
          if (const auto found = requests_.find(one.request); found != requests_.end()) server_->answer(found->second, answer);
          requests_.erase(one.request);
        }
        if constexpr (std::is_same_v<T, Finish>) finish(one.code);
      },
      effect);
}

void Runner::write(const WriteOutput& output) {
  const std::uint64_t piece = ++next_piece_;
  // The thread tells of it by asio::post(), so not before this returns to the loop.
  pieces_[piece] = {output.rank, output.stream, output_.write(output, piece)};
}

void Runner::written(std::uint64_t mark) {
  const auto piece = pieces_.extract(mark);
  if (piece.empty()) return;
  coordinator_.written(piece.mapped().rank, piece.mapped().stream, piece.mapped().offset);
  apply();
}

void Runner::apply() {
  // An effect may cause the next input; that input's effects come after all of these.
  if (applying_) return;
  applying_ = true;
  for (std::vector<Effect> effects; !(effects = coordinator_.take()).empty();)
    for (Effect& effect : effects) {
      std::vector<NodeIndex> living;
      const auto* send = std::get_if<SendDown>(&effect);
      if (send && send->down.to().empty()) living = coordinator_.members().living();
      if (!Held::depends(effect)) {
        carry_out(effect, living);
        continue;
      }
      if (held_.empty()) held_since_ = std::chrono::steady_clock::now();
      held_.put({std::move(effect), std::move(living)});
    }
  release();
  applying_ = false;
}

/** Carry out what need not wait for the disk any more. */
void Runner::release() {
  while (auto entry = held_.next()) {
    held_since_ = std::chrono::steady_clock::now();
    carry_out(entry->effect, entry->living);
  }
}

/** Tell the user of a disk that makes the job wait; when the job has ended, do not wait for long. */
void Runner::watch_disk() {
  if (held_.empty()) {
    told_of_disk_ = false;
    return;
  }
  const auto waited = std::chrono::steady_clock::now() - held_since_;
  if (waited > kDiskSlow && !std::exchange(told_of_disk_, true))
    std::fprintf(stderr, "crrun: warning: the job's state could not be written to this host's disk for %d s: waves and recoveries wait\n",
                 static_cast<int>(kDiskSlow / std::chrono::seconds(1)));
  if (waited > kDiskSlow && coordinator_.phase() == Coordinator::Phase::finished) {
    held_.give_up();
    apply();
  }
}

void Runner::tell_metrics() {
  if (!metrics_ || std::chrono::steady_clock::now() < next_metrics_) return;
  next_metrics_ = std::chrono::steady_clock::now() + kMetricsEvery;
  metrics_->put(metrics_text(coordinator_.take_metrics(now())));
}

void Runner::read_input() {
  if (reading_ || input_ended_ || code_ || !coordinator_.wants_input()) return;
  // Job control stops a background process that reads its terminal.
  if (::isatty(STDIN_FILENO) && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  const auto got = [this] {
    std::string data(kInputBytes, '\0');
    const ssize_t count = ::read(STDIN_FILENO, data.data(), data.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) {
      input_ended_ = true;
      coordinator_.input_end();
    } else {
      data.resize(static_cast<std::size_t>(count));
      coordinator_.input(data);
    }
    apply();
  };
  // Do not use asio: it would make the terminal, which other processes share, non-blocking.
  for (int i = 0; i < 16 && !input_ended_ && coordinator_.wants_input(); ++i) {
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    if (ready.revents & POLLNVAL) {
      input_ended_ = true;
      coordinator_.input_end();
      apply();
      break;
    }
    got();
  }
}

void Runner::finish(int code) {
  code_ = code;
  try {
    write_registry({file_.spec.id(), file_.directory, file_.host, file_.spec.argv(0), file_.pid, now().unix_ns, true, code});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crrun: %s\n", error.what());
  }
  // Let the last messages be sent: the socket lingers for a moment when it is closed.
  asio::post(loop_, [this] { loop_.stop(); });
}

}  // namespace reprise::job
