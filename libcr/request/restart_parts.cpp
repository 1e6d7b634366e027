// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/restart_parts.h"

#include <cerrno>
#include <utility>

#include <unistd.h>

#include "base/text.h"
#include "descriptors/streams.h"
#include "libcr.h"
#include "process/new_ids.h"
#include "request/agent.h"
#include "request/child.h"
#include "request/identity.h"
#include "request/image_source.h"
#include "request/send_signal.h"
#include "request/stopwatch.h"

namespace reprise {
namespace {

/**
 * The owner of an image can forge its content: user, groups, limits. That is harmless when an unprivileged user
 * restarts it, who cannot grant what the owner does not have. Root can, so refuse other users' images for root.
 */
void check_owner(const Image& image, const RestoreOptions& options) {
  if (::geteuid() != 0 || options.trust || image.owner() == 0) return;
  throw Error(Failure::refused, EPERM,
              image.name() + " belongs to user " + std::to_string(image.owner()) +
                  ", who can forge its content: restart it as that user, or with --trust if you vouch for it");
}

}  // namespace

OpenedImage open_for_restart(const RestartOptions& options, Report& report) {
  enter(Stage::open);
  Stopwatch watch;
  report.image = options.image;
  Image image = open_image(options.image, options.image_fd);
  check_owner(image, options.restore);
  Process process = image.process();
  take_own_ids(process);
  report.image_taken_unix_ns = static_cast<std::uint64_t>(process.taken_unix_ns());
  check_same_machine(process);
  RestoreOptions restore = options.restore;
  if (restore.pipes_from_streams) use_streams_for_pipes(process, restore, report);
  check_image(process, restore, RestoreMode::restart);
  report.open_ns += watch.lap();
  return {std::move(image), std::move(process), std::move(restore)};
}

void take_over(Session& session, const Process& process, const RestartOptions& options, const RestoreOptions& restore,
               Report& report) {
  session.origin(report.image, options.requester);
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms).ns;
  if (!process.lineage().empty()) session.set_lineage(process.lineage());
  Remote remote(session);
  BlankChild::prepare(remote, process, restore);
}

void warn_of_new_ids(const Process& process, Report& report) {
  if (process.threads_size() > 1)
    report.warnings.push_back("its threads have new ids: a lock that was held, and that stores its owner's thread id, as a "
                              "recursive or error-checking mutex does, may fail");
}

Verification::Verification(const Image& image, const Progress& progress)
    : done_(std::async(std::launch::async, [&image, &progress] {
        enter(Stage::verify);
        image.verify_all(0, progress);
      })) {}

void Verification::finish(Report& report) {
  Stopwatch watch;
  enter(Stage::verify);
  done_.get();
  report.verify_ns += watch.lap();
}

void hold_for_caller(const Hold& hold, Report& report) {
  if (!hold) return;
  Stopwatch watch;
  enter(Stage::hold);
  while (!hold(10'000)) {
  }
  report.held_ns = watch.lap();
}

void LastSteps::tell() {
  rollback_.carry_out(Stage::outcome, [&] {
    if (process_.has_agent()) session_.outcome(CR_PHASE_RESTARTED, options_.request_flags);
  });
}

void LastSteps::signal() {
  if (const int err = options_.signal ? send_signal(session_.pid(), options_.signal) : 0)
    report_.warnings.push_back("the signal could not be sent: " + error_text(err));
}

void LastSteps::let_go() {
  if (!callbacks() || options_.signal_first) signal();
  rollback_.carry_out(Stage::thaw, [&] { report_.frozen_ns = session_.thaw(); });
}

void LastSteps::finish() {
  if (!callbacks()) return;
  enter(Stage::callbacks);
  Stopwatch watch;
  switch (session_.finish_callbacks(options_.callbacks_ms)) {
    case Session::Callbacks::failed:
      throw Error(Failure::permanent, CR_ERSTRTABRT,
                  "process " + std::to_string(session_.pid()) +
                      ": a callback of the program failed after the restart, which ended the process");
    case Session::Callbacks::late:
      report_.warnings.push_back("the program's own callbacks have not returned after " +
                                 std::to_string(options_.callbacks_ms / 1000) + " s");
      break;
    case Session::Callbacks::returned:
    case Session::Callbacks::ended: break;
  }
  report_.agent_ns += watch.lap();
  if (!options_.signal_first) signal();
}

void report_whole(const Image& image, std::uint64_t begin, Report& report) {
  report.pages = image.page_count();
  report.bytes = image.file_size();
  report.total_ns = Stopwatch::now() - begin - report.held_ns;
}

}  // namespace reprise
