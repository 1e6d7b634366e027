// SPDX-License-Identifier: GPL-2.0-only
// cr_restart: create a new process from an image.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/request_flags.h"
#include "base/error.h"
#include "command.h"
#include "hold.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"
#include "request/image_source.h"
#include "request/requests.h"
#include "restore/kept_memory.h"
#include "substitutes.h"
#include "supervise.h"

using namespace reprise;

namespace {

// How long to wait for the program's callbacks: the default of a checkpoint.
constexpr unsigned kCallbacksMs = 60'000;

/** Parse the arguments of --relocate into @p restore. Throws Error (usage). */
void apply_relocations(const std::vector<std::string>& relocate, RestoreOptions& restore) {
  for (const std::string& pair : relocate) {
    const std::size_t at = pair.find('=');
    if (at == 0 || at == std::string::npos)
      throw Error(Failure::usage, EINVAL, "--relocate " + pair + ": give it as OLD=NEW");
    restore.relocate.emplace_back(pair.substr(0, at), pair.substr(at + 1));
  }
}

/** Leave each warning only with the first copy that it is about. */
void drop_repeated_warnings(std::vector<Report>& reports) {
  std::set<std::string> seen;
  for (Report& report : reports)
    std::erase_if(report.warnings, [&](const std::string& warning) { return !seen.insert(warning).second; });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Create a new process from an image, and wait for it.", "cr_restart"};
  tool::Common common("cr_restart");
  tool::SignalOptions signal;
  RestartOptions options;
  std::vector<std::string> relocate, substitutes, kept, fill;
  bool detach = false, hold = false;
  unsigned copies = 0;
  app.add_option("IMAGE,-f,--file", options.image, "image to restart from; -: standard input")->required()->type_name("IMAGE");
  CLI::Option* same_pid = app.add_flag("--restore-pid,!--no-restore-pid", options.restore.restore_pid,
               "restore its process and thread ids (default), or give it new ones");
  app.add_option("--copies", copies,
                 "create N processes with new ids, which share the pages of their private memory until they write to them; "
                 "all run or none does")
      ->check(CLI::Range(1U, kMostCopies).description(""))
      ->type_name("N");
  app.add_flag("--pid-namespace", options.restore.pid_namespace,
               "restore its process and thread ids in a new pid namespace, with --copies in one for each copy");
  app.add_flag("--restore-pgid,!--no-restore-pgid", options.restore.restore_pgid,
               "restore its process group even if it did not lead it; the group must be in this session");
  app.add_flag("--restore-sid,!--no-restore-sid", options.restore.restore_sid,
               "fail unless its session can be restored: it led the session, or the session is this one");
  app.add_option("--fd", substitutes,
                 "replace its descriptor N by descriptor M of this command, or by the file or Unix socket PATH, in which %n "
                 "stands for the number of the copy; may be given again")
      ->type_name("N=M|N=PATH")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--kept-memory", kept,
                 "give it kept memory NAME (cr_kept_alloc): descriptor M of this command, or PATH: memory (/proc/PID/fd/N), or "
                 "a file that has its content; without this option it is empty, or as the image has it (CR_KEPT_COPIED); may be "
                 "given again")
      ->type_name("NAME=M|NAME=PATH")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--fill-kept-memory", fill,
                 "write the content that the image has of kept memory NAME (CR_KEPT_COPIED) into the memory that --kept-memory "
                 "gives; may be given again")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--detach", detach, "return when it runs, do not wait until it ends");
  app.add_option("--relocate", relocate, "open files whose path begins with OLD under NEW instead; may be given again")
      ->type_name("OLD=NEW")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--trust", options.restore.trust,
               "as root: accept any user's image, and open its files with root's rights instead of its user's");
  tool::add_restore_options(app, options.restore);
  tool::add_hold(app, hold, "the process or the copies");
  signal.add(app, "once it is restored");
  common.add(app, "fail if the new process cannot be stopped within SECONDS seconds (default: 5)");

  return tool::run(app, common, argc, argv, [&] {
    const bool own_namespace = options.restore.pid_namespace;
    if (copies && !own_namespace && same_pid->count() && options.restore.restore_pid)
      throw Error(Failure::usage, EINVAL, "--copies: several processes cannot have the same id: leave --restore-pid out, or "
                                          "add --pid-namespace");
    if (own_namespace && !options.restore.restore_pid)
      throw Error(Failure::usage, EINVAL, "--pid-namespace restores the ids: leave --no-restore-pid out");
    apply_relocations(relocate, options.restore);
    options.restore.fill_memory.insert(fill.begin(), fill.end());
    options.image_fd = tool::image_from_input(options.image, hold);
    options.signal = signal.signal();
    options.request_flags = api::pack_request(options.signal, CR_SCOPE_PROC, 0);
    options.timeout_ms = common.timeout_ms();
    options.callbacks_ms = kCallbacksMs;
    tool::Supervisor supervisor;
    // During the hold signals are not forwarded: they end this command, and with it the process.
    if (hold) options.hold = tool::hold_until_line(common, &supervisor.before());
    std::vector<Report> reports;
    {
      const auto copied = [&options](const std::string& name) {
        const Image image = open_image(options.image, options.image_fd);
        return std::any_of(image.process().shared_objects().begin(), image.process().shared_objects().end(),
                           [&](const SharedObject& one) { return is_copied(one) && kept_name(one.file().path()) == name; });
      };
      const tool::KeptMemory memory(kept, copied, options.restore.kept_memory);
      std::vector<tool::Substitutes> files;
      std::vector<std::map<int, int>> of_copies(copies ? copies : 1);
      for (auto& of_copy : of_copies) files.emplace_back(substitutes, copies ? files.size() + 1 : 0, of_copy);
      if (!copies) options.restore.substitute = of_copies.front();
      ProgressBar bar("checking", !common.json && !common.quiet);
      options.progress = bar.callback();
      reports = copies || own_namespace ? restart_copies(options, of_copies, copies > 0) : std::vector<Report>{restart(options)};
    }
    if (!common.json) drop_repeated_warnings(reports);
    std::vector<pid_t> pids;
    for (const Report& report : reports) {
      pids.push_back(report.pid);
      const std::string which = copies ? "copy " + std::to_string(pids.size()) + " of " + std::to_string(copies) + ", " : "";
      // Standard output belongs to the program.
      tool::print(common, report,
                  which + "restarted from " + report.image + " (" + tool::age(report) + "): " +
                      tool::counted(report.threads, "thread") + ", " + tool::counted(report.pages, "page") + ", in " +
                      tool::duration(report.total_ns),
                  stderr);
    }
    if (detach) return 0;
    return copies ? supervisor.wait_for_all(std::move(pids)) : supervisor.wait(pids.front());
  });
}
