// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <future>

#include <unistd.h>

#include "base/text.h"
#include "descriptors/streams.h"
#include "libcr.h"
#include "process/new_ids.h"
#include "request/agent.h"
#include "request/child.h"
#include "request/identity.h"
#include "request/image_source.h"
#include "request/requests.h"
#include "request/rollback.h"
#include "request/send_signal.h"
#include "request/stopwatch.h"

namespace reprise {
namespace {

/** Verifies the whole image in parallel with the restart. The restart waits for the result in stage hold. */
class Verification {
 public:
  Verification(const Image& image, const Progress& progress)
      : done_(std::async(std::launch::async, [&image, &progress] {
          enter(Stage::verify);
          image.verify_all(0, progress);
        })) {}
  void finish() { done_.get(); }

 private:
  std::future<void> done_;  // its destructor waits too
};

/**
 * The owner of an image can forge its content: user, groups, limits. That is harmless when an unprivileged user
 * restarts it, who cannot grant what the owner does not have. Root can, so refuse other users' images for root.
 */
void check_owner(const Image& image, const RestoreOptions& options) {
  if (::geteuid() != 0 || options.trust || owner_of(image) == 0) return;
  throw Error(Failure::refused, EPERM,
              image.name() + " belongs to user " + std::to_string(owner_of(image)) +
                  ", who can forge its content: restart it as that user, or with --trust if you vouch for it");
}

/** Wait for the program's callbacks after the restart. Throws Error (permanent) when one of them failed. */
void finish_callbacks(Session& session, unsigned timeout_ms, Report& report) {
  Stopwatch watch;
  switch (session.finish_callbacks(timeout_ms)) {
    case Session::Callbacks::failed:
      throw Error(Failure::permanent, CR_ERSTRTABRT,
                  "process " + std::to_string(session.pid()) +
                      ": a callback of the program failed after the restart, which ended the process");
    case Session::Callbacks::late:
      report.warnings.push_back("the program's own callbacks have not returned after " + std::to_string(timeout_ms / 1000) +
                                " s");
      break;
    case Session::Callbacks::returned:
    case Session::Callbacks::ended: break;
  }
  report.agent_ns += watch.lap();
}

}  // namespace

Report restart(const RestartOptions& options) {
  enter(Stage::open);
  Report report;
  const std::uint64_t begin = Stopwatch::now();
  Stopwatch watch;
  report.image = options.image;
  const Image image = open_image(options.image, options.image_fd);
  check_owner(image, options.restore);
  Process process = image.process();
  take_own_ids(process);
  report.image_taken_unix_ns = static_cast<std::uint64_t>(process.taken_unix_ns());
  check_same_machine(process);
  RestoreOptions restore = options.restore;
  if (restore.pipes_from_streams) use_streams_for_pipes(process, restore, report);
  check_image(process, restore, RestoreMode::restart);
  MappingFiles files = MappingFiles::for_restart(process, restore);
  report.open_ns = watch.lap();

  enter(Stage::child);
  BlankChild child(process, options, report);
  Verification verification(image, options.progress);
  const pid_t pid = child.pid();
  if (!restore.restore_pid && process.threads_size() > 1)
    report.warnings.push_back("its threads have new ids, which the C library does not know: locks that store their "
                              "owner's thread id may fail");
  Session session = child.attach();
  session.origin(report.image, options.requester);
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms).ns;
  if (!process.lineage().empty()) session.set_lineage(process.lineage());
  {
    Remote remote(session);
    BlankChild::prepare(remote, process, restore);
  }
  RollbackSource source = source_from(image);
  source.files = std::move(files);
  // The next stages change files that other processes use too: wait for the verification first.
  source.hold = [&] {
    Stopwatch held;
    enter(Stage::verify);
    verification.finish();
    report.verify_ns += held.lap();
    if (!options.hold) return;
    enter(Stage::hold);
    while (!options.hold(10'000)) {
    }
    report.held_ns = held.lap();
  };
  Rollback rollback(session, process, image.threads(), restore, RestoreMode::restart, std::move(source));
  rollback.run(report);
  rollback.carry_out(Stage::outcome, [&] {
    if (process.has_agent()) session.outcome(CR_PHASE_RESTARTED, options.request_flags);
  });
  const bool callbacks = process.has_agent() && options.callbacks_ms != 0;
  const auto signal = [&] {
    if (const int err = options.signal ? send_signal(pid, options.signal) : 0)
      report.warnings.push_back("the signal could not be sent: " + error_text(err));
  };
  if (!callbacks || options.signal_first) signal();
  rollback.carry_out(Stage::thaw, [&] { report.frozen_ns = session.thaw(); });
  if (callbacks) {
    enter(Stage::callbacks);
    finish_callbacks(session, options.callbacks_ms, report);
    if (!options.signal_first) signal();
  }
  child.release();
  report.pages = image.page_count();
  report.bytes = image.file_size();
  report.total_ns = Stopwatch::now() - begin - report.held_ns;
  return report;
}

}  // namespace reprise
