// SPDX-License-Identifier: GPL-2.0-only
// crd: the daemon of a node. crrun starts it.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <asio/io_context.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crd/daemon.h"
#include "crd/pmix_process.h"
#include "crd/priority.h"
#include "job/daemon_start.h"
#include "job/endpoints.h"
#include "job/log.h"

using namespace reprise;

namespace {

/** Longest line that crrun sends: for thousands of daemons that one srun starts. */
constexpr std::size_t kLongestLine = 16 << 20;

/** The one line that crrun sends. */
std::string first_line() {
  std::string line;
  char piece[65536];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > kLongestLine) return line;
    const char* const end = static_cast<const char*>(std::memchr(piece, '\n', static_cast<std::size_t>(got)));
    line.append(piece, end ? static_cast<std::size_t>(end - piece) : static_cast<std::size_t>(got));
    if (end) return line;
  }
}

[[noreturn]] void run_daemon() {
  const char* const host = std::getenv("SLURMD_NODENAME");
  job::DaemonStart start = job::parse_daemon_start(first_line(), host ? host : "");
  // If this host refused at an address that crrun's host has as well, crrun would look dead.
  start.addresses = job::elsewhere(start.addresses, start.boot);
  // The end of ssh or srun does not end the job: crrun, or the silence of its host, decides.
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::setsid();
  ::umask(077);
  struct stat st {};
  if (::fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
    ::fcntl(STDERR_FILENO, F_SETFL, ::fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);  // a hanging reader must not block us
  // The messages of all daemons that one srun has started come together.
  job::set_up_log(host ? std::string("crd on ") + host : "crd", start.log_level);
  if (!crd::raise_priority()) spdlog::debug("this daemon has no priority over ranks (no CAP_SYS_NICE, RLIMIT_NICE)");
  asio::io_context loop(1);
  crd::Daemon daemon(loop, start);
  const int status = daemon.run();
  spdlog::default_logger()->flush();
  // A thread may hang on shared storage for ever.
  ::_exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The daemon of one node in a job of crrun; crrun starts it. It starts the node's ranks, saves and restores "
               "them.",
               "crd"};
  bool job = false, pmix = false, donor = false, wait = false;
  app.set_help_flag("-h,--help", "print this and exit");
  app.set_version_flag("--version", std::string("reprise " REPRISE_VERSION), "print the version and exit");
  auto* modes = app.add_option_group("Role (exactly one)");
  modes->add_flag("--job-from-stdin", job, "the daemon of a node; reads its parameters (a line of JSON) from standard input");
  modes->add_flag("--pmix-server", pmix, "the PMIx server of a node; its daemon starts it");
  modes->add_flag("--donor", donor, "makes processes that connect to a PMIx server for ranks; a daemon starts it");
  modes->add_flag("--wait", wait, "a process that waits to be killed; the daemon saves, rolls back and restarts it as a test");
  modes->require_option(1);
  app.footer("Exit status: 0 the job is over, 2 wrong usage, 5 failed.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "crd: %s (--help tells more)\n", error.what());
    return 2;
  }
  try {
    if (pmix) return crd::run_pmix_server(STDIN_FILENO);
    if (donor) return crd::run_donors(STDIN_FILENO);
    while (wait) ::pause();
    run_daemon();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crd: %s\n", error.what());
    return 5;
  }
}
