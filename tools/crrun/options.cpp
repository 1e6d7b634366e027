// SPDX-License-Identifier: GPL-2.0-only
#include "options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <thread>

#include "common/command.h"
#include "crrun/coordinator/mapping.h"
#include "crrun/hosts.h"
#include "crrun/mapping_options.h"
#include "crrun/redundancy_options.h"
#include "job/files.h"
#include "job/keys.h"
#include "job/names.h"

extern char** environ;

namespace reprise::job {

namespace fs = std::filesystem;

void add_options(CLI::App& app, Options& o) {
  const auto option = [&app](const std::string& names, auto& value, const std::string& text, const std::string& type) {
    return app.add_option(names, value, text)->type_name(type)->allow_extra_args(false);
  };
  option("-n,--np", o.ranks, "number of ranks (default: one per slot)", "N")->check(CLI::PositiveNumber);
  option("-H,--hosts,--host", o.hosts, "nodes for the ranks, with slots", "HOST[:SLOTS],...");
  option("--hostfile,--machinefile", o.hostfile, "file with one node per line, in Open MPI's format: HOST slots=N", "FILE");
  option("--spares", o.spares, "nodes that take the ranks of lost ones; a number: the last of the hosts", "HOST[:SLOTS],...|N");
  option("-x", o.exported, "pass an environment variable to the ranks", "VAR[=VALUE]");
  option("--mca", o.mca, "set an Open MPI parameter", "KEY VALUE")->type_size(2);
  option("--wdir,--wd", o.wdir, "working directory of the ranks (default: the current one)", "DIR");
  option("-N,--npernode", o.per_node, "ranks on each node; --map-by ppr:N:node", "N")->check(CLI::PositiveNumber);
  option("--map-by", o.map_by,
         "what ranks are mapped to: slot (default), node, package, numa, core, hwthread; ppr:N:node|package|numa|core; "
         "qualifiers: pe=N, span, oversubscribe, nooversubscribe",
         "WHAT[:QUALIFIER...]");
  option("--rankfile", o.rankfile, "file with node and cores of each rank: rank N=HOST slot=LIST", "FILE");
  option("--bind-to", o.bind_to, "bind ranks: none, hwthread, core, numa, package (default: as --map-by says)", "WHAT[:overload-allowed]");
  app.add_flag("--report-bindings", o.report_bindings, "print to which cores each rank is bound");
  app.add_flag("--oversubscribe", o.oversubscribe, "allow more ranks than slots");
  option("--stdin", o.standard_input, "ranks that get standard input: 0, all, none", "RANK")
      ->check(CLI::IsMember({"0", "all", "none"}));
  app.add_flag("--tag-output", o.tag_output, "begin each line of output with [job,rank]<stdout>:");
  option("--timeout", o.timeout, "end the job after this time", "TIME");
  option("--recover", o.recover,
         "what follows when a rank or a node is lost: all ranks go back to a wave (all, default), or the program is told and "
         "recovers by itself (ulfm)",
         "all|ulfm")
      ->check(CLI::IsMember({"all", "ulfm"}));
  option("--with-ft", o.with_ft, "as mpirun has it: ulfm or mpi is --recover ulfm", "ulfm|mpi|none")
      ->check(CLI::IsMember({"ulfm", "mpi", "none"}));
  option("--checkpoint-every", o.checkpoint_every,
         "interval between waves of checkpoints; auto: the one that loses least; start: one wave when all ranks have called MPI_Init, "
         "no other (default: on request)",
         "TIME|auto|start");
  option("--node-mtbf", o.node_mtbf, "for auto: mean time between failures of one node (default: learned)", "TIME");
  option("--checkpoint-share", o.checkpoint_share, "for auto: largest part of the run time that waves may cost (default: 5%)", "PERCENT");
  option("--checkpoint-on", o.checkpoint_on,
         "signals at which the job takes a last wave, and ends with 75 when that is in --shared", "SIGNAL,...");
  option("--rollback-on", o.rollback_on, "signals at which all ranks go back to the newest wave", "SIGNAL,...");
  option("--time-left", o.time_left,
         "time after which the batch system kills the job, which leaves in time (default with --checkpoint-on in Slurm: known)", "TIME");
  option("--hang-after", o.hang_after, "time without progress of any rank after which the job counts as hanging; 0: never (default)", "TIME");
  option("--on-hang", o.on_hang, "what to do then: say it (default), or recover: go back to a wave", "say|recover")
      ->check(CLI::IsMember({"say", "recover"}));
  option("--local", o.local, "directory on each node for images (default: /var/tmp/reprise-UID)", "DIR");
  app.add_flag("--incremental{16}", o.incremental,
               "save and copy only what has changed since the wave before; each (N+1)th image, and copy, is whole (default: 16)")
      ->type_name("N");
  option("--shared", o.shared, "directory shared by all nodes, for copies of the images", "DIR");
  option("--redundancy", o.redundancy,
         "nodes keep images of each other: partner:K: K copies of each (default: 1); xor:N: parity in sets of N nodes, of which one may "
         "be lost; none (default)",
         "partner[:K]|xor:N|none");
  option("--failure-groups", o.failure_groups, "file with nodes that may be lost together, one group per line: GROUP: NODE NODE...", "FILE");
  option("--detect", o.detect, "longest silence after which a node is given up (default: 10s)", "TIME");
  option("--detect-at-least", o.detect_at_least, "shortest such silence (default: five heartbeats, 2s)", "TIME");
  app.add_flag("--no-double-up", o.no_double_up, "when nodes are lost, never place more ranks than slots on another");
  app.add_flag("--require-checkpoints", o.require_checkpoints, "do not start when a node lacks the kernel module");
  option("--max-restarts", o.max_restarts, "number of restarts of a dying rank between two waves (default: 3)", "N");
  option("--stage-nodes", o.staging_nodes, "number of nodes that copy to --shared at the same time (default: 2)", "N")
      ->check(CLI::PositiveNumber);
  option("--stage-rate", o.stage_rate, "maximum bytes per second that each of them copies", "BYTES");
  option("--local-limit", o.local_limit, "maximum bytes that images use on each node", "BYTES");
  option("--quiesce-timeout", o.quiesce_timeout, "time limit for emptying the connections (default: 30s)", "TIME");
  option("--recover-timeout", o.recover_timeout, "time limit for each step of a recovery (default: 10min)", "TIME");
  option("--abandon-after", o.abandon, "time after which daemons without crrun and running ranks end (default: 24h)", "TIME");
  app.add_flag("--keep", o.keep, "keep the images of a job that has ended");
  option("--interface", o.interfaces, "networks to use: names or CIDR", "NAME|CIDR,...")->delimiter(',');
  option("--fan-out", o.fan_out, "children of crrun and of each daemon; more nodes form a tree (default: 64)", "N")
      ->check(CLI::PositiveNumber);
  option("--launcher", o.launcher, "how daemons are started: auto, ssh, srun", "HOW")
      ->check(CLI::IsMember({"auto", "ssh", "srun"}));
  option("--launch-agent", o.launch_agent, "the daemon's program on the nodes (default: crd)", "COMMAND");
  option("--report-file", o.report_file, "write the report of `crjob report` there when the job has ended", "FILE");
  option("--metrics", o.metrics_file, "keep metrics of the job there, for Prometheus (OpenMetrics)", "FILE");
  option("--restart", o.restart, "start a job again from its newest staged wave", "JOBDIR");
  option("--restart-or-run", o.restart_or_run,
         "for batch scripts: run PROGRAM, or restart it if this is not the first time; a link to JOBDIR is made there", "LINK");
  option("--attach", o.attach, "take over the running job of a crrun that has died", "JOBDIR");
  app.add_flag("-v,--verbose", o.verbose, "print more messages, also those of the daemons");
  app.add_flag("-q,--quiet", o.quiet, "print only warnings and errors");
}

std::vector<std::string> split_command_line(const CLI::App& app, int argc, char** argv,
                                            std::vector<std::string>& program) {
  std::vector<std::string> out;
  int i = 1;
  while (i < argc) {
    std::string word = argv[i];
    if (word.size() < 2 || word[0] != '-') break;
    ++i;
    if (word == "--") break;
    // mpirun accepts long options with one dash, such as "-np".
    if (word[1] != '-' && word.size() > 2 && app.get_option_no_throw("-" + word.substr(0, word.find('='))))
      word = "-" + word;
    out.push_back(word);
    const bool joined = word.find('=') != std::string::npos || (word[1] != '-' && word.size() > 2);
    const CLI::Option* known = joined ? nullptr : app.get_option_no_throw(word);
    const int values = known ? known->get_type_size() * known->get_expected_min() : 0;
    for (int value = 0; value < values && i < argc; ++value) out.push_back(argv[i++]);
  }
  program.assign(argv + i, argv + argc);
  return out;
}

void split_programs(Options& options) {
  std::vector<std::vector<std::string>> parts(1);
  for (std::string& word : std::exchange(options.program, {})) {
    if (word == ":")
      parts.emplace_back();
    else
      parts.back().push_back(std::move(word));
  }
  options.program = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    ProgramOptions more;
    CLI::App app;
    app.set_help_flag();
    const auto option = [&app](const std::string& names, auto& value) { app.add_option(names, value)->allow_extra_args(false); };
    option("-n,--np", more.ranks);
    option("-H,--hosts,--host", more.hosts);
    option("-x", more.exported);
    option("--wdir,--wd", more.wdir);
    std::vector<char*> words{nullptr};
    for (std::string& word : parts[i]) words.push_back(word.data());
    std::vector<std::string> own = split_command_line(app, static_cast<int>(words.size()), words.data(), more.program);
    std::reverse(own.begin(), own.end());
    const std::string which = "program " + std::to_string(i + 1) + " (behind \":\")";
    try {
      app.parse(own);
    } catch (const CLI::ParseError& error) {
      throw std::runtime_error(which + ": " + error.what() +
                               ": a program can have -n, -x, --wdir and --hosts for itself; give other options before the first program");
    }
    if (more.program.empty()) throw std::runtime_error(which + " is missing: leave out the \":\", or name it");
    options.more.push_back(std::move(more));
  }
}

