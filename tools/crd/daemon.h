// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The daemon of a node: dispatches crrun's messages to the parts that handle them, and ranks' messages to crrun. */
#include <memory>
#include <optional>
#include <string>

#include <asio/signal_set.hpp>

#include "crd/abandoned.h"
#include "crd/children.h"
#include "crd/kept_copies.h"
#include "crd/launch.h"
#include "crd/link.h"
#include "crd/node.h"
#include "crd/orphans.h"
#include "crd/pmix_relay.h"
#include "crd/prewarm.h"
#include "crd/protecting.h"
#include "crd/rehearsal.h"
#include "crd/recovery.h"
#include "crd/serving.h"
#include "crd/spawner.h"
#include "crd/staging.h"
#include "crd/staying.h"
#include "crd/watch.h"
#include "crd/waves.h"
#include "job/lost_links.h"
#include "session/lease.h"

namespace reprise::crd {

class Daemon {
 public:
  Daemon(asio::io_context& loop, const job::DaemonStart& start);
  /**
   * Run until crrun says that the job is over. Threads may still hang on a file system then: end the process without
   * waiting for them, by _exit(). @return exit status
   */
  int run();

 private:
  void hello();
  void take(const job::Down& down);
  void obey(const job::Down& down);
  void recover(const job::Recover& message);
  /** The ranks, and all other processes that come from this one, may run until @p until. */
  void renew(LeaseClock::time_point until);
  /** Carry out what crrun sent while this node was silent. */
  void take_held();
  void welcome(const job::Welcome& message);
  /** Tell a crrun that does not know this daemon yet what Hello does not say. */
  void introduce();
  void become_spare();
  void from_rank(const RankMessage& message);
  void deliver(int signal, const google::protobuf::RepeatedField<std::uint32_t>& ranks);
  void input(const job::Stdin& message);
  void heartbeat(job::Up& up);
  void drop_children();
  void shut_down(bool kill, bool keep_images);
  void end_all(std::function<void()> then);
  void leave(bool keep_images);
  /** Wave @p wave is complete in shared storage: prepare to restart ranks from it. */
  void get_ready(std::uint32_t wave);
  void tell_ready(const Rank& rank);

  asio::io_context& loop_;
  std::optional<Lease> lease_;  ///< empty: without the module no rank is ever started a second time
  std::string module_problem_;  ///< why processes cannot be saved here; "" when they can
  Orphans orphans_;
  UniqueFd run_lock_;  ///< held: this process is the job's daemon on this node
  Node node_;
  Serving serving_{node_};
  KeptCopies kept_copies_{node_, [this] { return serving_.on(); }};
  Waves waves_;
  Standby standby_;
  Recovery recovery_;
  Staying staying_{node_};
  Launcher launcher_;
  PmixRelay relay_;
  Spawner spawner_;
  Staging staging_;
  Protecting protecting_{node_};
  job::LostLinks lost_links_;
  Prewarm prewarm_;
  Rehearsal rehearsal_{node_};
  std::unique_ptr<Link> link_;
  Watch watch_{node_, [this] { return waves_.under_way() || recovery_.under_way() || link_->fenced(); }};
  std::unique_ptr<Abandoned> abandoned_;
  std::unique_ptr<Children> children_;  ///< nullptr: no daemon connects through this one
  asio::signal_set signals_;
  asio::steady_timer end_timer_;
  bool ending_ = false;
  std::chrono::steady_clock::time_point leave_by_{};  ///< latest time to wait for the daemons below
  std::vector<job::Down> held_;  ///< received while the ranks may not run; may be void
  std::uint64_t free_bytes_ = 0, image_bytes_ = 0;
  std::chrono::steady_clock::time_point space_asked_{};
  int status_ = 0;
};

}  // namespace reprise::crd
