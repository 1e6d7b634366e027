// SPDX-License-Identifier: GPL-2.0-only
#include "crd/daemon.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crd/failed.h"
#include "crd/image_store.h"
#include "crd/pid_bands.h"
#include "crd/takeover.h"
#include "job/files.h"
#include "job/keys.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

std::vector<std::string> node_addresses() {
  std::vector<std::string> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP)) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) all.emplace_back(text);
  }
  ::freeifaddrs(list);
  return all;
}

/** Until crrun welcomes the daemon, which has no ranks before. */
constexpr std::chrono::minutes kFirstLease{1};

/** Longer than the time that ranks have to end, shorter than the time that crrun waits for daemons. */
constexpr std::chrono::seconds kChildrenEnd{7};

/** For ranks to end after SIGTERM, and after SIGKILL. */
constexpr std::chrono::seconds kTerm{5}, kKill{10};

/** For the removal of files at the end, behind what the disk has to do already. */
constexpr std::chrono::seconds kLastRemoval{10};

}  // namespace

Daemon::Daemon(asio::io_context& loop, const job::DaemonStart& start)
    : loop_(loop), orphans_(loop), node_(loop), waves_(node_), standby_(node_), recovery_(node_, standby_, kept_copies_), launcher_(node_), relay_(node_), spawner_(node_, [this](const RankMessage& message) { from_rank(message); }), staging_(node_),
      signals_(loop, SIGTERM, SIGINT), end_timer_(loop) {
  node_.start = start;
  node_.index = start.node;
  node_.instance = job::make_job_id().substr(3);
  node_.job.set_id(start.job);
  try {
    lease_.emplace();
    lease_->renew(LeaseClock::now().time_since_epoch() + kFirstLease);
  } catch (const std::exception& error) {
    lease_.reset();
    module_problem_ = error.what();
  }
  node_.run_directory = start.run_directory;
  run_lock_ = take_over(node_.run_directory);
  job::log_to_file(node_.run_directory + "/crd.log");
  node_.send_up = [this](job::Up& up) {
    up.set_from(node_.index);
    up.set_instance(node_.instance);
    up.set_recovery(node_.settled);
    if (link_) link_->send(std::move(up));
  };
  node_.pmix.said = [this](Side side, const FromPmix& message) {
    if (message.has_known()) return spawner_.known(message.known());
    relay_.take(side, message);
  };
  node_.socket = std::make_unique<RankSocket>(loop, job::rank_socket_path(node_.run_directory), 0, [this](const RankMessage& message) { from_rank(message); });
  link_ = std::make_unique<Link>(node_, LinkEvents{.connected = [this] { hello(); },
                                                   .down = [this](job::Down down) { take(down); },
                                                   .run_until = [this](LeaseClock::time_point until) { renew(until); },
                                                   .counts = [this] { take_held(); },
                                                   .heartbeat = [this](job::Up& up) { heartbeat(up); },
                                                   .lost = [this] { drop_children(); },
                                                   .join = [this](const job::Up& up) {
                                                     return children_ ? children_->own(up) : std::vector<job::Up>{up};
                                                   }});
  if (start.relays)
    children_ = std::make_unique<Children>(
        node_, ChildrenEvents{.up = [this](const job::Up& up) { link_->forward(up); }, .beat = [this] { link_->beat_now(); }});
  signals_.async_wait([this](const asio::error_code& error, int number) {
    if (error) return;
    spdlog::warn("ended by signal {}", number);
    status_ = 128 + number;
    drop_children();
    end_all([this] { leave(true); });
  });
}

int Daemon::run() {
  link_->start();
  abandoned_ = std::make_unique<Abandoned>(node_, *link_, [this](const std::string& why) {
    spdlog::warn("{}: this daemon ends", why);
    drop_children();
    end_all([this] { leave(true); });
  });
  loop_.run();
  return status_;
}

void Daemon::hello() {
  node_.on_disk(
      [directory = node_.images(), known = node_.welcomed] {
        return known ? image_store::list(directory) : std::vector<job::StoredImage>{};
      },
      [this](const std::vector<job::StoredImage>& images) {
        char host[256] = "";
        ::gethostname(host, sizeof host - 1);
        job::Up up;
        job::Hello& hello = *up.mutable_hello();
        hello.set_host(host);
        hello.set_version(REPRISE_VERSION);
        hello.set_cpus(std::thread::hardware_concurrency());
        hello.set_module_loaded(module_problem_.empty());
        hello.set_module_problem(module_problem_);
        hello.set_can_restore_pids(can_choose_pids());
        for (const auto& [number, rank] : node_.ranks) {
          job::RankState& state = *hello.add_ranks();
          state.set_rank(number);
          state.set_pid(rank->pid);
          state.set_incarnation(rank->incarnation);
          state.set_ready(!rank->addresses.empty());
          state.set_exited(rank->exited);
          state.set_status(rank->status);
          state.set_finalized(rank->finalized);
          state.set_bound_to(node_.bound_to(*rank));
        }
        for (const job::StoredImage& image : images) *hello.add_images() = image;
        for (const std::string& address : node_addresses()) hello.add_addresses(address);
        if (children_) *hello.mutable_relaying() = children_->offer();
        *hello.mutable_parts() = node_.topology.counts();
        node_.send(std::move(up));
      });
}

