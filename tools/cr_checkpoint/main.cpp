// SPDX-License-Identifier: GPL-2.0-only
// cr_checkpoint: save a running process.
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>

#include <sys/socket.h>

#include "base/request_flags.h"
#include "base/error.h"
#include "blcr_options.h"
#include "command.h"
#include "continuous.h"
#include "process/scope.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"
#include "request/requests.h"

using namespace reprise;

namespace {

/** What PID refers to. */
struct Whom {
  bool tree = false, group = false, session = false, skip_traced = false;

  void add(CLI::App& app) {
    auto* tree_flag = app.add_flag("-T,--tree", tree, "save the process and its descendants, one after the other");
    auto* group_flag = app.add_flag("-g,--group,--pgid", group, "PID is a process group: save its members");
    app.add_flag("-s,--session,--sid", session, "PID is a session: save its members")
        ->excludes(tree_flag)
        ->excludes(group_flag);
    group_flag->excludes(tree_flag);
    app.add_flag("--ptraced-skip", skip_traced, "leave out processes that are being traced");
  }
  cr_scope_t scope() const {
    return tree ? CR_SCOPE_TREE : group ? CR_SCOPE_PGRP : session ? CR_SCOPE_SESS : CR_SCOPE_PROC;
  }
};

void save(CheckpointOptions& options, const tool::Common& common) {
  Report report;
  {
    ProgressBar bar("saving", !common.json && !common.quiet);
    options.progress = bar.callback();
    report = checkpoint(options);
  }
  const std::string inherited =
      report.pages_inherited ? " (" + tool::grouped(report.pages_inherited) + " of " + options.parent + ")" : "";
  const std::string compressed = report.bytes_compressed ? " (compressed to " + tool::bytes(report.bytes_compressed) + ")" : "";
  tool::print(common, report,
              "saved to " + report.image + ": " + tool::counted(report.threads, "thread") + ", " +
                  tool::counted(report.pages, "page") + inherited + ", " + tool::bytes(report.bytes) + compressed + " in " +
                  tool::duration(report.total_ns) + ", stood still " + tool::duration(report.frozen_ns),
              stdout);
}

/** Check the socket of --kept-memory-to. */
void check_receiver(int socket, const Whom& whom, bool repeatedly) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || (type != SOCK_SEQPACKET && type != SOCK_DGRAM))
    throw Error(Failure::usage, ENOTSOCK,
                "--kept-memory-to " + std::to_string(socket) + ": it is no Unix socket that keeps messages apart (SOCK_SEQPACKET)");
  if (whom.scope() != CR_SCOPE_PROC || repeatedly)
    throw Error(Failure::usage, EINVAL, "--kept-memory-to is for one process that is saved once");
}

