// SPDX-License-Identifier: GPL-2.0-only
#include "crd/children.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "job/keys.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {

namespace {
using namespace std::chrono_literals;
/** Longest time that an answer waits for others to be joined with. */
constexpr std::uint64_t kPatienceMs = 200;
constexpr auto kTick = 50ms;

std::uint64_t now_ms() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}
}  // namespace

Children::Children(Node& node, ChildrenEvents events)
    : node_(node), events_(std::move(events)), keys_(job::make_key_pair()), relay_(node.index, node.instance, {}, kPatienceMs),
      timer_(node.loop),
      server_(node.loop, keys_, node.start.client.public_key, 0,
              {.up = [this](const job::Peer& peer, const job::Up& up) { said(peer, up); },
               .ask = nullptr,
               .disconnected = [this](const job::Peer& peer) { gone(peer); },
               // Children try all addresses of this daemon at once, and drop the connections that they do not need.
               .refused = [](const std::string& address,
                             const std::string& why) { spdlog::info("a connection from {} was refused: {}", address, why); }}) {
  tick();
}

job::Relaying Children::offer() const { return node_.reachable(server_.port(), keys_.public_key); }

std::vector<job::Up> Children::own(const job::Up& up) { return relay_.up(up, now_ms()); }

void Children::said(const job::Peer& peer, const job::Up& up) {
  const std::optional<std::uint32_t> child = job::node_of_connection(peer);
  if (!child || ended_) return;
  Child& known = children_[*child];
  if (known.peer != peer) {
    // The child has a new daemon process: the nodes below the old one have connected elsewhere.
    relay_.child_lost(*child);
    known.peer = peer;
    spdlog::info("node {} connects to crrun through this node", *child);
  }
  if (!relay_.heard(*child, up.from())) {
    spdlog::warn("a message of {} is dropped: it was sent in this node's name", peer);
    return;
  }
  if (up.from() == *child) known.instance = up.instance();
  if (up.has_heartbeat())
    for (const job::RelayedBeat& below : up.heartbeat().below()) relay_.heard(*child, below.node());
  for (const job::Up& one : relay_.up(up, now_ms())) events_.up(one);
}

void Children::gone(const job::Peer& peer) {
  const std::optional<std::uint32_t> child = job::node_of_connection(peer);
  const auto found = child ? children_.find(*child) : children_.end();
  if (ended_ || found == children_.end() || found->second.peer != peer) return;
  spdlog::info("node {} does not connect through this node any more", *child);
  job::Up up;
  up.mutable_child_gone()->set_node(*child);
  up.mutable_child_gone()->set_instance(found->second.instance);
  relay_.child_lost(*child);
  children_.erase(found);
  node_.send(std::move(up));
}

void Children::pass(const job::Down& down) {
  std::vector<job::Peer> peers;
  for (const std::uint32_t child : relay_.down(down)) {
    const auto found = children_.find(child);
    if (found == children_.end()) continue;
    if (down.has_heartbeat())
      server_.send(found->second.peer, relay_.answer_for(child, down));
    else
      peers.push_back(found->second.peer);
  }
  if (!peers.empty()) server_.send(peers, down);
}

std::vector<job::Up> Children::end() {
  ended_ = true;
  timer_.cancel();
  return relay_.flush();
}

void Children::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || ended_) return;
    for (const job::Up& up : relay_.tick(now_ms())) events_.up(up);
    // Each level of the tree adds its delay to the age of the answer that renews the lease.
    const std::uint64_t heartbeat = node_.welcomed && node_.job.heartbeat_ms() ? node_.job.heartbeat_ms() : 500;
    if (const auto since = relay_.beats_since(); since && now_ms() >= *since + heartbeat / 8) events_.beat();
    if (!ended_) tick();
  });
}

}  // namespace reprise::crd