void Daemon::take(const job::Down& down) {
  // Pass the message on even if it is void for this node: only crrun decides about the nodes below.
  if (children_) children_->pass(down);
  if (down.to_size() && std::find(down.to().begin(), down.to().end(), node_.index) == down.to().end()) return;
  if (down.has_heartbeat()) {
    for (const job::RelayedBeat& one : down.heartbeat().below())
      if (one.node() == node_.index) return link_->answered(one.unix_ns(), one.seen(), one.lease_ms());
    return link_->answered(down.heartbeat().unix_ns(), down.heartbeat().seen(), down.heartbeat().lease_ms());
  }
  if (!link_->accept(down)) return;
  if (link_->fenced() && !down.has_welcome() && !down.has_shutdown()) return held_.push_back(down);
  obey(down);
}

void Daemon::renew(LeaseClock::time_point until) {
  if (!lease_) return;
  try {
    if (lease_->renew(until.time_since_epoch())) spdlog::info("the module had parked the processes of this daemon; they run on");
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
}

void Daemon::take_held() {
  for (const job::Down& down : std::exchange(held_, {})) obey(down);
}

void Daemon::obey(const job::Down& down) {
  if (relay_.take(down)) return;
  switch (down.what_case()) {
    case job::Down::kWelcome:
      return welcome(down.welcome());
    case job::Down::kLaunch:
      rehearsal_.abandon();
      standby_.abandon();
      waves_.abandon();
      staying_.abandon();
      recovery_.forget();
      relay_.reset();
      spawner_.forget();
      watch_.forget();
      node_.kept.clear();
      kept_copies_.forget();
      return launcher_.launch(down.launch());
    case job::Down::kWaveBegin:
      watch_.excuse();
      return waves_.begin(down.wave_begin());
    case job::Down::kWaveEnd:
      watch_.excuse();
      return waves_.end(down.wave_end());
    case job::Down::kStage:
      return staging_.begin(down.stage());
    case job::Down::kProtect:
      return protecting_.begin(down.protect());
    case job::Down::kKeepCopy:
      return kept_copies_.keep(down.keep_copy());
    case job::Down::kKeptCopied:
      return kept_copies_.copied(down.kept_copied());
    case job::Down::kPrune:
      node_.kept.prune({down.prune().keep().begin(), down.prune().keep().end()});
      protecting_.prune({down.prune().keep().begin(), down.prune().keep().end()});
      kept_copies_.prune({down.prune().keep().begin(), down.prune().keep().end()});
      if (down.prune().keep_size()) get_ready(*std::max_element(down.prune().keep().begin(), down.prune().keep().end()));
      return node_.on_disk(
          [directory = node_.images(), keep = std::vector<std::uint32_t>(down.prune().keep().begin(), down.prune().keep().end())] {
            image_store::prune(directory, keep);
            return image_store::used_bytes(directory);
          },
          [this](std::uint64_t bytes) {
            job::Up up;
            up.mutable_prune_done()->set_image_bytes(bytes);
            node_.send(std::move(up));
          });
    case job::Down::kRecover:
      return recover(down.recover());
    case job::Down::kExpect:
      if (recovery_.under_way() || ending_) return;
      rehearsal_.abandon();
      return standby_.begin(down.expect());
    case job::Down::kResume:
      watch_.forget();
      staying_.resume(down.resume());
      return recovery_.resume(down.resume());
    case job::Down::kSpawnBegin:
      return spawner_.begin(down.spawn_begin());
    case job::Down::kSpawnEnd:
      return spawner_.end(down.spawn_end());
    case job::Down::kFailed:
      return tell_failed(node_, down.failed());
    case job::Down::kSignal:
      return deliver(down.signal().signal(), down.signal().ranks());
    case job::Down::kStdin:
      return input(down.stdin());
    case job::Down::kOutputSeen:
      if (Rank* rank = node_.find(down.output_seen().rank()); rank && (down.output_seen().stream() == 1 || down.output_seen().stream() == 2))
        if (auto& output = rank->outputs[down.output_seen().stream() - 1]) output->acknowledge(down.output_seen().offset());
      return;
    case job::Down::kShutdown:
      return shut_down(down.shutdown().kill(), down.shutdown().keep_images());
    default:
      spdlog::debug("a message of kind {} is not known", static_cast<int>(down.what_case()));
  }
}

void Daemon::recover(const job::Recover& message) {
  rehearsal_.abandon();
  waves_.abandon();
  watch_.forget();
  const bool newer = message.recovery() > node_.recovery, stay = Staying::concerns(node_, message);
  if (stay && !newer) return;
  if (newer) {
    if (!stay) relay_.reset();
    spawner_.only(message);
  }
  if (!stay) {
    staying_.abandon();
    return recovery_.begin(message);
  }
  const bool mends = recovery_.under_way(), waits = relay_.waits();
  relay_.others_went_back();
  node_.lanes_stay(message.recovery());
  if (mends)
    standby_.abandon();  // and the next recovery goes on with what this daemon does
  else
    recovery_.begin(message);
  staying_.begin(message, mends ? "another recovery is not over on its node" : waits ? "a PMIx operation waits for other nodes" : "");
}

void Daemon::welcome(const job::Welcome& message) {
  if (message.stale()) {
    spdlog::warn("this node was given up: its ranks are killed, and it becomes a spare");
    node_.job = message.job();
    return become_spare();
  }
  const bool first = !std::exchange(node_.welcomed, true);
  node_.job = message.job();
  node_.nodes.assign(message.nodes().begin(), message.nodes().end());
  if (first) {
    kept_copies_.forget();  // of an earlier daemon
    node_.recovery = node_.settled = std::max(node_.recovery, message.recovery());
    if (keep_to_band(node_.index, static_cast<std::uint32_t>(node_.nodes.size())))
      spdlog::debug("process ids on this node come from a band of its own");
    else
      spdlog::info("process ids cannot be chosen here (no CAP_CHECKPOINT_RESTORE): a rank may find its id taken on another node");
  }
  const bool known = link_->greeted(message);
  // Output goes first: a WaveDone says that crrun has it up to the image's position.
  for (const auto& [number, rank] : node_.ranks)
    for (auto& output : rank->outputs)
      if (output) output->resend();
  link_->resend();
  if (!known) {
    held_.clear();  // from a crrun that is no more
    introduce();
  }
  link_->welcomed();
  serving_.welcomed();
  watch_.begin();
}

void Daemon::introduce() {
  relay_.resend();
  kept_copies_.introduce();
  for (const auto& [number, rank] : node_.ranks) {
    if (!rank->addresses.empty()) tell_ready(*rank);
    if (rank->broken_link) {
      job::Up up;
      *up.mutable_link_lost() = *rank->broken_link;
      node_.send(std::move(up));
    }
    if (rank->released) {
      job::Up up;
      *up.mutable_pin_wave() = *rank->released;
      node_.send(std::move(up));
    }
  }
}

/** The children connect to crrun itself. Their Hello tells crrun which messages they have missed. */
void Daemon::drop_children() {
  if (!children_) return;
  for (const job::Up& up : children_->end()) link_->forward(up);
  // Destroy it from the loop: the caller may be one of its own callbacks.
  asio::post(loop_, [old = std::shared_ptr<Children>(std::move(children_))] {});
}

void Daemon::become_spare() {
  drop_children();
  rehearsal_.abandon();
  standby_.abandon();
  waves_.abandon();
  staying_.abandon();
  recovery_.forget();
  staging_.stop();
  protecting_.stop();
  relay_.reset();
  spawner_.forget();
  held_.clear();
  link_->forget();
  auto old = std::make_shared<std::map<std::uint32_t, std::unique_ptr<Rank>>>(std::move(node_.ranks));
  node_.ranks.clear();
  node_.pmix.drop_all();
  node_.placement.clear();
  node_.kept.clear();
  kept_copies_.forget();
  for (auto& [number, rank] : *old) node_.end_rank(*rank, [] {});
  node_.when_gone([this, old] {
    node_.on_disk([directory = node_.images()] { image_store::remove_all(directory); return 0; }, [this](int) {
      node_.instance = job::make_job_id().substr(3);
      node_.welcomed = false;
      node_.recovery = node_.settled = 0;
      link_->begin_anew();
      hello();
    });
  });
}

void Daemon::get_ready(std::uint32_t wave) {
  node_.pmix.prepare();
  node_.donors.prepare();
  rehearsal_.begin();
  if (node_.ranks.empty() && !node_.job_directory().empty()) prewarm_.begin(job::wave_directory(node_.job_directory(), wave));
}

void Daemon::tell_ready(const Rank& rank) {
  job::Up up;
  job::RankAddress& address = *up.mutable_rank_ready()->mutable_address();
  address.set_rank(rank.number);
  address.set_incarnation(rank.incarnation);
  address.mutable_addresses()->Assign(rank.addresses.begin(), rank.addresses.end());
  up.mutable_rank_ready()->set_recovery(node_.recovery);
  node_.send(std::move(up));
}

void Daemon::from_rank(const RankMessage& message) {
  const std::uint32_t number = message.head().rank;
  Rank* rank = node_.find(number);
  if (!rank) {
    spdlog::warn("a process says that it is rank {}, which this node does not have", number);
    return node_.hang_up(number);
  }
  switch (message.head().type) {
    case CR_RANK_HELLO: {
      const auto& hello = message.as<cr_rank_hello>();
      rank->addresses = message.strings(sizeof hello, hello.addresses);
      cr_rank_welcome welcome{};
      std::memcpy(welcome.cookie, node_.job.cookie().data(), std::min(sizeof welcome.cookie, node_.job.cookie().size()));
      welcome.node = node_.index;
      welcome.wave = node_.missed_waves(number);
      welcome.no_waves = node_.job.tells_failures()   ? CR_RANK_TELLS_FAILURES
                         : node_.job.no_checkpoints() ? CR_RANK_NO_MODULE
                                                      : CR_RANK_WAVES;
      node_.tell(number, welcome, CR_RANK_WELCOME);
      node_.give_lanes(number);
      return tell_ready(*rank);
    }
    case CR_RANK_PREPARED:
      return waves_.prepared(message);
    case CR_RANK_RESTORED:
      return recovery_.restored(message);
    case CR_RANK_PMIX_DONE:
      return recovery_.pmix_done(message);
    case CR_RANK_RESUMED:
      return recovery_.resumed(message);
    case CR_RANK_STAYS:
      return staying_.answered(message);
    case CR_RANK_LOST: {
      const auto& lost = message.as<cr_rank_lost>();
      const Spawned* space = node_.space_of(number);
      if (space && lost.peer == UINT32_MAX) return;  // of another namespace: its transport reports it, too
      const std::uint32_t other = space ? space->message.first() + lost.peer : lost.peer;
      job::Up up;
      up.mutable_link_lost()->set_rank(number);
      up.mutable_link_lost()->set_peer(other);
      std::string why = message.text(sizeof lost);
      if (why.empty()) why = lost.error ? std::strerror(lost.error) : "closed";
      up.mutable_link_lost()->set_why(why);
      up.mutable_link_lost()->set_error(lost.error);
      up.mutable_link_lost()->set_recovery(node_.recovery_of(number, message.head().recovery));
      // A crrun that attaches must learn of it, too: nothing else repairs the connection.
      if (lost.error == ENODATA) rank->broken_link = up.link_lost();
      const auto peer = node_.placement.find(other);
      const auto node = peer == node_.placement.end() ? std::nullopt : std::optional(peer->second);
      const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
      if (!lost_links_.pass(up.link_lost(), node, static_cast<std::uint64_t>(now))) return;
      return node_.send(std::move(up));
    }
    case CR_RANK_COUNTERS: {
      const auto& at = message.as<cr_rank_counters_at>();
      rank->counters = {at.pid, at.address};
      return;
    }
    case CR_RANK_WAVE_REQUEST: {
      job::Up up;
      up.mutable_pin_wave()->set_rank(number);
      up.mutable_pin_wave()->set_release(message.as<cr_rank_wave_request>().release);
      up.mutable_pin_wave()->set_progress(message.as<cr_rank_wave_request>().progress);
      up.mutable_pin_wave()->set_or_none(message.as<cr_rank_wave_request>().or_none);
      up.mutable_pin_wave()->set_recovery(node_.recovery_of(number, message.head().recovery));
      rank->released.reset();
      if (up.pin_wave().release()) rank->released = up.pin_wave();
      return node_.send(std::move(up));
    }
    case CR_RANK_COPY_KEPT:
      return kept_copies_.asked(message);
    case CR_RANK_NEED_LANES:
      if (node_.recovery_of(number, message.head().recovery) == node_.recovery) node_.give_lanes(number);
      return;
    case CR_RANK_LOG:
      return node_.say(job::Log::INFO, message.text(sizeof(cr_rank_message)), number);
    default:
      return;
  }
}

void Daemon::deliver(int signal, const google::protobuf::RepeatedField<std::uint32_t>& ranks) {
  for (const auto& [number, rank] : node_.ranks)
    if (rank->alive() && (ranks.empty() || std::find(ranks.begin(), ranks.end(), number) != ranks.end())) signal_group(rank->pid, signal);
}

void Daemon::input(const job::Stdin& message) {
  for (const auto& [number, rank] : node_.ranks) {
    if (number != message.rank() || !rank->input) continue;
    if (!rank->input->give(message.offset(), message.data(), message.end()))
      node_.say(job::Log::WARNING, fmt::format("input of rank {} is dropped: there is a gap before byte {}", number, message.offset()), number);
  }
}

void Daemon::heartbeat(job::Up& up) {
  // Query the disk in the background every now and then; heartbeats report the last known values.
  const auto now = std::chrono::steady_clock::now();
  if (node_.welcomed && now - space_asked_ > std::chrono::seconds(2)) {
    space_asked_ = now;
    node_.on_disk(
        [directory = node_.images()] { return std::pair{image_store::free_bytes(directory), image_store::used_bytes(directory)}; },
        [this](const std::pair<std::uint64_t, std::uint64_t>& space) { std::tie(free_bytes_, image_bytes_) = space; });
    if (!node_.ranks.empty()) keep_to_band(node_.index, static_cast<std::uint32_t>(node_.nodes.size()));
  }
  up.set_from(node_.index);
  up.set_instance(node_.instance);
  up.set_recovery(node_.settled);
  job::Heartbeat& beat = *up.mutable_heartbeat();
  beat.set_unix_ns(unix_ns());
  beat.set_free_local_bytes(free_bytes_);
  beat.set_image_bytes(image_bytes_);
  double load = 0;
  if (::getloadavg(&load, 1) == 1) beat.set_load(load);
  watch_.fill(beat);
}

void Daemon::shut_down(bool kill, bool keep_images) {
  if (std::exchange(ending_, true)) return;
  spdlog::info("the job is over");
  waves_.abandon();
  standby_.abandon();
  staying_.abandon();
  recovery_.abandon();
  staging_.stop();
  protecting_.stop();
  kept_copies_.stop();
  leave_by_ = std::chrono::steady_clock::now() + kChildrenEnd;
  if (!kill) return leave(keep_images);
  end_all([this, keep_images] { leave(keep_images); });
}

void Daemon::end_all(std::function<void()> then) {
  ending_ = true;
  leave_by_ = std::chrono::steady_clock::now() + kChildrenEnd;
  auto left = std::make_shared<std::size_t>(1);
  const auto gone = [this, left, then = std::move(then)] {
    if (!*left || --*left) return;
    end_timer_.cancel();
    then();
  };
  for (const auto& [number, rank] : node_.ranks) {
    Process* process = rank->process ? rank->process.get() : rank->restarter ? &rank->restarter->process() : nullptr;
    if (!process || !rank->alive()) continue;
    ++*left;
    signal_group(rank->pid, SIGCONT);
    signal_group(rank->pid, SIGTERM);
    process->on_end(gone);
  }
  end_timer_.expires_after(kTerm);
  end_timer_.async_wait([this, left, gone](const asio::error_code& error) {
    if (error) return;
    deliver(SIGKILL, {});
    end_timer_.expires_after(kKill);
    end_timer_.async_wait([left, gone](const asio::error_code& cancelled) {
      if (cancelled || !*left) return;
      // It ends when the file system that it waits for answers.
      spdlog::warn("{} killed processes have not ended", *left);
      *left = 1;
      gone();
    });
  });
  asio::post(loop_, gone);
}

void Daemon::leave(bool keep_images) {
  // Daemons below may still have messages to send.
  if (children_ && children_->any() && std::chrono::steady_clock::now() < leave_by_) {
    end_timer_.expires_after(std::chrono::milliseconds(50));
    return end_timer_.async_wait([this, keep_images](const asio::error_code& error) {
      if (!error) leave(keep_images);
    });
  }
  rehearsal_.abandon();  // the process that it has restarted would stay
  node_.ranks.clear();
  node_.pmix.drop_all();
  node_.on_disk(
      [run = node_.run_directory, images = node_.images(), keep = keep_images || !node_.welcomed] {
        std::error_code error;
        std::filesystem::remove_all(run, error);
        if (!keep) image_store::remove_all(images);
        return 0;
      },
      [this](int) { loop_.stop(); });
  end_timer_.expires_after(kLastRemoval);
  end_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    spdlog::warn("a file system does not answer: {} and {} may be left", node_.run_directory, node_.images());
    loop_.stop();
  });
}

}  // namespace reprise::crd
