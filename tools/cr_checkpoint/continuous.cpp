// SPDX-License-Identifier: GPL-2.0-only
#include "continuous.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "image/reader.h"
#include "process/scope.h"
#include "report.h"
#include "request/requests.h"

namespace reprise::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kEndingMs = 5000;

/** The files of a row: IMAGE.NUMBER, and the link IMAGE. */
class Row {
 public:
  Row(const std::string& image, unsigned keep, bool clobber) : link_(image), keep_(keep) {
    std::error_code error;
    // A file with such a name need not be ours.
    for (const auto& entry : fs::directory_iterator(directory(), error))
      number_ = std::max(number_, number_of(entry.path().filename()).value_or(0));
    const fs::file_status now = fs::symlink_status(link_, error);
    if (!fs::exists(now)) return;
    if (!clobber) throw Error(Failure::refused, EEXIST, image + " exists; choose another name or allow it to be replaced");
    if (fs::is_directory(now)) throw Error(Failure::usage, EISDIR, image + " is a directory; name a file in it");
    if (fs::is_symlink(now)) take_up();
  }

  std::string next() const { return path(number_ + 1); }
  /** The newest that was saved in this row; "": none */
  std::string newest() const { return begun_ ? path(number_) : ""; }

  /** next() is complete. @param bases  names of the files that it needs */
  void add(const std::vector<std::string>& bases) {
    ++number_;
    begun_ = true;
    std::set<std::string> files(bases.begin(), bases.end());
    files.insert(name(number_));
    kept_.push_back(std::move(files));
    point_to(name(number_));
    while (kept_.size() > keep_) {
      const std::set<std::string> before = std::move(kept_.front());
      kept_.pop_front();
      for (const std::string& name : before)
        if (number_of(name) && std::none_of(kept_.begin(), kept_.end(), [&](const auto& needed) { return needed.contains(name); }))
          ::unlink((directory() / name).c_str());
    }
  }

 private:
  std::string name(std::uint64_t number) const { return link_.filename().string() + "." + std::to_string(number); }
  std::string path(std::uint64_t number) const { return link_.string() + "." + std::to_string(number); }
  fs::path directory() const { return link_.has_parent_path() ? link_.parent_path() : fs::path("."); }

  /** @return NUMBER of a file of the row */
  std::optional<std::uint64_t> number_of(const std::string& name) const {
    const std::string prefix = link_.filename().string() + ".";
    std::uint64_t number = 0;
    if (!name.starts_with(prefix)) return {};
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size()) return {};
    return number;
  }

  /** The files of an earlier row are removed as if they were of this one. */
  void take_up() {
    std::error_code error;
    const std::string name = fs::read_symlink(link_, error).string();
    const auto number = number_of(name);
    if (!number) return;
    try {
      std::set<std::string> files{name};
      const Image image = Image::open(path(*number));
      for (const Base& base : image.bases()) files.insert(base.name());
      kept_.push_back(std::move(files));
    } catch (const Error&) {
      // It is no image any more: what is there is not ours to remove.
    }
  }

  void point_to(const std::string& name) const {
    const std::string made = directory() / ("." + link_.filename().string() + ".link-" + std::to_string(::getpid()));
    ::unlink(made.c_str());
    if (::symlink(name.c_str(), made.c_str()) != 0 || ::rename(made.c_str(), link_.c_str()) != 0)
      fail_errno(errno, "making the link " + link_.string() + " to " + name);
  }

  fs::path link_;
  unsigned keep_;
  std::uint64_t number_ = 0;
  bool begun_ = false;
  std::deque<std::set<std::string>> kept_;  // by image, the oldest first: the files that it needs
};

/** Waits for the next time, for a signal that ends us, and for the end of the process. */
class Waiting {
 public:
  explicit Waiting(pid_t pid) : process_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
    if (!process_) throw Error(Failure::refused, errno, "process " + std::to_string(pid) + ": " + error_text(errno));
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
    // While an image is written they wait, so that it becomes complete.
    ::sigprocmask(SIG_BLOCK, &ends, nullptr);
    signals_.reset(::signalfd(-1, &ends, SFD_CLOEXEC));
    if (!signals_) fail_errno(errno, "waiting for signals");
  }
  /** @param about  it may be about to end: its memory goes before its end can be waited for */
  bool process_lives(bool about = false) const {
    pollfd one{process_.get(), POLLIN, 0};
    return ::poll(&one, 1, about ? kEndingMs : 0) == 0;
  }
  /** @return whether it is @p when now, and there is neither a signal nor an end */
  bool until(Clock::time_point when) const {
    for (;;) {
      pollfd fds[] = {{process_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
      const int got = ::poll(fds, 2, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
      if (got > 0) return false;
      if (got == 0 && Clock::now() >= when) return true;
    }
  }

 private:
  UniqueFd process_, signals_;
};

std::uint64_t median(std::vector<std::uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void save_continuously(const CheckpointOptions& request, const Continuous& how, const Common& common) {
  CheckpointOptions options = request;
  Common each = common;
  each.quiet = !common.verbose;  // of each only the warnings
  const std::string image = options.image.empty() ? context_name(options.pid) : options.image;
  const Waiting waiting(options.pid);
  Row row(image, how.keep, options.clobber);
  const auto every = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(how.seconds));
  const auto begin = Clock::now();
  std::vector<std::uint64_t> still;
  std::uint64_t written = 0;
  std::string trouble;
  Report report;
  options.clobber = false;  // a file that is not of the row
  for (auto next = begin; waiting.until(next); next = std::max(next + every, Clock::now())) {
    options.image = row.next();
    options.parent = row.newest();
    options.delta = !options.parent.empty();
    try {
      report = checkpoint(options);
      row.add(report.bases);
    } catch (const Error& error) {
      if (!still.empty() && !waiting.process_lives(error.code() == ESRCH)) break;
      if (error.kind() != Failure::temporary || still.empty()) throw;
      if (std::exchange(trouble, error.what()) != error.what())
        std::fprintf(stderr, "%s: warning: no checkpoint now, the one before still counts: %s\n", common.name.c_str(), error.what());
      continue;
    }
    trouble.clear();
    still.push_back(report.frozen_ns);
    written += report.bytes;
    print(each, report, "saved to " + report.image + ": " + bytes(report.bytes) + " in " + duration(report.total_ns) + ", stood still " +
                            duration(report.frozen_ns), stdout);
  }
  if (common.json || common.quiet || still.empty()) return;
  const auto took = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  std::printf("%s: process %d (%s)%s: %s in %s, %s in all, stood still %s each time (median); the last is %s\n", common.name.c_str(),
              report.pid, report.comm.c_str(), waiting.process_lives() ? "" : " has ended",
              counted(still.size(), "checkpoint").c_str(), duration(took).c_str(), bytes(written).c_str(),
              duration(median(still)).c_str(), image.c_str());
}

}  // namespace reprise::tool
