// SPDX-License-Identifier: GPL-2.0-only
#include "crd/protecting.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include <asio/post.hpp>

#include "crd/image_store.h"
#include "crd/images/parity_files.h"
#include "crd/serving.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

/** Progress is told when so many bytes are done. */
constexpr std::uint64_t kTold = 256u << 20;

/** @return bytes of the images of @p message, by rank */
std::map<std::uint32_t, std::uint64_t> sizes(const job::Protect& message) {
  std::map<std::uint32_t, std::uint64_t> out;
  for (const job::ImageSource& source : message.sources())
    for (const job::StoredImage& image : source.images()) out[image.rank()] = image.bytes();
  return out;
}

job::ProtectDone failed(std::uint32_t wave, const std::string& why) {
  job::ProtectDone done;
  done.set_wave(wave);
  done.set_error(why);
  done.set_finished(true);
  return done;
}

/** One Protect, away from the loop. */
struct Task {
  job::Protect message;
  bool parity;            ///< instead of copies
  std::uint32_t node;     ///< this one
  std::string directory;  ///< LOCAL/ID
  Readers readers;
  std::uint64_t bytes_per_second;
  std::function<bool()> wanted;
  std::function<void(const job::ProtectDone&)> tell;
};

Sources::List sources_of(const job::Protect& message) { return {message.sources().begin(), message.sources().end()}; }

/** @return bytes that @p message makes this node store, at most. Blocks on the disk. */
std::uint64_t needed(const job::Protect& message, bool parity, const std::string& directory) {
  if (parity) return parity_bytes(sources_of(message));
  std::uint64_t missing = 0;
  for (const auto& [rank, bytes] : sizes(message)) {
    std::error_code error;
    if (!std::filesystem::exists(job::image_path(directory, message.wave(), rank), error)) missing += bytes;
  }
  return missing;
}

void keep_its_parity(const Task& task) {
  Sources sources(task.readers, sources_of(task.message), task.message.wave());
  job::ProtectDone done;
  done.set_wave(task.message.wave());
  // It reads a chunk of each other member.
  done.set_total_bytes(parity_bytes(sources.list()) * static_cast<std::uint64_t>(std::max(task.message.sources_size() - 1, 0)));
  try {
    keep_parity(sources, task.node, task.directory, {task.bytes_per_second, task.wanted, nullptr});
    done.set_done_bytes(done.total_bytes());
  } catch (const std::exception& failure) {
    done.set_error(failure.what());
  }
  done.set_network_bytes(sources.network_bytes());
  for (const std::uint32_t node : sources.unreachable()) done.add_unreachable(node);
  done.set_finished(true);
  task.tell(done);
}

void copy_images(const Task& task) {
  const std::uint32_t wave = task.message.wave();
  Sources sources(task.readers, sources_of(task.message), wave);
  const auto ranks = sizes(task.message);
  job::ProtectDone state;
  state.set_wave(wave);
  for (const auto& [rank, bytes] : ranks) state.set_total_bytes(state.total_bytes() + bytes);
  std::uint64_t told = 0;
  const CopyLimits limits{task.bytes_per_second, task.wanted, [&](std::uint64_t bytes) {
                            state.set_done_bytes(state.done_bytes() + bytes);
                            if (state.done_bytes() - told < kTold) return;
                            told = state.done_bytes();
                            state.set_network_bytes(sources.network_bytes());
                            task.tell(state);
                          }};
  std::size_t left = ranks.size();
  for (const auto& [rank, bytes] : ranks) {
    job::RankStaged report;
    report.set_rank(rank);
    report.set_begin_unix_ns(unix_ns());
    try {
      report.set_bytes(sources.copy(rank, job::image_path(task.directory, wave, rank), Sources::Form::as_it_is, limits));
    } catch (const std::exception& failure) {
      report.set_error(failure.what());
    }
    if (!task.wanted()) return task.tell(failed(wave, fmt::format("wave {} is removed", wave)));
    report.set_end_unix_ns(unix_ns());
    job::ProtectDone one = state;
    *one.add_ranks() = report;
    one.set_network_bytes(sources.network_bytes());
    for (const std::uint32_t node : sources.unreachable()) one.add_unreachable(node);
    one.set_finished(--left == 0);
    task.tell(one);
  }
  if (!ranks.empty()) return;
  state.set_finished(true);
  task.tell(state);
}

}  // namespace

Protecting::~Protecting() {
  stop();
  thread_.join();
}

void Protecting::end(Wave how, const std::function<bool(std::uint32_t)>& which) {
  for (auto at = waves_.begin(); at != waves_.end();) {
    const auto here = at++;
    if (!which(here->first)) continue;
    *here->second = how;
    waves_.erase(here);
  }
}

void Protecting::stop() {
  end(Wave::given_up, [](std::uint32_t) { return true; });
}

void Protecting::prune(const std::vector<std::uint32_t>& keep) {
  end(Wave::removed, [&](std::uint32_t wave) { return std::find(keep.begin(), keep.end(), wave) == keep.end(); });
}

void Protecting::begin(const job::Protect& message) {
  WaveState& state = waves_[message.wave()];
  if (!state) state = std::make_shared<std::atomic<Wave>>(Wave::there);
  const bool parity = node_.job.redundancy().kind() == job::Redundancy::XOR;
  // After the disk thread's pending tasks for the wave. If the wave is removed, the disk thread does that later than this, and
  // nothing makes its directory again.
  node_.on_disk(
      [directory = node_.images(), limit = node_.job.local_limit_bytes(), message, parity] {
        const std::string why = image_store::room_for(directory, needed(message, parity, directory), limit, "what is kept for other nodes");
        return why.empty() ? image_store::open_wave(directory, message.wave()) : why;
      },
      [this, message, parity, state](const std::string& why) {
        const auto answer = [this, state](const job::ProtectDone& done) {
          if (*state != Wave::given_up) tell(done);
        };
        if (!why.empty()) return answer(failed(message.wave(), why));
        const Task task{message, parity, node_.index, node_.images(), readers_of(node_), node_.job.stage_bytes_per_second(),
                        [state] { return *state == Wave::there; },
                        [this, answer](const job::ProtectDone& done) { asio::post(node_.loop, [answer, done] { answer(done); }); }};
        asio::post(thread_, [task] { task.parity ? keep_its_parity(task) : copy_images(task); });
      });
}

void Protecting::tell(const job::ProtectDone& done) {
  job::Up up;
  *up.mutable_protect_done() = done;
  node_.send(std::move(up));
}

}  // namespace reprise::crd
