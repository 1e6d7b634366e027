// SPDX-License-Identifier: GPL-2.0-only
#include "mapping.h"

#include <algorithm>

namespace reprise::job {

namespace {

/** A node while ranks are mapped to it. */
struct Place {
  const Seat* seat;
  std::uint32_t room;      ///< ranks that may be there without oversubscription
  std::uint32_t used = 0;
  bool full() const { return used >= room; }
};

bool is_bound(const JobSpec& job) { return !job.bind_to().empty() && job.bind_to() != "none"; }

std::uint32_t per_rank(const JobSpec& job) { return std::max(1u, job.mapping().pe()); }

/** Of a node, to bind ranks to. */
std::uint32_t units(const JobSpec& job, const Parts& parts) { return job.bind_to() == "hwthread" ? parts.hwthreads() : parts.cores(); }

std::string unit_words(const JobSpec& job, std::uint32_t count) {
  return std::to_string(count) + (job.bind_to() == "hwthread" ? " hardware thread" : " core") + (count == 1 ? "" : "s");
}

std::string slot_words(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " slot" : " slots"); }

class Mapper {
 public:
  Mapper(const JobSpec& job, const std::vector<Seat>& seats, bool oversubscribe) : job_(job), oversubscribe_(oversubscribe) {
    for (const Seat& seat : seats)
      if (seat.usable && !seat.spare && seat.slots) places_.push_back({&seat, seat.slots});
  }

  Mapped run() {
    for (Place& place : places_)
      if (std::string why = fit(place); !why.empty()) return why;
    if (job_.rankfile_size()) {
      if (std::string why = by_rankfile(); !why.empty()) return why;
    } else if (job_.apps_size()) {
      for (const SpawnApp& app : job_.apps())
        if (std::string why = program(app.processes(), app.hosts()); !why.empty()) return why;
    } else if (std::string why = program(job_.ranks(), ""); !why.empty()) {
      return why;
    }
    if (std::string why = overloaded(); !why.empty()) return why;
    return std::move(out_);
  }

 private:
  /** What does not depend on the number of ranks. */
  std::string fit(Place& place) {
    const Mapping& by = job_.mapping();
    const Parts& parts = place.seat->parts;
    const bool needs_parts = is_bound(job_) || by.part() != Mapping::NODE;
    if (needs_parts && !parts.cores()) return place.seat->host + " does not tell its cores: its crd is older than this crrun";
    if (!is_bound(job_) || by.overload() || per_rank(job_) == 1) return "";
    const std::uint32_t whole = units(job_, parts), here = whole / std::max(1u, count_of(parts, by.part()));
    if (here < per_rank(job_))
      return "pe=" + std::to_string(per_rank(job_)) + ": " +
             (by.part() == Mapping::NODE ? place.seat->host : "a " + part_name(by.part()) + " of " + place.seat->host) + " has " +
             unit_words(job_, here) + "; give fewer to each rank" +
             (by.part() == Mapping::NODE ? "" : ", or map by something larger: --map-by slot:pe=" + std::to_string(per_rank(job_)));
    // Like mpirun: with several cores per rank a node may be full before its slots are.
    if (!oversubscribe_) place.room = std::min(place.room, here / per_rank(job_) * std::max(1u, count_of(parts, by.part())));
    return "";
  }

  std::string program(std::uint32_t ranks, const std::string& hosts) {
    std::vector<Place*> places;
    for (Place& place : places_)
      if (hosts.empty() || ("," + hosts + ",").find("," + place.seat->host + ",") != std::string::npos) places.push_back(&place);
    if (places.empty())  // the job is restarted on other nodes
      for (Place& place : places_) places.push_back(&place);
    if (places.empty()) return no_room(ranks, 0);
    if (job_.mapping().per_part()) return by_resource(ranks, places);
    std::uint64_t room = 0;
    for (const Place* place : places) room += place->full() ? 0 : place->room - place->used;
    if (room < ranks && !oversubscribe_) return no_room(ranks, room);
    const std::uint32_t first = std::min<std::uint64_t>(room, ranks) == ranks ? ranks : static_cast<std::uint32_t>(room);
    if (job_.mapping().by_node() || job_.mapping().span())
      in_turn(first, places, false);
    else
      fill(first, places);
    // When all slots are taken, every node gets its share of another round.
    if (first < ranks && (job_.mapping().by_node() || job_.mapping().span()))
      in_turn(ranks - first, places, true);
    else if (first < ranks)
      further_rounds(ranks - first, places);
    return "";
  }

  void put(Place& place) {
    ++place.used;
    out_.push_back(place.seat->node);
  }

  void fill(std::uint32_t ranks, const std::vector<Place*>& places) {
    for (Place* place : places)
      for (; ranks && !place->full(); --ranks) put(*place);
  }

  void further_rounds(std::uint32_t ranks, const std::vector<Place*>& places) {
    while (ranks)
      for (Place* place : places)
        for (std::uint32_t i = 0; i < place->seat->slots && ranks; ++i, --ranks) put(*place);
  }

