// SPDX-License-Identifier: GPL-2.0-only
#include "crd/fetching.h"

#include <system_error>
#include <utility>
#include <vector>

#include <asio/post.hpp>

#include "crd/image_store.h"
#include "crd/images/parity_files.h"
#include "crd/serving.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

/** What a Recover tells this node to read, away from the loop. */
struct Task {
  std::uint32_t wave;
  std::vector<job::Fetch> fetches;
  bool parity;            ///< the images are rebuilt, not copied
  std::string directory;  ///< LOCAL/ID
  Readers readers;
  std::function<bool()> wanted;
  Fetching::Then tell;
};

void fetch_all(const Task& task) {
  // Ranks wait for it, so its rate is not limited.
  const CopyLimits limits{0, task.wanted, nullptr};
  for (const job::Fetch& fetch : task.fetches) {
    Sources sources(task.readers, {fetch.sources().begin(), fetch.sources().end()}, task.wave);
    for (const std::uint32_t rank : fetch.ranks()) {
      Fetching::Result result;
      try {
        const std::string to = job::image_path(task.directory, task.wave, rank);
        if (task.parity && !sources.have(rank))
          rebuild_image(sources, rank, to, limits);
        else
          sources.copy(rank, to, Sources::Form::whole, limits);
      } catch (const std::system_error& failure) {
        result.error = failure.what();
      } catch (const std::exception& failure) {
        result.error = failure.what();
        result.bad = dynamic_cast<const Unreachable*>(&failure) == nullptr;
      }
      if (!task.wanted()) return;
      task.tell(rank, result);
    }
  }
}

}  // namespace

Fetching::~Fetching() {
  stop();
  thread_.join();
}

void Fetching::stop() {
  if (wanted_) *wanted_ = false;
}

std::vector<job::Fetch> Fetching::orders(const job::Recover& message) const {
  std::vector<job::Fetch> out;
  for (const job::Fetch& fetch : message.fetch())
    if (fetch.to() == node_.index) out.push_back(fetch);
  return out;
}

std::set<std::uint32_t> Fetching::begin(std::uint32_t wave, std::vector<job::Fetch> orders, Then then) {
  stop();
  std::set<std::uint32_t> ranks;
  for (const job::Fetch& fetch : orders) ranks.insert(fetch.ranks().begin(), fetch.ranks().end());
  if (ranks.empty()) return ranks;
  wanted_ = std::make_shared<std::atomic<bool>>(true);
  const auto tell = [this, then = std::move(then), wanted = wanted_](std::uint32_t rank, const Result& result) {
    asio::post(node_.loop, [then, wanted, rank, result] {
      if (*wanted) then(rank, result);
    });
  };
  const bool parity = node_.job.redundancy().kind() == job::Redundancy::XOR;
  const Task task{wave, std::move(orders), parity, node_.images(), readers_of(node_), [wanted = wanted_] { return wanted->load(); }, tell};
  node_.on_disk([directory = task.directory, wave = task.wave] { return image_store::open_wave(directory, wave); },
                [this, task, ranks](const std::string& why) {
                  if (why.empty()) return asio::post(thread_, [task] { fetch_all(task); });
                  for (const std::uint32_t rank : ranks) task.tell(rank, {why, false});
                });
  return ranks;
}

}  // namespace reprise::crd