namespace {

double leading_number(const std::string& text, const std::string& option, std::string& unit) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value >= 0 && value <= 1e15))  // also rejects NaN
    throw std::runtime_error(option + ": \"" + text + "\" is not a valid number");
  unit = end;
  return value;
}

std::uint64_t whole(double value, const std::string& text, const std::string& option) {
  if (value > 1e18) throw std::runtime_error(option + ": \"" + text + "\" is too large");
  return static_cast<std::uint64_t>(value);
}

using Environment = google::protobuf::RepeatedPtrField<EnvironmentVariable>;

void set_variable(Environment& environment, const std::string& name, const std::string& value) {
  for (EnvironmentVariable& known : environment)
    if (known.name() == name) {
      known.set_value(value);
      return;
    }
  EnvironmentVariable& variable = *environment.Add();
  variable.set_name(name);
  variable.set_value(value);
}

void export_variables(const std::vector<std::string>& exported, Environment& environment) {
  for (const std::string& one : exported) {
    const std::size_t equal = one.find('=');
    if (equal != std::string::npos) {
      set_variable(environment, one.substr(0, equal), one.substr(equal + 1));
    } else if (const char* value = std::getenv(one.c_str())) {
      set_variable(environment, one, value);
    } else {
      throw std::runtime_error("-x " + one + ": it is not set in the environment; give it a value: -x " + one + "=VALUE");
    }
  }
}

