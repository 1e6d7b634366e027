// SPDX-License-Identifier: GPL-2.0-only
// crrun: runs an MPI job that survives the loss of nodes.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "command.h"
#include "crjob/report.h"
#include "crrun/metrics_file.h"
#include "crrun/options.h"
#include "crrun/runner.h"
#include "crrun/settings_json.h"
#include "job/asking.h"
#include "job/epoch.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

using namespace reprise;
using namespace reprise::job;

namespace {

std::string own_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/** Create JOBDIR of a new job. @return its path */
std::string make_job_directory(const Settings& settings) {
  const std::string& shared = settings.spec.shared_directory();
  const std::string directory =
      shared.empty() ? registry_directory() + "/" + settings.spec.id() : job_directory(shared, settings.spec.id());
  make_private_directory(directory);
  return directory;
}

NumberedState read_state(const JobFile& file) { return newest_state(file.directory, file.spec.id(), file.spec.ranks()); }

/** Throws if the job's crrun still runs, wherever that is: two of them would start every rank twice. */
void refuse_second(const JobFile& file) {
  const Living lives = crrun_lives(file);
  if (lives == Living::no || read_state(file).state.phase == "ended") return;
  const std::string who = file.spec.id() + " has its crrun, process " + std::to_string(file.pid) + " on " + file.host;
  if (lives == Living::yes) throw std::runtime_error(who + ": end the job with crjob end " + file.directory + ", or let it run");
  std::fprintf(stderr, "crrun: %s does not answer; looking for %d s whether the crrun there still writes to %s\n", file.host.c_str(),
               static_cast<int>(kBeatsSeen / std::chrono::seconds(1)), file.directory.c_str());
  if (Epoch(file.directory).beats(kBeatsSeen))
    throw std::runtime_error(who + ", which does not answer here but still writes to " + file.directory + ": end it there");
}

bool has_staged_wave(const JobFile& file, const State& state) {
  Store store(file.directory, "");
  for (const auto& [number, wave] : state.waves) store.commit(wave);
  return store.newest_staged().has_value();
}

Settings settings_of(const JobFile& file) {
  Settings settings;
  settings.spec = file.spec;
  settings.nodes = file.nodes;
  settings.job_directory = file.directory;
  settings_from_json(settings, file.settings);
  return settings;
}

RunOptions run_options(const Options& options, const Settings& settings) {
  RunOptions out;
  out.tag_output = options.tag_output;
  out.verbose = options.verbose;
  out.quiet = options.quiet;
  out.interfaces = options.interfaces;
  out.metrics_file = options.metrics_file;
  out.launch.agent = options.launch_agent;
  out.launch.srun =
      options.launcher == "srun" || (options.launcher == "auto" && std::getenv("SLURM_JOB_ID") && options.hosts.empty() &&
                                     options.hostfile.empty());
  if (!settings.spec.shared_directory().empty()) out.launch.job_directory = settings.job_directory;
  out.launch.working_directory = settings.spec.working_directory();
  out.launch.program = settings.spec.argv(0);
  // crd may be in the same directory as crrun: the PATH under ssh is often short.
  std::error_code none;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none) out.launch.path.push_back(own.parent_path().string());
  return out;
}

/** JOBDIR of the job that has run. */
std::string g_directory;

int run(JobFile file, Settings settings, Coordinator::Begin begin, std::optional<NumberedState> state, const RunOptions& options) {
  g_directory = settings.job_directory;
  return Runner(std::move(file), std::move(settings), begin, std::move(state), options).run();
}

/** @param link to JOBDIR, which is made or replaced; empty: none */
int run_new(const Options& options, const std::filesystem::path& link = {}) {
  Settings settings = make_settings(options, make_job_id());
  settings.job_directory = make_job_directory(settings);
  if (!link.empty()) {
    const std::filesystem::path fresh = link.string() + ".new";
    std::error_code none;
    std::filesystem::remove(fresh, none);
    std::filesystem::create_symlink(settings.job_directory, fresh);
    std::filesystem::rename(fresh, link);
  }
  JobFile file;
  file.spec = settings.spec;
  file.nodes = settings.nodes;
  file.directory = settings.job_directory;
  file.host = own_host();
  file.server = make_key_pair();
  file.client = make_key_pair();
  file.run_secret = random_name(16);
  file.settings = settings_json(settings);
  const RunOptions how = run_options(options, settings);
  return run(std::move(file), std::move(settings), Coordinator::Begin::launch, std::nullopt, how);
}

int run_again(const Options& options) {
  JobFile file = JobFile::read(options.restart);
  NumberedState state = read_state(file);
  refuse_second(file);
  if (!has_staged_wave(file, state.state))
    throw std::runtime_error("no wave of " + file.spec.id() + " is in " + file.directory + ": start it from the beginning");
  Settings settings = settings_of(file);
  if (!options.program.empty())
    throw std::runtime_error("--restart takes no program: it runs " + file.spec.argv(0) + " again");
  if (!options.hosts.empty() || !options.hostfile.empty() || std::getenv("SLURM_JOB_NODELIST")) {
    settings.nodes = nodes_of(options);
    settings.failure_groups.clear();
  }
  change_settings(settings, options);
  file.nodes = settings.nodes;
  file.spec = settings.spec;
  file.host = own_host();
  file.port = 0;
  file.server = make_key_pair();
  file.client = make_key_pair();
  file.settings = settings_json(settings);
  const RunOptions how = run_options(options, settings);
  return run(std::move(file), std::move(settings), Coordinator::Begin::restart, std::move(state), how);
}

