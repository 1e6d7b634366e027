// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>

#include "base/error.h"
#include "base/text.h"
#include "image/delta.h"
#include "image/reader.h"
#include "image/writer.h"
#include "process/scope.h"
#include "request/agent.h"
#include "request/hand_over.h"
#include "request/identity.h"
#include "request/requests.h"
#include "request/send_signal.h"
#include "request/state.h"
#include "request/stopwatch.h"
#include "request/write_image.h"

namespace reprise {
namespace {

// With a signal, the target stays frozen until the image is complete. If we die, the module thaws it earlier.
constexpr unsigned kHoldMs = 24 * 3600 * 1000U;

ImageWriter writer_for(const CheckpointOptions& options, const std::string& path) {
  const WriterOptions how{.clobber = options.clobber,
                          .backup = options.backup,
                          .sync = options.sync,
                          .compression = options.compression,
                          // Pages of a parent are written behind those that have changed.
                          .stream = options.parent.empty(),
                          .backup_name = options.backup_name};
  if (options.image_fd < 0) return ImageWriter(path, how);
  UniqueFd own(::fcntl(options.image_fd, F_DUPFD_CLOEXEC, 3));
  if (!own) throw Error(Failure::usage, errno, "the descriptor for the image cannot be used: " + error_text(errno));
  return ImageWriter(std::move(own), path.empty() ? "the descriptor for the image" : path, how);
}

/** The image whose pages a checkpoint takes where they have not changed. Opened before the target is frozen. */
class Parent {
 public:
  explicit Parent(const CheckpointOptions& options) {
    if (options.parent.empty()) return;
    image_.emplace(Image::open(options.parent));
    if (image_->process().pid() != options.pid)
      throw Error(Failure::refused, ESRCH,
                  options.parent + " is of process " + process_name(image_->process()) + ", not of " +
                      std::to_string(options.pid) + ": it cannot be the parent of its image");
    if (options.delta) inheritance_.refer_as = name_for_delta(*image_, options.image);
  }

  /**
   * Take a snapshot of what has changed since.
   * @param tracking  flags by which tracking goes on; 0: it does not
   * @return false when there is no parent, or the changes since are not known: then all is to be saved. Target frozen.
   */
  bool snapshot(Session& session, unsigned tracking, State& state, cr_snapshot& taken, Report& report) {
    if (!image_) return false;
    const bool known = session.snapshot_changed(image_->id(), tracking, state.id, taken);
    check_same_process(session, image_->process(), known);
    if (!known) {
      report.warnings.push_back("what has changed since " + image_->name() +
                                " is not known (there was a checkpoint of it since, or it was brought back to another "
                                "image): all is saved");
      return false;
    }
    inheritance_.parent = &*image_;
    state.process.set_parent_id(image_->process().id());
    return true;
  }

  const Inheritance& inheritance() const { return inheritance_; }

 private:
  std::optional<Image> image_;
  Inheritance inheritance_;
};

}  // namespace

Report checkpoint(const CheckpointOptions& options) {
  enter(Stage::open);
  Report report;
  const std::uint64_t begin = Stopwatch::now();
  Stopwatch watch;
  Session session = Session::attach(options.pid);
  const bool context = options.image.empty() && options.image_fd < 0;
  report.image = context ? context_name(options.pid) : options.image;
  // Open the image before the program's callbacks run: a wrong path is the most frequent failure.
  ImageWriter writer = writer_for(options, report.image);
  Parent parent(options);
  State state;
  collect_running(session, state);
  report.open_ns = watch.lap();

  enter(Stage::callbacks);
  session.origin(report.image, options.requester);
  Agent agent(session, CR_PHASE_CHECKPOINT, options.request_flags, options.agent_timeout_ms, options.told);
  state.process.set_has_agent(agent.present());
  report.agent_ns = watch.lap();
  // Send a signal only when the image is complete: it may end the program.
  const bool hold = options.signal != 0;
  enter(Stage::freeze);
  report.freeze_ns = session.freeze(options.timeout_ms, hold ? kHoldMs : 0).ns;
  if (!agent.present() && options.told) options.told();
  enter(Stage::collect);
  std::vector<KeptFile> kept;
  collect_frozen(session, state, report, options.deleted_limit, options.kept_to >= 0 ? &kept : nullptr);
  enter(Stage::snapshot);
  watch.lap();
  const unsigned tracking = options.track ? CR_SNAP_TRACK | (options.split_huge ? CR_SNAP_SPLIT : 0) : 0;
  cr_snapshot snapshot{};
  if (!parent.snapshot(session, tracking, state, snapshot, report))
    snapshot = session.snapshot(CR_SNAP_PAGES | tracking, state.id);
  report.snapshot_ns = watch.lap();
  report.pages = snapshot.pages;
  report.kernel_bytes = snapshot.overhead;
  report.image_taken_unix_ns = static_cast<std::uint64_t>(state.process.taken_unix_ns());
  if (hold) {
    enter(Stage::write);
    write_image(session, writer, state, parent.inheritance(), options.progress, report);
    report.write_ns = watch.lap();
    if (const int err = send_signal(options.pid, options.signal))
      throw Error(Failure::permanent, err,
                  "the image is complete, but the signal cannot be sent to process " + std::to_string(options.pid) +
                      ": " + error_text(err));
  }
  enter(Stage::outcome);
  agent.outcome(CR_PHASE_CONTINUE);
  enter(Stage::thaw);
  try {
    report.frozen_ns = session.thaw();
  } catch (const Error&) {
    if (!kills(options.signal)) throw;  // after SIGKILL the target has exited, as requested
  }
  if (!hold) {
    state.process.set_frozen_ns(report.frozen_ns);
    enter(Stage::write);
    watch.lap();
    write_image(session, writer, state, parent.inheritance(), options.progress, report);
    report.write_ns = watch.lap();
  }
  if (options.kept_to >= 0) hand_over(options.kept_to, std::move(kept), report.warnings);
  report.total_ns = Stopwatch::now() - begin;
  return report;
}

}  // namespace reprise