std::string directory_of(const std::string& wdir) {
  return wdir.empty() ? fs::current_path().string() : fs::absolute(wdir).string();
}

/** "node1,node2", without slots */
std::string host_names(const std::vector<std::string>& lists) {
  std::string out;
  for (const std::string& list : lists)
    for (const Host& host : parse_hosts(list)) out += (out.empty() ? "" : ",") + host.name;
  return out;
}

/** The job's programs and their ranks. Needs nodes and mapping. */
void set_programs(Settings& settings, const Options& options) {
  JobSpec& spec = settings.spec;
  for (const std::string& word : options.program) spec.add_argv(word);
  spec.set_working_directory(directory_of(options.wdir));
  for (char** at = environ; *at; ++at)
    if (std::strncmp(*at, "OMPI_MCA_", 9) == 0)
      if (const char* equal = std::strchr(*at, '='))
        set_variable(*spec.mutable_environment(), std::string(*at, static_cast<std::size_t>(equal - *at)), equal + 1);
  if (options.more.empty()) {
    spec.set_ranks(options.ranks ? options.ranks : default_ranks(settings, ""));
    export_variables(options.exported, *spec.mutable_environment());
  } else {
    std::vector<ProgramOptions> programs{{options.ranks, options.hosts, options.exported, options.program, options.wdir}};
    programs.insert(programs.end(), options.more.begin(), options.more.end());
    // A list before the first program is that of the job, unless other programs have lists, too.
    const bool own_hosts = std::any_of(options.more.begin(), options.more.end(), [](const auto& one) { return !one.hosts.empty(); });
    std::uint32_t ranks = 0;
    for (const ProgramOptions& one : programs) {
      SpawnApp& app = *spec.add_apps();
      for (const std::string& word : one.program) app.add_argv(word);
      app.set_working_directory(directory_of(one.wdir));
      export_variables(one.exported, *app.mutable_environment());
      if (own_hosts) app.set_hosts(host_names(one.hosts));
      // A number of slots, or of lines of a rankfile, would be that of all programs together.
      const bool known = spec.mapping().per_part() && !spec.rankfile_size();
      app.set_processes(one.ranks ? one.ranks : known ? default_ranks(settings, app.hosts()) : 0);
      if (!app.processes()) throw std::runtime_error(one.program.front() + ": of several programs each needs its number of ranks: -n N");
      ranks += app.processes();
    }
    spec.set_ranks(ranks);
  }
  for (const auto& [key, value] : options.mca) set_variable(*spec.mutable_environment(), "OMPI_MCA_" + key, value);
  if (!spec.ranks())
    throw std::runtime_error("--map-by " + options.map_by + ": give the number of ranks, -n N: how many " + part_name(spec.mapping().part()) +
                             "s the nodes have is known only when their daemons run");
  if (!spec.rankfile_size()) return;
  const auto lines = static_cast<std::uint32_t>(spec.rankfile_size());
  if (spec.ranks() > lines)
    throw std::runtime_error(spec.rankfile(0).where().substr(0, spec.rankfile(0).where().rfind(':')) + ": rank " + std::to_string(lines) +
                             " has no line; -n " + std::to_string(spec.ranks()) + " needs one for each rank");
  while (spec.rankfile_size() > static_cast<int>(spec.ranks())) spec.mutable_rankfile()->RemoveLast();
}

}  // namespace

