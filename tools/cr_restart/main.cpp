// SPDX-License-Identifier: GPL-2.0-only
// cr_restart: make a new process from an image.
#include <cerrno>
#include <cstdio>

#include "base/request_flags.h"
#include "base/error.h"
#include "command.h"
#include "hold.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"
#include "request/requests.h"
#include "substitutes.h"
#include "supervise.h"

using namespace reprise;

namespace {

// As long as a checkpoint waits for them.
constexpr unsigned kCallbacksMs = 60'000;

/** Put what was given with --relocate into @p restore; throws Error (usage). */
void apply_relocations(const std::vector<std::string>& relocate, RestoreOptions& restore) {
  for (const std::string& pair : relocate) {
    const std::size_t at = pair.find('=');
    if (at == 0 || at == std::string::npos)
      throw Error(Failure::usage, EINVAL, "--relocate " + pair + ": give it as OLD=NEW");
    restore.relocate.emplace_back(pair.substr(0, at), pair.substr(at + 1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Make a new process from an image, and wait for it.", "cr_restart"};
  tool::Common common("cr_restart");
  tool::SignalOptions signal;
  RestartOptions options;
  std::vector<std::string> relocate, substitutes;
  bool detach = false, hold = false;
  app.add_option("IMAGE,-f,--file", options.image, "image to make it from")->required()->type_name("IMAGE");
  app.add_flag("--restore-pid,!--no-restore-pid", options.restore.restore_pid,
               "give it the process and thread ids it had (default), or new ones");
  app.add_flag("--restore-pgid,!--no-restore-pgid", options.restore.restore_pgid,
               "put it into the process group it was in, which must be one of this session, also where it did not lead that");
  app.add_flag("--restore-sid,!--no-restore-sid", options.restore.restore_sid,
               "fail unless it will be in the session it was in: its own, or this one");
  app.add_option("--fd", substitutes,
                 "put what is open here as descriptor M, or the file or Unix socket PATH, in the place of its "
                 "descriptor N; may be given again")
      ->type_name("N=M|N=PATH")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--detach", detach, "return when it runs, rather than wait until it ends");
  app.add_option("--relocate", relocate, "look for files whose path begins with OLD under NEW instead; may be given again")
      ->type_name("OLD=NEW")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--trust", options.restore.trust,
               "as root: take the image of anybody, and open what it names with root's rights rather than with its user's");
  tool::add_restore_options(app, options.restore);
  tool::add_hold(app, hold, "the process");
  signal.add(app, "once it is restored");
  common.add(app, "give up when the new process cannot be stopped within so many seconds (default: 5)");

  return tool::run(app, common, argc, argv, [&] {
    apply_relocations(relocate, options.restore);
    options.signal = signal.signal();
    options.request_flags = api::pack_request(options.signal, CR_SCOPE_PROC, 0);
    options.timeout_ms = common.timeout_ms();
    options.callbacks_ms = kCallbacksMs;
    tool::Supervisor supervisor;
    // While it waits signals are not yet for the process: they end this command, and with it the process.
    if (hold) options.hold = tool::hold_until_line(common, &supervisor.before());
    Report report;
    {
      const tool::Substitutes files(substitutes, options.restore);
      ProgressBar bar("checking", !common.json && !common.quiet);
      options.progress = bar.callback();
      report = restart(options);
    }
    // To standard error: standard output is the program's.
    tool::print(common, report,
                "restarted from " + report.image + " (" + tool::age(report) + "): " + tool::counted(report.threads, "thread") +
                    ", " + tool::counted(report.pages, "page") + ", in " + tool::duration(report.total_ns),
                stderr);
    return detach ? 0 : supervisor.wait(report.pid);
  });
}
