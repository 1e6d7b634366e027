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
  const auto with_spawned = [this](const auto& one) { return !one.first.second.empty() && !node_.own(one.first.second.back()); };
  std::erase_if(counts_, with_spawned);
  std::erase_if(finished_, with_spawned);
}

void PmixRelay::send(const job::Up& up) { node_.send(job::Up(up)); }

std::uint64_t PmixRelay::ask(std::uint64_t id) {
  questions_[++last_].id = id;
  return last_;
}

void PmixRelay::resend() {
  for (const auto& [members, up] : finished_) send(up);
  for (const auto& [key, open] : fences_) send(open.up);
  for (const auto& [number, open] : questions_) send(open.up);
  if (!modex_told_ || !node_.pmix) return;
  ToPmix tell;
  tell.set_tell_modex(true);
  node_.pmix->send(tell);
}

void PmixRelay::take(const FromPmix& message) {
  job::Up up;
  switch (message.what_case()) {
    case FromPmix::kFence: {
      const PmixFence& fence = message.fence();
      Members members(fence.group(), {fence.members().begin(), fence.members().end()});
      std::sort(members.second.begin(), members.second.end());
      const std::uint32_t count = counts_[members]++;
      job::Fence& out = *up.mutable_fence();
      out.mutable_members()->Assign(members.second.begin(), members.second.end());
      out.set_group(fence.group());
      out.set_context(fence.context());
      out.set_whole(fence.whole());
      out.set_count(count);
      out.set_data(fence.data());
      out.set_collect(fence.collect());
      out.set_recovery(node_.recovery);
      fences_[{members, count}] = {fence.id(), up};
      break;
    }
    case FromPmix::kModex: {
      const std::uint64_t number = ask(message.modex().id());
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
      out.set_id(ask(publish.id()));
      out.set_publisher(std::to_string(publish.rank()));
      for (const auto& [key, value] : publish.values()) (*out.mutable_values())[key] = value;
      out.set_unpublish(publish.unpublish());
      *out.mutable_keys() = publish.keys();
      out.set_once(publish.once());
      questions_[out.id()].up = up;
      break;
    }
    case FromPmix::kLookup: {
      const std::uint64_t number = ask(message.lookup().id());
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
    case FromPmix::kNotice:
      up.mutable_pmix_event()->set_status(message.notice().status());
      up.mutable_pmix_event()->set_source(message.notice().source());
      up.mutable_pmix_event()->set_data(message.notice().data());
      *up.mutable_pmix_event()->mutable_targets() = message.notice().targets();
      break;
    case FromPmix::kSpawn: {
      job::Spawn& out = *up.mutable_spawn();
      out.set_id(ask(message.spawn().id()));
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

bool PmixRelay::take(const job::Down& message) {
  ToPmix to;
  switch (message.what_case()) {
    case job::Down::kFenceDone: {
      const job::FenceDone& done = message.fence_done();
      if (done.recovery() != node_.recovery) return true;
      Members members(done.group(), {done.members().begin(), done.members().end()});
      std::sort(members.second.begin(), members.second.end());
      auto open = fences_.extract({members, done.count()});
      if (!open) return true;  // all members are on other nodes
      to.mutable_fence_done()->set_id(open.mapped().id);
      to.mutable_fence_done()->set_context(done.context());
      finished_[members] = std::move(open.mapped().up);
      to.mutable_fence_done()->set_status(done.status());
      to.mutable_fence_done()->set_data(done.data());
      break;
    }
    case job::Down::kModexReply: {
      const auto open = questions_.extract(message.modex_reply().id());
      if (!open) return true;
      to.mutable_modex_reply()->set_id(open.mapped().id);
      to.mutable_modex_reply()->set_status(message.modex_reply().status());
      to.mutable_modex_reply()->set_data(message.modex_reply().data());
      break;
    }
    case job::Down::kLookupReply: {
      const auto open = questions_.extract(message.lookup_reply().id());
      if (!open) return true;
      PmixLookupReply& out = *to.mutable_lookup_reply();
      out.set_id(open.mapped().id);
      out.set_status(message.lookup_reply().status());
      out.set_publisher(message.lookup_reply().publisher());
      for (const auto& [key, value] : message.lookup_reply().values()) (*out.mutable_values())[key] = value;
      break;
    }
    case job::Down::kSpawnReply: {
      const auto open = questions_.extract(message.spawn_reply().id());
      if (!open) return true;
      to.mutable_spawn_reply()->set_id(open.mapped().id);
      to.mutable_spawn_reply()->set_status(message.spawn_reply().status());
      to.mutable_spawn_reply()->set_nspace(message.spawn_reply().nspace());
      break;
    }
    case job::Down::kPmixEvent:
      to.mutable_notice()->set_status(message.pmix_event().status());
      to.mutable_notice()->set_source(message.pmix_event().source());
      to.mutable_notice()->set_data(message.pmix_event().data());
      *to.mutable_notice()->mutable_targets() = message.pmix_event().targets();
      break;
    default:
      return false;
  }
  if (!node_.pmix) return true;
  node_.pmix->send(to);
  if (message.has_fence_done() && !std::exchange(modex_told_, true)) {
    // All have put their data: send it to crrun for daemons that join later.
    ToPmix tell;
    tell.set_tell_modex(true);
    node_.pmix->send(tell);
  }
  return true;
}

}  // namespace reprise::crd
