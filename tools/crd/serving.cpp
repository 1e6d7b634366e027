// SPDX-License-Identifier: GPL-2.0-only
#include "crd/serving.h"

#include <algorithm>
#include <exception>

#include "job/log.h"

namespace reprise::crd {

namespace {
/** In multiples of the longest lease. A node that is lost is not waited for until crrun says so. */
constexpr unsigned kSilence = 2;
constexpr std::chrono::milliseconds kLeastSilence{2000};
}  // namespace

Readers readers_of(const Node& node) {
  Readers out;
  out.secret = node.start.client.secret_key;
  for (const job::Node& one : node.nodes) out.hosts[one.index()] = one.host();
  out.silence = std::max(kLeastSilence, std::chrono::milliseconds(kSilence * node.job.lost_after_ms()));
  return out;
}

void Serving::welcomed() {
  if (node_.job.redundancy().kind() == job::Redundancy::NONE) return;
  try {
    if (!server_) server_.emplace(node_.images(), node_.start.client.secret_key);
  } catch (const std::exception& error) {
    return node_.say(job::Log::WARNING, fmt::format("no other node can copy images of this one: {}", error.what()));
  }
  job::Up up;
  *up.mutable_serving() = node_.reachable(server_->port());
  node_.send(std::move(up));
}

}  // namespace reprise::crd
