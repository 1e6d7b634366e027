// SPDX-License-Identifier: GPL-2.0-only
#include "crd/standby.h"

#include <chrono>
#include <set>
#include <utility>

#include "job/log.h"

namespace reprise::crd {

namespace {
/** In multiples of the silence that counts as a node's loss. */
constexpr unsigned kTimesLostAfter = 4;
}  // namespace

void Standby::begin(const job::Recover& expected) {
  if (!expected.wave()) return abandon();
  ++turn_;
  timer_.expires_after(std::chrono::milliseconds(kTimesLostAfter * node_.job.lost_after_ms()));
  timer_.async_wait([this, turn = turn_](const asio::error_code& error) {
    if (!error && turn == turn_) abandon();
  });
  const std::set<std::uint32_t> restart(expected.restart().begin(), expected.restart().end());
  auto places = images_here(node_, expected);
  std::vector<std::uint32_t> anew;
  for (const auto& [number, place] : places)
    if (restart.count(number)) anew.push_back(number);
  calm_ranks(true);
  spdlog::info("preparing for a possible recovery to wave {}, with {} ranks to restart here", expected.wave(), anew.size());
  // If the set of silent nodes has changed, most of the preparation is still usable.
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto place = places.find(at->first);
    if (place != places.end() && is_for(*at, restart.count(at->first) > 0, place->second)) {
      places.erase(place);
      ++at;
    } else {
      node_.end_tool(std::move(at->second.tool));
      at = attempts_.erase(at);
    }
  }
  std::map<std::uint32_t, std::uint32_t> placement;
  for (const job::Placement& one : expected.placement()) placement[one.rank()] = one.node();
  if (placement != placement_ || anew != pmix_ranks_) drop_pmix();
  placement_ = placement;
  pmix_ranks_ = anew;
  const bool spawned = expected.spawned_size() > 0;
  find_images(node_, places, [this, restart, spawned, turn = turn_](const std::map<std::uint32_t, FoundImage>& found) {
    if (turn != turn_) return;
    for (const auto& [number, image] : found) ready(number, restart.count(number) > 0, image);
    // A node with ranks cannot replace its PMIx server in advance: the server is in use. And only the recovery itself says
    // where spawned processes go.
    if (pmix_ || spawned || pmix_ranks_.empty() || !node_.ranks.empty() || !node_.spawned.empty()) return;
    pmix_ = std::make_unique<PmixRenewal>(node_, Side::own, placement_, pmix_ranks_);
  });
}

void Standby::calm_ranks(bool on) {
  if (std::exchange(calm_, on) == on) return;
  cr_rank_calm calm{};
  calm.on = on;
  for (const auto& [number, rank] : node_.ranks) node_.tell(number, calm, CR_RANK_CALM);
}

void Standby::ready(std::uint32_t number, bool restart, const FoundImage& image) try {
  // Do not report errors now: the recovery reports them if it comes.
  if (!image.error.empty()) return;
  const Rank* rank = node_.find(number);
  if (restart && rank && rank->alive()) return;  // its process id is in use
  if (restart)
    attempts_.insert_or_assign(number, ready_restart(node_, number, image));
  else if (rank && rank->alive())
    attempts_.insert_or_assign(number, ready_pause(node_, *rank, image));
} catch (const std::exception& error) {
  spdlog::debug("cannot prepare rank {}: {}", number, error.what());
}

bool Standby::is_for(const std::pair<const std::uint32_t, Attempt>& one, bool restart, const job::ImagePlace& place) const {
  const Attempt& attempt = one.second;
  if (place.paths_size() == 0 || attempt.path != place.paths(0)) return false;
  if (place.checksum() && attempt.manifest.checksum != place.checksum()) return false;
  return attempt.fits(restart, node_.find(one.first)) && !attempt.tool->over();
}

std::optional<Attempt> Standby::take(std::uint32_t number, bool restart, const job::ImagePlace& place) {
  const auto found = attempts_.find(number);
  if (found == attempts_.end() || !is_for(*found, restart, place)) return std::nullopt;
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
  calm_ranks(false);
  for (auto& [number, attempt] : std::exchange(attempts_, {})) node_.end_tool(std::move(attempt.tool));
  drop_pmix();
}

void Standby::drop_pmix() {
  if (!std::exchange(pmix_, nullptr)) return;
  node_.pmix.drop(Side::own);
}

}  // namespace reprise::crd
