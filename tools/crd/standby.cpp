// SPDX-License-Identifier: GPL-2.0-only
#include "crd/standby.h"

#include <chrono>
#include <set>
#include <utility>

#include "job/log.h"

namespace reprise::crd {

namespace {
/** In times of the silence that counts as a node's loss. */
constexpr unsigned kPatience = 4;
}  // namespace

void Standby::begin(const job::Recover& expected) {
  abandon();
  if (!expected.wave()) return;
  timer_.expires_after(std::chrono::milliseconds(kPatience * node_.job.lost_after_ms()));
  timer_.async_wait([this, turn = turn_](const asio::error_code& error) {
    if (!error && turn == turn_) abandon();
  });
  const std::set<std::uint32_t> restart(expected.restart().begin(), expected.restart().end());
  std::map<std::uint32_t, std::uint32_t> placement;
  for (const job::Placement& one : expected.placement()) placement[one.rank()] = one.node();
  const auto places = images_here(node_, expected);
  std::vector<std::uint32_t> anew;
  for (const auto& [number, place] : places)
    if (restart.count(number)) anew.push_back(number);
  spdlog::info("a recovery to wave {} may come, with {} ranks to restart here", expected.wave(), anew.size());
  find_images(node_, places, [this, restart, placement, anew, turn = turn_](const std::map<std::uint32_t, FoundImage>& found) {
    if (turn != turn_) return;
    for (const auto& [number, image] : found) ready(number, restart.count(number) > 0, image);
    // Where ranks run their server is in use.
    if (anew.empty() || !node_.ranks.empty() || !node_.spawned.empty()) return;
    placement_ = placement;
    pmix_ranks_ = anew;
    pmix_ = std::make_unique<PmixRenewal>(node_, placement_, pmix_ranks_);
  });
}

void Standby::ready(std::uint32_t number, bool restart, const FoundImage& image) try {
  // What is wrong is told when it matters.
  if (!image.error.empty()) return;
  const Rank* rank = node_.find(number);
  if (restart && rank && rank->alive()) return;  // two processes cannot have its id
  if (restart)
    attempts_.insert_or_assign(number, ready_restart(node_, number, image));
  else if (rank && rank->alive())
    attempts_.insert_or_assign(number, ready_pause(node_, *rank, image));
} catch (const std::exception& error) {
  spdlog::debug("nothing is made ready for rank {}: {}", number, error.what());
}

std::optional<Attempt> Standby::take(std::uint32_t number, bool restart, const job::ImagePlace& place) {
  const auto found = attempts_.find(number);
  if (found == attempts_.end() || place.paths_size() == 0) return std::nullopt;
  const Attempt& attempt = found->second;
  const bool same = attempt.path == place.paths(0) && (!place.checksum() || attempt.manifest.checksum == place.checksum());
  if (!same || !attempt.fits(restart, node_.find(number)) || attempt.tool->over()) return std::nullopt;
  std::optional<Attempt> out(std::move(found->second));
  attempts_.erase(found);
  return out;
}

std::unique_ptr<PmixRenewal> Standby::take_pmix(const std::map<std::uint32_t, std::uint32_t>& placement,
                                                const std::vector<std::uint32_t>& ranks) {
  return placement == placement_ && ranks == pmix_ranks_ ? std::move(pmix_) : nullptr;
}

void Standby::abandon() {
  ++turn_;
  timer_.cancel();
  for (auto& [number, attempt] : std::exchange(attempts_, {})) node_.end_tool(std::move(attempt.tool));
  if (!std::exchange(pmix_, nullptr)) return;
  node_.pmix.reset();
  ++node_.pmix_generation;
}

}  // namespace reprise::crd
