// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_relay.h"

#include <algorithm>

#include "job/log.h"

namespace reprise::crd {

void PmixRelay::reset() {
  counts_.clear();
  fences_.clear();
  finished_.clear();
  questions_.clear();
  modex_told_ = false;
}

void PmixRelay::others_went_back() {
  const auto theirs = [this](const Part& part) {
    const std::vector<std::uint32_t>& members = part.second.second;
    return part.first == Side::spawned || (!members.empty() && !node_.own(members.back()));
  };
  std::erase_if(counts_, [&](const auto& one) { return theirs(one.first); });
  std::erase_if(finished_, [&](const auto& one) { return theirs(one.first); });
  std::erase_if(fences_, [](const auto& one) { return one.second.side == Side::spawned; });
  std::erase_if(questions_, [](const auto& one) { return one.second.side == Side::spawned; });
}

bool PmixRelay::waits() const {
  const auto is_own = [](const auto& one) { return one.second.side == Side::own; };
  return std::any_of(fences_.begin(), fences_.end(), is_own) || std::any_of(questions_.begin(), questions_.end(), is_own);
}

void PmixRelay::send(const job::Up& up) { node_.send(job::Up(up)); }

std::uint64_t PmixRelay::ask(Side side, std::uint64_t id) {
  Open& open = questions_[++last_];
  open.side = side;
  open.id = id;
  return last_;
}

void PmixRelay::tell_modex() {
  ToPmix tell;
  tell.set_tell_modex(true);
  node_.pmix.tell_all(tell);
}

void PmixRelay::resend() {
  for (const auto& [part, up] : finished_) send(up);
  for (const auto& [key, open] : fences_) send(open.up);
  for (const auto& [number, open] : questions_) send(open.up);
  if (modex_told_) tell_modex();
}

void PmixRelay::take(Side side, const FromPmix& message) {
  job::Up up;
  switch (message.what_case()) {
    case FromPmix::kFence: {
      const PmixFence& fence = message.fence();
      Members members(fence.group(), {fence.members().begin(), fence.members().end()});
      std::sort(members.second.begin(), members.second.end());
      const Part part(side, std::move(members));
      const std::uint32_t count = counts_[part]++;
      job::Fence& out = *up.mutable_fence();
      out.mutable_members()->Assign(part.second.second.begin(), part.second.second.end());
      out.set_group(fence.group());
      out.set_context(fence.context());
      out.set_whole(fence.whole());
      out.set_count(count);
      out.set_data(fence.data());
      out.set_collect(fence.collect());
      out.set_recovery(node_.recovery);
      out.set_spawned(side == Side::spawned);
      fences_[{part, count}] = {side, fence.id(), up};
      break;
    }
    case FromPmix::kModex: {
      const std::uint64_t number = ask(side, message.modex().id());
      up.mutable_modex_request()->set_id(number);
      up.mutable_modex_request()->set_rank(message.modex().rank());
      questions_[number].up = up;
      break;
    }
    case FromPmix::kBlob:
      up.mutable_modex_blob()->set_rank(message.blob().rank());
      up.mutable_modex_blob()->set_data(message.blob().data());
      break;
    case FromPmix::kPublish: {
      const PmixPublish& publish = message.publish();
      job::Publish& out = *up.mutable_publish();
      out.set_id(ask(side, publish.id()));
      out.set_publisher(std::to_string(publish.rank()));
      for (const auto& [key, value] : publish.values()) (*out.mutable_values())[key] = value;
      out.set_unpublish(publish.unpublish());
      *out.mutable_keys() = publish.keys();
      out.set_once(publish.once());
      questions_[out.id()].up = up;
      break;
    }
    case FromPmix::kLookup: {
      const std::uint64_t number = ask(side, message.lookup().id());
      up.mutable_lookup()->set_id(number);
      *up.mutable_lookup()->mutable_keys() = message.lookup().keys();
      up.mutable_lookup()->set_wait(message.lookup().wait());
      questions_[number].up = up;
      break;
    }
    case FromPmix::kAbort:
      up.mutable_abort()->set_rank(message.abort().rank());
      up.mutable_abort()->set_status(message.abort().status());
      up.mutable_abort()->set_message(message.abort().message());
      break;
    case FromPmix::kNotice: {
      // crrun tells the other nodes.
      ToPmix here;
      *here.mutable_notice() = message.notice();
      node_.pmix.tell(side == Side::own ? Side::spawned : Side::own, here);
      up.mutable_pmix_event()->set_status(message.notice().status());
      up.mutable_pmix_event()->set_source(message.notice().source());
      up.mutable_pmix_event()->set_data(message.notice().data());
      *up.mutable_pmix_event()->mutable_targets() = message.notice().targets();
      break;
    }
    case FromPmix::kSpawn: {
      job::Spawn& out = *up.mutable_spawn();
      out.set_id(ask(side, message.spawn().id()));
      out.set_from(message.spawn().rank());
      out.set_recovery(node_.recovery);
      for (const std::string& app : message.spawn().apps()) out.add_apps()->ParseFromString(app);
      questions_[out.id()].up = up;
      break;
    }
    case FromPmix::kFinalized:
      if (Rank* rank = node_.find(message.finalized())) rank->finalized = true;
      return;
    case FromPmix::kLog:
      return node_.say(job::Log::INFO, message.log().text(), message.log().rank());
    default:
      return;
  }
  node_.send(std::move(up));
}

void PmixRelay::finish(const job::FenceDone& done) {
  if (done.recovery() != node_.recovery) return;
  Members members(done.group(), {done.members().begin(), done.members().end()});
  std::sort(members.second.begin(), members.second.end());
  bool any = false;
  for (const Side side : kSides) {
    const Part part(side, members);
    auto open = fences_.extract({part, done.count()});
    if (!open) continue;  // its members are clients of other servers
    any = true;
    ToPmix to;
    PmixFenceDone& out = *to.mutable_fence_done();
    out.set_id(open.mapped().id);
    out.set_context(done.context());
    out.set_status(done.status());
    out.set_data(done.data());
    finished_[part] = std::move(open.mapped().up);
    node_.pmix.tell(side, to);
  }
  // All have put their data: send it to crrun for daemons that join later.
  if (any && !std::exchange(modex_told_, true)) tell_modex();
}

bool PmixRelay::take(const job::Down& message) {
  ToPmix to;
  const auto answer = [this, &to](std::uint64_t number, auto fill) {
    const auto open = questions_.extract(number);
    if (!open) return;
    fill(open.mapped().id);
    node_.pmix.tell(open.mapped().side, to);
  };
  switch (message.what_case()) {
    case job::Down::kFenceDone:
      finish(message.fence_done());
      return true;
    case job::Down::kModexReply:
      answer(message.modex_reply().id(), [&](std::uint64_t id) {
        PmixModexReply& out = *to.mutable_modex_reply();
        out.set_id(id);
        out.set_status(message.modex_reply().status());
        out.set_data(message.modex_reply().data());
      });
      return true;
    case job::Down::kLookupReply:
      answer(message.lookup_reply().id(), [&](std::uint64_t id) {
        PmixLookupReply& out = *to.mutable_lookup_reply();
        out.set_id(id);
        out.set_status(message.lookup_reply().status());
        out.set_publisher(message.lookup_reply().publisher());
        for (const auto& [key, value] : message.lookup_reply().values()) (*out.mutable_values())[key] = value;
      });
      return true;
    case job::Down::kSpawnReply:
      answer(message.spawn_reply().id(), [&](std::uint64_t id) {
        PmixSpawnReply& out = *to.mutable_spawn_reply();
        out.set_id(id);
        out.set_status(message.spawn_reply().status());
        out.set_nspace(message.spawn_reply().nspace());
      });
      return true;
    case job::Down::kPmixEvent: {
      PmixNotice& out = *to.mutable_notice();
      out.set_status(message.pmix_event().status());
      out.set_source(message.pmix_event().source());
      out.set_data(message.pmix_event().data());
      *out.mutable_targets() = message.pmix_event().targets();
      node_.pmix.tell_all(to);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace reprise::crd
