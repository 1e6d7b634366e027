// SPDX-License-Identifier: GPL-2.0-only
#include "crd/staying.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "crd/environment.h"
#include "crd/launch.h"
#include "crd/peers.h"
#include "job/log.h"

namespace reprise::crd {

namespace {
/** A rank that does not communicate does not answer, and crrun goes another way. */
constexpr std::chrono::seconds kAnswersWithin{3};
}  // namespace

bool Staying::concerns(const Node& node, const job::Recover& message) {
  return message.stay() && std::any_of(message.placement().begin(), message.placement().end(), [&](const job::Placement& one) {
           return one.node() == node.index && node.own(one.rank());
         });
}

void Staying::begin(const job::Recover& message, const std::string& obstacle) {
  number_ = message.recovery();
  wave_ = message.wave();
  can_.clear();
  node_.recovery = number_;
  for (const job::Placement& one : message.placement()) {
    node_.placement[one.rank()] = one.node();
    if (one.node() == node_.index && node_.own(one.rank())) can_[one.rank()];
  }
  spdlog::info("recovery {}: {} ranks here stay if they can", number_, can_.size());
  std::string names;
  for (const job::SpawnBegin& space : message.spawned()) names += node_.name_of(space.first()).nspace + '\0';
  timer_.expires_after(kAnswersWithin);
  timer_.async_wait([this](const asio::error_code& error) {
    for (const auto& [rank, can] : can_)
      if (!error && !can) cannot(rank, fmt::format("it has not communicated for {} s", kAnswersWithin.count()));
  });
  for (const auto& [number, can] : can_) {
    Rank* const rank = node_.find(number);
    if (rank && rank->saved_in > wave_) rank->saved_in = 0;  // the image of a wave that counts no more is no parent
    if (!obstacle.empty())
      cannot(number, obstacle);
    else if (!rank || !rank->alive())
      cannot(number, "it has ended");
    else if (rank->broken_link)
      cannot(number, "messages were lost with a connection of it");
    else if (!node_.hears(number))
      cannot(number, "its transport is not connected");
    else
      ask(number, names);
  }
}

void Staying::ask(std::uint32_t rank, const std::string& names) {
  cr_rank_wave stay{};
  stay.head = {CR_RANK_STAY, static_cast<std::uint32_t>(sizeof stay + names.size()), rank, number_};
  stay.wave = wave_;
  std::string packet(sizeof stay, '\0');
  std::memcpy(packet.data(), &stay, sizeof stay);
  packet += names;
  if (packet.size() > CR_RANK_MAX) return cannot(rank, "there are too many spawned namespaces");
  node_.tell(rank, packet.data(), packet.size());
}

void Staying::answered(const RankMessage& message) {
  const auto& said = message.as<cr_rank_stays>();
  const auto found = can_.find(said.head.rank);
  if (said.of != number_ || found == can_.end() || found->second) return;
  if (!said.can) return cannot(said.head.rank, message.text(sizeof said));
  found->second = true;
  tell_when_all_can();
}

/** Say so at once: crrun does not wait for the others. */
void Staying::cannot(std::uint32_t rank, const std::string& why) {
  can_[rank] = false;
  job::Up up;
  up.mutable_restored()->set_recovery(number_);
  job::RankRestored& report = *up.mutable_restored()->add_ranks();
  report.set_rank(rank);
  report.set_stays(true);
  report.set_error(why.empty() ? "it does not say why" : why);
  node_.send(std::move(up));
}

void Staying::tell_when_all_can() {
  if (!std::all_of(can_.begin(), can_.end(), [](const auto& one) { return one.second == true; })) return;
  timer_.cancel();
  job::Up up;
  up.mutable_restored()->set_recovery(number_);
  for (const auto& [rank, can] : can_) {
    job::RankRestored& report = *up.mutable_restored()->add_ranks();
    report.set_rank(rank);
    report.set_stays(true);
  }
  node_.send(std::move(up));
}

void Staying::resume(const job::Resume& message) {
  if (message.recovery() != number_ || number_ != node_.recovery || can_.empty()) return;
  Namespaces namespaces = by_namespace(node_, message);
  namespaces.erase(node_.job.id());
  job::Up up;
  up.mutable_resumed()->set_recovery(number_);
  for (const auto& [number, can] : can_) {
    tell_peers(node_, number, namespaces);
    cr_rank_resume resume{};
    resume.spin = crowded(node_) ? crowded_spin(node_.job) : 0;
    resume.node = node_.index;
    node_.tell(number, resume, CR_RANK_RESUME);
    if (const Rank* rank = node_.find(number))
      for (auto& output : rank->outputs)
        if (output) output->stay(number_);
    // It holds its messages until it has read that: nobody needs to wait for an answer.
    up.mutable_resumed()->add_ranks()->set_rank(number);
  }
  node_.send(std::move(up));
  can_.clear();
}

void Staying::abandon() {
  timer_.cancel();
  can_.clear();
}

}  // namespace reprise::crd