  /** One on each node, or with span one on each part of each node. */
  void in_turn(std::uint32_t ranks, const std::vector<Place*>& places, bool beyond) {
    const auto step = [&](const Place& place) {
      return job_.mapping().span() ? std::max(1u, count_of(place.seat->parts, job_.mapping().part())) : 1u;
    };
    // The next program goes on where the one before has ended.
    const auto last = std::find_if(places.begin(), places.end(), [&](const Place* place) { return !out_.empty() && place->seat->node == out_.back(); });
    std::vector<Place*> order = places;
    if (last != places.end()) std::rotate(order.begin(), order.begin() + (last - places.begin()) + 1, order.end());
    while (ranks)
      for (Place* place : order)
        for (std::uint32_t i = 0; i < step(*place) && ranks && (beyond || !place->full()); ++i, --ranks) put(*place);
  }

  std::string by_resource(std::uint32_t ranks, const std::vector<Place*>& places) {
    const Mapping& by = job_.mapping();
    std::uint32_t left = ranks;
    for (Place* place : places) {
      const std::uint32_t wanted = by.per_part() * count_of(place->seat->parts, by.part());
      const std::uint32_t here = std::min(wanted, left);
      if (place->used + here > place->room && !oversubscribe_)
        return pattern() + " puts " + std::to_string(place->used + here) + " ranks on " + place->seat->host + ", which has " +
               (place->room < place->seat->slots ? "cores for " + std::to_string(place->room)
                                                 : slot_words(place->seat->slots)) +
               ": give it more (--hosts " + place->seat->host + ":N), or use --oversubscribe";
      for (std::uint32_t i = 0; i < here; ++i, --left) put(*place);
    }
    if (left)
      return pattern() + " has room for " + std::to_string(ranks - left) + " ranks on these nodes, not for " + std::to_string(ranks) +
             ": name more nodes, or put more ranks on each";
    return "";
  }

  std::string pattern() const {
    return "--map-by ppr:" + std::to_string(job_.mapping().per_part()) + ":" + part_name(job_.mapping().part());
  }

  std::string by_rankfile() {
    std::vector<std::size_t> homeless;
    for (const RankSlots& line : job_.rankfile()) {
      const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) { return place.seat->host == line.host(); });
      if (found == places_.end()) {
        homeless.push_back(out_.size());
        out_.push_back(0);
        continue;
      }
      if (found->full() && !oversubscribe_)
        return line.where() + ": " + line.host() + " has " + slot_words(found->seat->slots) +
               ", which lines before this one take: give it more (--hosts " + line.host() + ":N), or use --oversubscribe";
      put(*found);
    }
    for (const std::size_t rank : homeless) {
      const auto found = std::find_if(places_.begin(), places_.end(), [](const Place& place) { return !place.full(); });
      if (found == places_.end() && (!oversubscribe_ || places_.empty())) return no_room(static_cast<std::uint32_t>(out_.size()), out_.size() - homeless.size());
      Place& place = found == places_.end() ? places_[rank % places_.size()] : *found;
      ++place.used;
      out_[rank] = place.seat->node;
    }
    return "";
  }

  /** Whether ranks would have to share cores that they are bound to. */
  std::string overloaded() const {
    if (!is_bound(job_) || job_.mapping().overload() || oversubscribe_ || job_.rankfile_size()) return "";
    for (const Place& place : places_) {
      const std::uint32_t have = units(job_, place.seat->parts);
      if (place.used * per_rank(job_) > have)
        return place.seat->host + " gets " + std::to_string(place.used) + " ranks to be bound to " + unit_words(job_, per_rank(job_)) +
               " each, and has " + unit_words(job_, have) + ": use fewer ranks per node, --bind-to none, or --bind-to " +
               job_.bind_to() + ":overload-allowed";
    }
    return "";
  }

  std::string no_room(std::uint32_t ranks, std::uint64_t room) const {
    const bool by_cores = std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.room < place.seat->slots; });
    return (room == 1 ? "there is " : "there are ") + slot_words(room) + " for " + std::to_string(ranks) +
           " ranks" + (by_cores ? " of " + unit_words(job_, per_rank(job_)) + " each" : "") +
           ": name more nodes, give them slots (--hosts node1:4), or use --oversubscribe";
  }

  const JobSpec& job_;
  bool oversubscribe_;
  std::vector<Place> places_;
  PlacementTable out_;
};

}  // namespace

Mapped map_at_launch(const JobSpec& job, const std::vector<Seat>& seats, bool oversubscribe) {
  return Mapper(job, seats, oversubscribe).run();
}

std::string part_name(Mapping::Part part) {
  switch (part) {
    case Mapping::PACKAGE: return "package";
    case Mapping::NUMA: return "numa";
    case Mapping::CORE: return "core";
    case Mapping::HWTHREAD: return "hwthread";
    default: return "node";
  }
}

std::uint32_t count_of(const Parts& parts, Mapping::Part part) {
  switch (part) {
    case Mapping::PACKAGE: return parts.packages();
    case Mapping::NUMA: return parts.numas();
    case Mapping::CORE: return parts.cores();
    case Mapping::HWTHREAD: return parts.hwthreads();
    default: return 1;
  }
}

}  // namespace reprise::job