/** For batch scripts, which are the same each time: the link tells whether there is something to go on with. */
int run_or_restart(Options options) {
  namespace fs = std::filesystem;
  const fs::path link = fs::absolute(options.restart_or_run).lexically_normal();
  std::error_code none;
  if (fs::exists(fs::symlink_status(link, none)) && !fs::is_symlink(link))
    throw std::runtime_error("--restart-or-run " + link.string() + " is not a link: name one that crrun can make");
  if (fs::exists(link / "job.json", none)) {
    const JobFile file = JobFile::read(fs::canonical(link).string());
    const State state = read_state(file).state;
    refuse_second(file);
    if (state.phase == "ended" && state.exit_code == 0) {
      std::fprintf(stderr, "crrun: %s has ended well; remove %s to run it again\n", file.spec.id().c_str(), link.c_str());
      return 0;
    }
    if (has_staged_wave(file, state)) {
      options.restart = file.directory;
      options.program.clear();
      return run_again(options);
    }
    std::fprintf(stderr, "crrun: no wave of %s is in shared storage: the program starts from the beginning\n", file.spec.id().c_str());
  }
  if (options.shared.empty()) options.shared = link.parent_path().string();
  return run_new(options, link);
}

int run_attached(const Options& options) {
  JobFile file = JobFile::read(options.attach);
  NumberedState state = read_state(file);
  if (state.state.phase == "ended") throw std::runtime_error(file.spec.id() + " has ended; restart it with --restart");
  if (file.host != own_host())
    throw std::runtime_error("the daemons of " + file.spec.id() + " wait for a crrun on " + file.host + ": run it there");
  refuse_second(file);
  Settings settings = settings_of(file);
  const RunOptions how = run_options(options, settings);
  return run(std::move(file), std::move(settings), Coordinator::Begin::attach, std::move(state), how);
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  CLI::App app{
      "Run an MPI job that survives the loss of nodes.\n"
      "crrun starts a daemon, crd, on every node by ssh, or by srun in a Slurm allocation. With\n"
      "checkpoints the job survives the loss of a node: its ranks are restarted on other nodes, and\n"
      "all ranks go back to the newest wave of checkpoints.",
      "crrun"};
  app.usage("Usage: crrun [OPTIONS] PROGRAM [ARGUMENTS...] [: [OPTIONS] PROGRAM [ARGUMENTS...]]...\n       crrun --restart JOBDIR [OPTIONS]\n"
            "       crrun --attach JOBDIR [OPTIONS]\n       crrun --restart-or-run LINK [OPTIONS] PROGRAM [ARGUMENTS...]");
  app.footer(
      "Times: 250ms, 60s, 5min, 1h, 30d; a number without a unit is in seconds.\n"
      "Exit status: the job's, like mpirun's: that of the first rank that failed, 128+N for signal N;\n"
      "2 wrong usage, 75 continue the job with --restart, 124 --timeout, 127 the program cannot be run.");
  tool::Common common("crrun");
  Options options;
  tool::set_up(app);
  add_options(app, options);
  std::vector<std::string> words = split_command_line(app, argc, argv, options.program);
  std::vector<char*> own{argv[0]};
  for (std::string& word : words) own.push_back(word.data());
  own.push_back(nullptr);

  return tool::run(app, common, static_cast<int>(own.size()) - 1, own.data(), [&] {
    const auto fail = [](const std::exception& error) {
      std::fprintf(stderr, "crrun: %s\n", error.what());
      return 1;
    };
    try {
      if (!options.restart_or_run.empty() && (options.program.empty() || !options.restart.empty() || !options.attach.empty()))
        throw Error(Failure::usage, EINVAL, "--restart-or-run LINK needs the program to run, and neither --restart nor --attach");
      if (!options.restart.empty() + !options.attach.empty() + !options.program.empty() != 1)
        throw Error(Failure::usage, EINVAL, "name a program to run, or --restart JOBDIR, or --attach JOBDIR (see --help)");
      split_programs(options);
      set_up_log("crrun", options.verbose ? "debug" : "warning");
      if (!options.metrics_file.empty()) MetricsFile::check(options.metrics_file);
      const int code = !options.restart_or_run.empty() ? run_or_restart(options)
                       : !options.restart.empty()  ? run_again(options)
                       : !options.attach.empty() ? run_attached(options)
                                                 : run_new(options);
      if (!options.report_file.empty() && !g_directory.empty())
        write_atomically(options.report_file,
                         report_page(read_file(g_directory + "/timeline.jsonl"),
                                     "Job " + std::filesystem::path(g_directory).filename().string()),
                         0644);
      return code;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      return fail(error);
    }
  });
}
