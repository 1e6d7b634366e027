// SPDX-License-Identifier: GPL-2.0-only
// What the simulated daemons keep of each other's images.
#include "simulation_parts.h"

namespace reprise::job::sim {

void Cluster::keeps_none(NodeIndex node, bool none) { daemons_[node]->keeps_none = none; }

void Cluster::serve(NodeIndex node) {
  Up up;
  up.mutable_serving()->add_endpoints("tcp://10.0.0." + std::to_string(node) + ":1");
  up.mutable_serving()->set_public_key(daemons_[node]->instance);
  send_up(node, std::move(up));
}

/** @return an image that a node hands out, as far as it is reached there and has it intact */
const Cluster::Image* Cluster::handed_out(const ImageSource& source, WaveNumber wave, Rank rank) const {
  const Daemon& from = *daemons_[source.node()];
  // Another daemon has other keys.
  if (!from.host || !from.alive || from.cut || source.from().public_key() != from.instance) return nullptr;
  const auto image = from.images.find({wave, rank});
  return image != from.images.end() && image->second.committed && !image->second.damaged ? &image->second : nullptr;
}

void Cluster::protect(NodeIndex node, const Protect& order) {
  Daemon& daemon = *daemons_[node];
  Up up;
  ProtectDone& done = *up.mutable_protect_done();
  done.set_wave(order.wave());
  done.set_finished(true);
  for (const ImageSource& source : order.sources()) {
    const Daemon& from = *daemons_[source.node()];
    if (!from.host || !from.alive || from.cut) done.add_unreachable(source.node());
    for (const StoredImage& wanted : source.images()) {
      RankStaged& report = *done.add_ranks();
      report.set_rank(wanted.rank());
      const Image* image = handed_out(source, order.wave(), wanted.rank());
      if (!image || daemon.keeps_none) {
        report.set_error(image ? "no space left on the node" : "it is not handed out");
        continue;
      }
      daemon.images[{order.wave(), wanted.rank()}] = {image->progress_ms, true, false};
      report.set_bytes(model_.image_bytes);
      done.set_network_bytes(done.network_bytes() + model_.image_bytes);
    }
  }
  send_up(node, std::move(up));
}

/** Read images that no path leads to. @return the ranks of which none was found */
std::set<Rank> Cluster::fetch(NodeIndex node, WaveNumber wave, const google::protobuf::RepeatedPtrField<Fetch>& orders) {
  Daemon& daemon = *daemons_[node];
  std::set<Rank> out;
  for (const Fetch& order : orders) {
    if (order.to() != node) continue;
    for (const Rank rank : order.ranks()) {
      const Image* image = nullptr;
      for (const ImageSource& source : order.sources()) {
        bool has = false;
        for (const StoredImage& one : source.images()) has |= one.rank() == rank && one.wave() == wave;
        if (has && !image) image = handed_out(source, wave, rank);
      }
      if (image)
        daemon.images[{wave, rank}] = {image->progress_ms, true, false};
      else
        out.insert(rank);
    }
  }
  return out;
}

}  // namespace reprise::job::sim