/** Save each process to an image context.PID in the directory IMAGE. */
void save_all(const Whom& whom, CheckpointOptions options, const tool::Common& common) {
  const std::string directory = options.image.empty() ? "" : options.image + "/", parents = options.parent;
  if (!directory.empty() && !std::filesystem::is_directory(directory))
    throw Error(Failure::usage, ENOTDIR,
                options.image + " is not a directory: with several processes, each gets an image context.PID in it");
  unsigned saved = 0;
  for (const pid_t pid : processes_in(whom.scope(), options.pid)) {
    if (whom.skip_traced && tracer_of(pid) != 0) continue;
    options.pid = pid;
    options.image = directory + context_name(pid);
    // A process that has begun since has no image there.
    options.parent = parents.empty() ? "" : context_in(parents, pid);
    try {
      save(options, common);
      ++saved;
    } catch (const Error& error) {
      if (error.code() != ESRCH && error.code() != CR_EOMITTED) throw;
    }
  }
  if (saved == 0) throw Error(Failure::refused, ESRCH, "no process is left to be saved");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Save a running process to an image. cr_pause can roll the process back to it, and cr_restart can "
               "create the process again from it.",
               "cr_checkpoint"};
  tool::Common common("cr_checkpoint");
  tool::SignalOptions signal;
  CheckpointOptions options;
  Whom whom;
  tool::Continuous continuous;
  std::string backup, compress;
  app.add_option("PID", options.pid, "process to save")
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
      ->type_name("");
  app.add_option("IMAGE,-f,--file", options.image, "file to save it to (default: context.PID in the current directory); -: standard output")
      ->type_name("IMAGE");
  app.add_option("--parent", options.parent,
                 "latest image of the same process: save only what has changed since, and take all else from there; "
                 "with several processes, the directory of their images")
      ->type_name("IMAGE");
  app.add_flag("--delta", options.delta,
               "with --parent: IMAGE refers to what has not changed, instead of getting a copy. It then needs the parent, "
               "which must be in the same directory, until cr_image merge makes it whole");
  auto* every =
      app.add_option("--every", continuous.seconds,
                     "save it again and again, each SECONDS from the one before, until it ends or this command is interrupted: "
                     "to delta images IMAGE.1, IMAGE.2 ...; IMAGE is a link to the newest")
          ->check(CLI::PositiveNumber.description(""))
          ->type_name("SECONDS");
  app.add_option("--keep", continuous.keep, "with --every: keep the newest N images usable (default: 1)")
      ->needs(every)
      ->check(CLI::Range(1U, 1'000'000U).description(""))
      ->type_name("N");
  whom.add(app);
  auto* keep = app.add_flag("--backup{~}", backup,
                            "keep a replaced image as NAME (default: the first free of IMAGE.~1~, IMAGE.~2~ ...)");
  keep->type_name("NAME");
  app.add_flag("--clobber,!--no-clobber", options.clobber, "replace an existing image (default), or do not");
  app.add_option("--compress", compress,
                 "compress the image: lz4, zstd, or with a level zstd:19. cr_pause and cr_restart expand it to $TMPDIR each time")
      ->type_name("METHOD");
  app.add_flag("--sync,!--no-sync", options.sync,
               "sync the image to disk before it gets its name (default), or do not");
  app.add_flag("--track,!--no-track", options.track,
               "track from now on which pages the program changes, so that cr_pause is fast (default), or do not");
  app.add_option("--kept-memory-to", options.kept_to,
                 "hand its kept memory (cr_kept_alloc) over when it is saved: descriptor M of this command, a Unix socket, gets a "
                 "message for each, its name with a descriptor")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("M");
  app.add_flag("--split-huge", options.split_huge,
               "split huge pages, to track their changes by small page: after small changes cr_pause is much faster, "
               "the program may be a little slower");
  app.add_option("--deleted-limit", options.deleted_limit,
                 "save at most SIZE bytes of open deleted files, for example 512M (default: 1G); 0: save none, "
                 "cr_pause does not need them while they are open")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  signal.add(app, "once it is saved");
  common.add(app, tool::kTargetTimeout);
  tool::add_blcr_options(app);

  return tool::run(app, common, argc, argv, [&] {
    options.signal = signal.signal();
    options.request_flags = api::pack_request(options.signal, whom.scope(), options.pid);
    options.timeout_ms = options.agent_timeout_ms = common.timeout_ms();
    options.backup = keep->count() > 0;
    if (options.delta && (options.parent.empty() || options.image == tool::kStandard || whom.scope() != CR_SCOPE_PROC))
      throw Error(Failure::usage, EINVAL,
                  "--delta needs the --parent of one process, and the name of a file in its directory");
    if (options.kept_to >= 0) check_receiver(options.kept_to, whom, every->count() > 0);
    if (!compress.empty()) options.compression = Compression::parse(compress);
    options.backup_name = backup == "~" ? "" : backup;
    if (options.image == tool::kStandard) {
      if (whom.scope() != CR_SCOPE_PROC)
        throw Error(Failure::usage, EINVAL, "the images of several processes need a directory: - is for one");
      options.image_fd = tool::give_away_output();
      options.image = "standard output";
    }
    if (every->count()) {
      if (whom.scope() != CR_SCOPE_PROC || options.image_fd >= 0 || !options.parent.empty() || options.delta ||
          options.backup || options.signal || options.compression || !options.track)
        throw Error(Failure::usage, EINVAL,
                    "--every is for one process, which runs on, and for files; it goes with none of --parent, --delta, --backup, "
                    "--compress, --no-track");
      tool::save_continuously(options, continuous, common);
      return 0;
    }
    if (whom.scope() == CR_SCOPE_PROC)
      save(options, common);
    else
      save_all(whom, options, common);
    return 0;
  });
}
