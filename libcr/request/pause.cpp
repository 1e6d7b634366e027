// SPDX-License-Identifier: LGPL-2.1-or-later
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>

#include <unistd.h>

#include "base/text.h"
#include "descriptors/descriptors.h"
#include "request/agent.h"
#include "request/identity.h"
#include "request/image_source.h"
#include "request/pause.h"
#include "request/requests.h"
#include "request/rollback.h"
#include "request/send_signal.h"
#include "request/stopwatch.h"

namespace reprise {
namespace {

/** Verifies an image in a background thread during a hold. */
class EarlyVerification {
 public:
  explicit EarlyVerification(const Image& image)
      : done_(std::async(std::launch::async, [this, &image] {
          enter(Stage::verify);
          image.verify_all(1, [this](std::uint64_t, std::uint64_t) {
            if (stop_) throw Error(Failure::temporary, ECANCELED, "stopped");
          });
        })) {}
  ~EarlyVerification() { stop_ = true; }
  /** Wait until @p hold returns true. @return whether the whole image is verified. Throws Error when it is damaged. */
  bool wait(const Hold& hold) {
    bool verified = false;
    while (!hold(verified ? 10'000 : 100)) verified = verified || look();
    return verified || look();
  }

 private:
  bool look() {
    if (done_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    done_.get();
    return true;
  }
  std::atomic<bool> stop_{false};
  std::future<void> done_;  // its destructor waits
};

}  // namespace

Image open_for_pause(const PauseOptions& options, Report& report) {
  enter(Stage::open);
  Stopwatch watch;
  report.image = options.image;
  Image image = open_image(options.image, options.image_fd);
  report.open_ns = watch.lap();
  report.image_taken_unix_ns = static_cast<std::uint64_t>(image.process().taken_unix_ns());
  if (image.process().pid() != options.pid)
    throw Error(Failure::refused, ESRCH,
                options.image + " is of process " + process_name(image.process()) + ", not of " +
                    std::to_string(options.pid));
  check_image(image.process(), options.restore, RestoreMode::pause);
  return image;
}

bool trusts(const Image& image) { return ::geteuid() == 0 && image.owner() == 0; }

void pause_to(Session& session, const Image& image, bool verified, const PauseOptions& options, Report& report,
              const std::function<void()>& restored) {
  Stopwatch watch;
  enter(Stage::callbacks);
  session.origin(options.image, options.requester);
  Agent agent(session, CR_PHASE_PAUSE, options.request_flags, options.agent_timeout_ms);
  report.agent_ns = watch.lap();
  const auto id = image.id();
  std::vector<cr_range> dirty;
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms).ns;
  enter(Stage::compare);
  bool tracked = options.use_tracking && session.dirty(id, dirty);
  const bool newer = check_same_process(session, image.process(), tracked);
  if (!tracked && !verified) {
    // All pages will be restored: verify them while the program still runs.
    report.frozen_ns += session.thaw();
    enter(Stage::verify);
    watch.lap();
    image.verify_all(0, options.progress);
    report.verify_ns = watch.lap();
    enter(Stage::freeze);
    report.freeze_ns += session.freeze(options.timeout_ms).ns;
  }

  report.pipes = queued_in_pipes(session, image.process(), options.restore.keep_pipes);
  Process process = image.process();
  RestoreOptions restore = options.restore;
  restore.trust = trusts(image);
  RollbackSource source = source_from(image);
  source.pages.tracked = tracked;
  source.dirty = std::move(dirty);
  if (tracked && !verified)
    source.verify = [&](const std::vector<cr_range>& ranges) {
      image.verify(ranges);
      verify_shared(image);
    };
  Rollback rollback(session, process, image.threads(), restore, RestoreMode::pause, std::move(source));
  rollback.run(report);
  report.pages = image.page_count();
  report.bytes = image.file_size();
  if (restored) restored();
  if (const int err = options.signal ? send_signal(options.pid, options.signal) : 0)
    report.warnings.push_back("the signal could not be sent: " + error_text(err));
  rollback.carry_out(Stage::outcome, [&] {
    const unsigned phase = !process.has_agent() ? CR_PHASE_ABORTED : newer ? CR_PHASE_RESTARTED : CR_PHASE_PAUSED;
    agent.outcome(phase, process.has_agent());
  });
  rollback.carry_out(Stage::thaw, [&] {
    try {
      report.frozen_ns += session.thaw();
    } catch (const Error&) {
      if (!kills(options.signal)) throw;  // after SIGKILL the target has exited, as requested
    }
  });
}

Report pause(const PauseOptions& options) {
  Report report;
  const std::uint64_t begin = Stopwatch::now();
  const Image image = open_for_pause(options, report);
  bool verified = false;
  if (options.hold) {
    Stopwatch watch;
    verified = EarlyVerification(image).wait(options.hold);
    report.held_ns = watch.lap();
  }
  Session session = Session::attach(options.pid);
  pause_to(session, image, verified, options, report);
  report.total_ns = Stopwatch::now() - begin - report.held_ns;
  return report;
}

}  // namespace reprise
