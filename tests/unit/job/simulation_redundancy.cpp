// SPDX-License-Identifier: GPL-2.0-only
// What the simulated daemons keep of each other's images.
#include <algorithm>

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

namespace {
auto listed(const google::protobuf::RepeatedPtrField<ImageSource>& sources) {
  std::vector<std::pair<NodeIndex, std::vector<Rank>>> out;
  for (const ImageSource& source : sources) {
    out.emplace_back(source.node(), std::vector<Rank>{});
    for (const StoredImage& image : source.images()) out.back().second.push_back(image.rank());
  }
  return out;
}
}  // namespace

/** @return the exclusive or of the nodes' first, second … images, without a node that is lost; nothing: one is not handed out */
std::optional<std::vector<std::uint64_t>> Cluster::parity_of(const google::protobuf::RepeatedPtrField<ImageSource>& sources,
                                                             WaveNumber wave) const {
  std::vector<std::uint64_t> out;
  for (const ImageSource& source : sources) {
    const auto size = static_cast<std::size_t>(source.images_size());
    if (out.size() < size) out.resize(size);
    if (!source.has_from()) continue;
    for (std::size_t i = 0; i < size; ++i) {
      const Image* image = handed_out(source, wave, source.images(static_cast<int>(i)).rank());
      if (!image) return std::nullopt;
      out[i] ^= image->progress_ms;
    }
  }
  return out;
}

/** The image of a lost node, from what the others of its set have. All of them must have made their parity of the same images. */
const Cluster::Image* Cluster::rebuilt(const Fetch& order, WaveNumber wave, Rank rank, Image& room) const {
  const auto of = listed(order.sources());
  auto values = parity_of(order.sources(), wave);
  if (!values) return nullptr;
  const std::vector<std::uint64_t>* parity = nullptr;
  std::size_t at = 0;
  for (const ImageSource& source : order.sources()) {
    if (!source.has_from()) {
      while (at < static_cast<std::size_t>(source.images_size()) && source.images(static_cast<int>(at)).rank() != rank) ++at;
      continue;
    }
    const auto& kept = daemons_[source.node()]->parity;
    const auto found = kept.find(wave);
    if (found == kept.end() || found->second.of != of) return nullptr;
    parity = &found->second.values;
  }
  if (!parity || at >= values->size()) return nullptr;
  room = {(*parity)[at] ^ (*values)[at], true, false};
  return &room;
}

void Cluster::protect(NodeIndex node, const Protect& order) {
  Daemon& daemon = *daemons_[node];
  if (model_.settings.spec.redundancy().kind() == Redundancy::XOR) {
    Up up;
    ProtectDone& done = *up.mutable_protect_done();
    done.set_wave(order.wave());
    done.set_finished(true);
    const auto values = parity_of(order.sources(), order.wave());
    if (values && !daemon.keeps_none)
      daemon.parity[order.wave()] = {listed(order.sources()), *values};
    else
      done.set_error("no parity could be kept");
    return send_up(node, std::move(up));
  }
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
      Image room;
      const bool of_set = std::any_of(order.sources().begin(), order.sources().end(), [](const auto& source) { return !source.has_from(); });
      if (of_set) image = rebuilt(order, wave, rank, room);
      if (image)
        daemon.images[{wave, rank}] = {image->progress_ms, true, false};
      else
        out.insert(rank);
    }
  }
  return out;
}

void Cluster::tell_copy(NodeIndex node, const KeptCopy& copy, const std::string& error, bool asked) {
  Up up;
  HasCopy& has = *up.mutable_has_copy();
  *has.mutable_copy() = copy;
  has.set_error(error);
  has.set_asked(asked);
  send_up(node, std::move(up));
}

void Cluster::copy_kept(Rank rank) {
  const auto node = where(rank);
  if (!node) return;
  Daemon& daemon = *daemons_[*node];
  KeptCopy& copy = daemon.copies[rank];
  copy.set_rank(rank);
  copy.set_name("log");
  copy.set_version((std::uint64_t{daemon.recovery} << 32) + ++copies_made_);
  copy.set_bytes(daemon.ranks.at(rank).progress_ms);
  for (const auto& [key, image] : daemon.images)
    if (key.second == rank) copy.set_wave(std::max(copy.wave(), key.first));
  copies_asked_[rank] = copy.version();
  tell_copy(*node, copy, "", true);
}

std::uint64_t Cluster::copy_on(NodeIndex node, Rank rank) const {
  const auto found = daemons_[node]->copies.find(rank);
  return found == daemons_[node]->copies.end() ? 0 : found->second.version();
}

/** @return whether the node has it now */
bool Cluster::keep_copy(NodeIndex node, const KeepCopy& order) {
  if (order.to() != node) return false;
  bool there = copy_on(node, order.copy().rank()) >= order.copy().version();
  for (const ImageSource& source : order.sources()) {
    const Daemon& from = *daemons_[source.node()];
    const bool reached = from.host && from.alive && !from.cut && source.from().public_key() == from.instance;
    there |= reached && copy_on(source.node(), order.copy().rank()) == order.copy().version();
  }
  there &= !daemons_[node]->keeps_none;
  if (there) daemons_[node]->copies[order.copy().rank()] = order.copy();
  tell_copy(node, order.copy(), there ? "" : "it could not be read", false);
  return there;
}

void Cluster::introduce_copies(NodeIndex node) {
  for (const auto& [rank, copy] : daemons_[node]->copies) tell_copy(node, copy, "", copies_asked_[rank] == copy.version());
}

}  // namespace reprise::job::sim
