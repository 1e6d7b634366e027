// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Several copies of one process. The image is opened and verified once. A template gets its private memory, the copies
// inherit that, and each is then restored like any restarted process: its memory is in place already, all else is its own.
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/raised_limit.h"
#include "base/text.h"
#include "descriptors/descriptors.h"
#include "request/image_source.h"
#include "request/requests.h"
#include "request/restart_parts.h"
#include "request/stopwatch.h"
#include "request/template.h"

namespace reprise {
namespace {

void use(const std::map<int, int>& substitute, RestoreOptions& options) {
  for (const auto& [fd, ours] : substitute) options.substitute[fd] = ours;
}

/** What is checked once for all depends on which descriptors have a substitute. Throws Error (usage). */
void check_same(const std::vector<std::map<int, int>>& substitutes) {
  const std::map<int, int>& first = substitutes.front();
  const auto need = [](const std::map<int, int>& all, int fd, std::size_t copy) {
    if (!all.contains(fd))
      throw Error(Failure::usage, EINVAL,
                  "descriptor " + std::to_string(fd) + " has no substitute in copy " + std::to_string(copy) +
                      ", but in others: give all one or none");
  };
  for (std::size_t i = 1; i < substitutes.size(); ++i) {
    for (const auto& [fd, ours] : first) need(substitutes[i], fd, i + 1);
    for (const auto& [fd, ours] : substitutes[i]) need(first, fd, 1);
  }
}

/** One copy, from the time when it waits for its state. */
class Copy {
 public:
  /**
   * @param session     of the process that waits
   * @param substitute  RestoreOptions::substitute of this one
   */
  Copy(Session session, const OpenedImage& opened, RestartOptions options, const std::map<int, int>& substitute, const Report& begin)
      : process_(opened.process), options_(std::move(options)), report_(begin), session_(std::move(session)) {
    use(substitute, options_.restore);
    take_over(session_, process_, options_, options_.restore, report_);
    RollbackSource source = source_from(opened.image);
    source.pages.others_right = true;
    rollback_.emplace(session_, process_, opened.image.threads(), options_.restore, RestoreMode::restart, std::move(source));
    last_.emplace(session_, *rollback_, process_, options_, report_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  /** All but letting it run. */
  void restore() {
    rollback_->run(report_);
    last_->tell();
  }
  LastSteps& last() { return *last_; }
  Report& report() { return report_; }

 private:
  Process process_;  // with the new ids
  RestartOptions options_;
  Report report_;
  Session session_;
  std::optional<Rollback> rollback_;
  std::optional<LastSteps> last_;
};

/** Run @p work for copy number @p index. Throws the Error that it throws with the number. */
template <class Work>
void for_copy(std::size_t index, std::size_t number, Work work) {
  try {
    work();
  } catch (const Error& error) {
    stage_of_thread = error.stage();
    throw Error(error.kind(), error.code(),
                "copy " + std::to_string(index + 1) + " of " + std::to_string(number) + ", so that none runs: " + error.what());
  }
}

}  // namespace

std::vector<Report> restart_copies(const RestartOptions& request, const std::vector<std::map<int, int>>& substitutes, bool several) {
  const std::size_t number = substitutes.size();
  if (number == 0 || number > kMostCopies)
    throw Error(Failure::usage, EINVAL, "the number of copies must be 1 to " + std::to_string(kMostCopies));
  RestartOptions options = request;
  options.restore.restore_pid = false;
  check_same(substitutes);
  use(substitutes.front(), options.restore);
  Report shared;
  const std::uint64_t begin = Stopwatch::now();
  const OpenedImage opened = open_for_restart(options, shared);
  options.restore = opened.restore;
  if (several) check_copies(opened.process, options.restore, shared);

  // Four descriptors for each copy that waits, and what the restore of one needs.
  const RaisedLimit raised(0, RLIMIT_NOFILE, RLIM_INFINITY);
  enter(Stage::child);
  std::optional<PidNamespaces> namespaces;
  if (options.restore.pid_namespace) namespaces.emplace(static_cast<unsigned>(number));
  Template made(opened.process, opened.image, options, shared);
  Verification verification(opened.image, options.progress);
  if (!namespaces) warn_of_new_ids(opened.process, shared);
  verification.finish(shared);
  Children children = made.copy(static_cast<unsigned>(number), namespaces ? &*namespaces : nullptr);
  hold_for_caller(options.hold, shared);

  std::vector<std::unique_ptr<Copy>> copies(number);
  in_parallel(number, [&](std::size_t i) {
    for_copy(i, number, [&] {
      copies[i] = std::make_unique<Copy>(children.attach(i), opened, options, substitutes[i], shared);
      copies[i]->restore();
    });
  });
  if (namespaces) namespaces->release(opened.process.pid());
  // All are complete: from here on no copy depends on another.
  for (const auto& copy : copies) copy->last().let_go();
  for (const auto& copy : copies) copy->last().finish();
  made.release(children.pids());
  std::vector<Report> reports;
  for (const auto& copy : copies) {
    report_whole(opened.image, begin, copy->report());
    reports.push_back(std::move(copy->report()));
  }
  children.release();
  return reports;
}

}  // namespace reprise