std::uint64_t milliseconds(const std::string& text, const std::string& option) {
  std::string unit;
  const double value = leading_number(text, option, unit);
  const std::pair<const char*, double> units[] = {{"ms", 1},      {"s", 1e3}, {"", 1e3},   {"m", 60e3},
                                                  {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
  for (const auto& [name, factor] : units)
    if (unit == name) return whole(value * factor, text, option);
  throw std::runtime_error(option + ": \"" + text + "\" is not a time: use ms, s, min, h or d");
}

std::uint64_t byte_count(const std::string& text, const std::string& option) {
  std::string unit;
  const double value = leading_number(text, option, unit);
  if (!unit.empty() && unit.back() == 'B') unit.pop_back();
  const std::pair<const char*, double> units[] = {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  for (const auto& [name, factor] : units)
    if (unit == name) return whole(value * factor, text, option);
  throw std::runtime_error(option + ": \"" + text + "\" is not a number of bytes: use k, M, G or T");
}

std::vector<Node> nodes_of(const Options& options) {
  std::vector<Host> hosts, spares;
  std::string list;
  const auto add = [&list](const std::vector<std::string>& more) {
    for (const std::string& one : more) list += (list.empty() ? "" : ",") + one;
  };
  add(options.hosts);
  for (const ProgramOptions& more : options.more) add(more.hosts);
  hosts = parse_hosts(list);
  if (!options.hostfile.empty()) {
    std::vector<Host> from_file = parse_hostfile(read_file(options.hostfile), options.hostfile);
    if (hosts.empty()) {
      hosts = std::move(from_file);
    } else {
      // Like mpirun: --hosts selects among the hosts of the file.
      for (Host& host : hosts) {
        const auto found = std::find_if(from_file.begin(), from_file.end(),
                                        [&](const Host& one) { return one.name == host.name; });
        if (found == from_file.end()) throw std::runtime_error(host.name + " is not in " + options.hostfile);
        if (!host.slots) host.slots = found->slots;
      }
    }
  }
  // A number stands for the last nodes of the list or the allocation.
  const bool counted = options.spares.size() == 1 && !options.spares[0].empty() &&
                       options.spares[0].find_first_not_of("0123456789") == std::string::npos;
  for (const std::string& list : options.spares)
    for (Host& host : counted ? std::vector<Host>{} : parse_hosts(list)) spares.push_back(std::move(host));
  if (hosts.empty()) {
    hosts = slurm_hosts();
    std::erase_if(hosts, [&](const Host& host) {
      return std::any_of(spares.begin(), spares.end(), [&](const Host& spare) { return spare.name == host.name; });
    });
  }
  if (hosts.empty()) {
    char own[256] = "localhost";
    ::gethostname(own, sizeof own - 1);
    hosts.push_back({own, std::max(1u, std::thread::hardware_concurrency())});
  }
  if (counted) {
    const std::uint64_t count = std::strtoull(options.spares[0].c_str(), nullptr, 10);
    if (count >= hosts.size())
      throw std::runtime_error("--spares " + options.spares[0] + ": of " + std::to_string(hosts.size()) +
                               " nodes at least one must be left for the ranks");
    spares.assign(std::make_move_iterator(hosts.end() - static_cast<std::ptrdiff_t>(count)), std::make_move_iterator(hosts.end()));
    hosts.resize(hosts.size() - count);
  }
  return make_nodes(hosts, spares);
}

/** The signals in a list. Throws std::runtime_error. */
std::set<int> signals(const std::string& option, const std::string& list) {
  std::set<int> out;
  std::stringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const int number = tool::signal_number(name);
    if (number != SIGHUP && number != SIGINT && number != SIGTERM && number != SIGUSR1 && number != SIGUSR2)
      throw std::runtime_error(option + " " + name + ": crrun receives HUP, INT, TERM, USR1 and USR2");
    out.insert(number);
  }
  return out;
}

/** When the job has to leave. Throws std::runtime_error. */
void set_leaving(Settings& settings, const Options& options) {
  settings.leave_on = signals("--checkpoint-on", options.checkpoint_on);
  settings.wall_end_unix_s = 0;
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  const char* slurm = std::getenv("SLURM_JOB_END_TIME");
  if (!options.time_left.empty())
    settings.wall_end_unix_s = now + milliseconds(options.time_left, "--time-left") / 1000;
  else if (slurm && !settings.leave_on.empty())
    settings.wall_end_unix_s = std::strtoull(slurm, nullptr, 10);
  if ((!settings.leave_on.empty() || settings.wall_end_unix_s) && settings.spec.shared_directory().empty())
    throw std::runtime_error(std::string(settings.leave_on.empty() ? "--time-left" : "--checkpoint-on") +
                             " needs --shared DIR: only a wave in shared storage outlives the job");
}

/** When the ranks go back though nothing was lost. Needs leave_on. Throws std::runtime_error. */
void set_rollback(Settings& settings, const Options& options) {
  settings.rollback_on = signals("--rollback-on", options.rollback_on);
  for (const int number : settings.rollback_on)
    if (settings.leave_on.count(number))
      throw std::runtime_error(std::string("SIG") + ::sigabbrev_np(number) + " is in --checkpoint-on and in --rollback-on: leave it out of one");
}

/** How often waves are taken. Throws std::runtime_error. */
void set_interval(Settings& settings, const Options& options) {
  if (!options.checkpoint_every.empty()) {
    settings.wave_interval_auto = options.checkpoint_every == "auto";
    settings.wave_at_start = options.checkpoint_every == "start";
    settings.wave_interval_ms =
        settings.wave_interval_auto || settings.wave_at_start ? 0 : milliseconds(options.checkpoint_every, "--checkpoint-every");
  }
  for (const auto& [option, value] : {std::pair{"--node-mtbf", &options.node_mtbf}, {"--checkpoint-share", &options.checkpoint_share}})
    if (!value->empty() && !settings.wave_interval_auto)
      throw std::runtime_error(std::string(option) + " is for --checkpoint-every auto: use both, or neither");
  if (!options.node_mtbf.empty()) {
    settings.node_mtbf_ms = milliseconds(options.node_mtbf, "--node-mtbf");
    if (settings.node_mtbf_ms < 60'000)
      throw std::runtime_error("--node-mtbf " + options.node_mtbf + ": a node that fails every minute runs no job; give the time of one node, such as 900d");
  }
  if (!options.checkpoint_share.empty()) {
    std::string unit;
    const double percent = leading_number(options.checkpoint_share, "--checkpoint-share", unit);
    if ((!unit.empty() && unit != "%") || percent < 0.01 || percent > 90)
      throw std::runtime_error("--checkpoint-share " + options.checkpoint_share + ": give a percentage of the run time from 0.01 to 90, such as 5");
    settings.wave_share = percent / 100;
  }
}

/** When the job counts as hanging, and what follows. Throws std::runtime_error. */
void set_watch(Settings& settings, const Options& options) {
  constexpr std::uint64_t kLeastMs = 5000;
  if (!options.hang_after.empty()) {
    settings.hang_after_ms = milliseconds(options.hang_after, "--hang-after");
    if (settings.hang_after_ms && settings.hang_after_ms < kLeastMs)
      throw std::runtime_error("--hang-after " + options.hang_after + ": give at least 5s, and more than the longest pause of the program");
    // Often enough to tell a wave before the last progress from one after it.
    settings.spec.set_look_ms(static_cast<std::uint32_t>(settings.hang_after_ms ? std::clamp<std::uint64_t>(settings.hang_after_ms / 10, 1000, 5000) : 0));
  }
  if (options.on_hang.empty()) return;
  if (!settings.hang_after_ms) throw std::runtime_error("--on-hang " + options.on_hang + " needs --hang-after TIME");
  settings.hang_recover = options.on_hang == "recover";
}

/** --incremental. Throws std::runtime_error. */
std::uint32_t generations(const std::string& text) {
  constexpr std::uint32_t kMost = 1000;
  std::string unit;
  const double value = leading_number(text, "--incremental", unit);
  if (!unit.empty() || value != std::floor(value) || value > kMost)
    throw std::runtime_error("--incremental=" + text + ": give the number of images between two whole ones, from 1 to 1000; 0: every image is whole");
  return static_cast<std::uint32_t>(value);
}

/** Whether the program is told of failures. Throws std::runtime_error. */
bool tells_failures(const Options& options) {
  if (options.recover != "ulfm" && (options.with_ft.empty() || options.with_ft == "none")) return false;
  const std::pair<const char*, bool> useless[] = {{"--checkpoint-every", !options.checkpoint_every.empty()},
                                                  {"--checkpoint-on", !options.checkpoint_on.empty()},
                                                  {"--rollback-on", !options.rollback_on.empty()},
                                                  {"--time-left", !options.time_left.empty()},
                                                  {"--incremental", !options.incremental.empty()},
                                                  {"--redundancy", !options.redundancy.empty() && options.redundancy != "none"},
                                                  {"--on-hang recover", options.on_hang == "recover"},
                                                  {"--require-checkpoints", options.require_checkpoints}};
  for (const auto& [option, given] : useless)
    if (given)
      throw std::runtime_error(std::string("--recover ulfm takes no checkpoints, so it does not go with ") + option +
                               ": leave one of the two out");
  return true;
}

/** Which images nodes keep for each other, and which nodes may be lost together. Throws std::runtime_error. */
void set_redundancy(Settings& settings, const Options& options) {
  if (!options.redundancy.empty()) *settings.spec.mutable_redundancy() = parse_redundancy(options.redundancy);
  check_redundancy(settings.spec.redundancy(), settings.nodes);
  if (!settings.spec.redundancy().kind()) {
    if (options.failure_groups.empty()) return;
    throw std::runtime_error("--failure-groups is for --redundancy: use both, or neither");
  }
  if (options.failure_groups.empty()) {
    if (options.hostfile.empty()) return;
    settings.failure_groups = failure_groups_of(parse_hostfile(read_file(options.hostfile), options.hostfile), settings.nodes);
    return;
  }
  settings.failure_groups = parse_failure_groups(read_file(options.failure_groups), options.failure_groups, settings.nodes);
}

void change_settings(Settings& settings, const Options& options) {
  set_redundancy(settings, options);
  set_leaving(settings, options);
  set_rollback(settings, options);
  set_interval(settings, options);
  set_watch(settings, options);
  settings.lost_after_ms = milliseconds(options.detect, "--detect");
  if (settings.lost_after_ms < 200) throw std::runtime_error("--detect: less than 200ms would take a busy node for a lost one");
  if (!options.detect_at_least.empty()) {
    settings.shortest_silence_ms = milliseconds(options.detect_at_least, "--detect-at-least");
    if (settings.shortest_silence_ms > settings.lost_after_ms)
      throw std::runtime_error("--detect-at-least is longer than --detect (" + options.detect + "): raise --detect");
  }
  settings.quiesce_timeout_ms = milliseconds(options.quiesce_timeout, "--quiesce-timeout");
  settings.recover_timeout_ms = milliseconds(options.recover_timeout, "--recover-timeout");
  if (!options.timeout.empty()) settings.run_timeout_ms = milliseconds(options.timeout, "--timeout");
  if (options.fan_out) settings.fan_out = options.fan_out;
  settings.staging_nodes = options.staging_nodes;
  settings.max_restarts = options.max_restarts;
  settings.oversubscribe |= options.oversubscribe;
  set_mapping(settings, options);
  settings.double_up = !options.no_double_up;
  settings.require_checkpoints |= options.require_checkpoints;
  settings.keep_images = options.keep;
  JobSpec& spec = settings.spec;
  spec.set_heartbeat_ms(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(settings.lost_after_ms / 6, 50, 400)));
  // The longest lease is shorter: the ranks of a node that is cut off stand still before they run elsewhere.
  spec.set_lost_after_ms(static_cast<std::uint32_t>(settings.lost_after_ms * 2 / 3));
  if (!options.stage_rate.empty()) spec.set_stage_bytes_per_second(byte_count(options.stage_rate, "--stage-rate"));
  if (!options.incremental.empty()) spec.set_incremental(generations(options.incremental));
  if (!options.abandon.empty()) spec.set_abandon_ms(milliseconds(options.abandon, "--abandon-after"));
  if (!options.local_limit.empty()) spec.set_local_limit_bytes(byte_count(options.local_limit, "--local-limit"));
  if (!options.interfaces.empty()) {
    spec.clear_crtcp_interfaces();
    for (const std::string& one : options.interfaces) spec.add_crtcp_interfaces(one);
  }
}

Settings make_settings(const Options& options, const std::string& id) {
  Settings settings;
  settings.nodes = nodes_of(options);
  JobSpec& spec = settings.spec;
  spec.set_id(id);
  spec.set_local_directory(options.local.empty() ? "/var/tmp/reprise-" + std::to_string(::getuid())
                                                 : fs::absolute(options.local).lexically_normal().string());
  if (!options.shared.empty()) {
    const fs::path shared = fs::absolute(options.shared).lexically_normal();
    // Create only the last directory. Its parent must exist: otherwise an unmounted file system would be taken for shared
    // storage.
    std::error_code error;
    if (!fs::is_directory(shared) && !fs::create_directory(shared, error))
      throw std::runtime_error("--shared: " + shared.string() + " is not a directory and cannot be created (" +
                               (error ? error.message() : "it is a file") + "); it must be on storage that all nodes see");
    spec.set_shared_directory(shared.string());
  }
  spec.set_stdin_target(options.standard_input);
  spec.set_tells_failures(tells_failures(options));
  spec.set_no_checkpoints(spec.tells_failures());
  spec.set_cookie(random_bytes(32));
  change_settings(settings, options);
  set_programs(settings, options);
  std::uint64_t slots = 0;
  for (const Node& node : settings.nodes) slots += node.spare() ? 0 : node.slots();
  if (spec.ranks() > slots && !settings.oversubscribe)
    throw std::runtime_error("there are " + std::to_string(slots) + " slots for " + std::to_string(spec.ranks()) +
                             " ranks: name more nodes, give them slots (--hosts node1:4), or use --oversubscribe");
  return settings;
}

}  // namespace reprise::job
