// SPDX-License-Identifier: GPL-2.0-only
#include "states.h"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/proc_stat.h"
#include "base/request_flags.h"
#include "libcr.h"
#include "progress.h"
#include "report.h"

namespace reprise::snapshots {
namespace {

using Json = nlohmann::ordered_json;

void print(const Json& json) { std::printf("%s\n", tool::json_line(json).c_str()); }

SnapshotOptions snapshot_options(const Options& options) {
  SnapshotOptions made;
  made.timeout_ms = made.agent_timeout_ms = options.common.timeout_ms();
  made.request_flags = api::pack_request(0, CR_SCOPE_PROC, options.pid);
  return made;
}

std::string comm_of(pid_t pid) {
  const auto stat = proc_stat(pid);
  return stat ? stat->comm : "";
}

/** The local time of day, with the date unless it is today's. */
std::string when(std::uint64_t unix_ns) {
  const auto then = static_cast<std::time_t>(unix_ns / 1000000000), now = std::time(nullptr);
  std::tm local{}, today{};
  ::localtime_r(&then, &local);
  ::localtime_r(&now, &today);
  const bool same_day = local.tm_yday == today.tm_yday && local.tm_year == today.tm_year;
  char text[32];
  std::strftime(text, sizeof text, same_day ? "%H:%M:%S" : "%F %H:%M:%S", &local);
  return text;
}

}  // namespace

std::string States::title(unsigned number) const {
  const std::string& name = tree_.nodes().at(number).name;
  return "snapshot " + std::to_string(number) + (name.empty() ? "" : " (" + name + ")");
}

void States::say(const Options& options, const Report& report, unsigned number, const std::string& sentence) const {
  if (!options.common.json) return tool::print(options.common, report, sentence, stdout);
  Json json = Json::parse(tool::report_json(options.common.name, report));
  json["snapshot"] = number;
  json["name"] = tree_.nodes().at(number).name;
  print(json);
}

void States::take(const Options& options, pid_t requester) {
  tree_.check_name(options.name);
  State state;
  state.session = std::make_unique<Session>(Session::attach(pid_));
  state.session->origin("", requester);
  state.snapshot = std::make_unique<Snapshot>(Snapshot::take(*state.session, snapshot_options(options)));
  state.session->rest();
  const Report report = state.snapshot->report();
  const unsigned number = tree_.add(options.name);
  states_[number] = std::move(state);
  used(number);
  say(options, report, number,
      title(number) + " taken: " + tool::counted(report.threads, "thread") + ", " + tool::counted(report.pages, "page") +
          ", stood still " + tool::duration(report.frozen_ns));
}

void States::go_to(const Options& options, pid_t requester) {
  const unsigned number = tree_.find(options.snapshot);
  const State& state = states_.at(number);
  state.session->origin("", requester);
  state.snapshot->set_options(snapshot_options(options));
  const Report report = state.snapshot->rollback(options.restore);
  state.session->rest();
  tree_.go_to(number);
  used(number);
  say(options, report, number,
      "is in the state of " + title(number) + ", " + tool::age(report) + ": " + tool::counted(report.threads, "thread") + ", " +
          tool::grouped(report.pages_restored) + " of " + tool::counted(report.pages, "page") + " restored, stood still " +
          tool::duration(report.frozen_ns));
}

unsigned States::kept(const ImageFile& image) const {
  for (const auto& [number, state] : states_)
    if (image && state.image == image) return number;
  return 0;
}

void States::forget(unsigned number) {
  states_.erase(number);
  tree_.drop(number);
  recent_.forget(number);
}

void States::used(unsigned number) {
  if (const auto other = recent_.use(number)) states_.at(static_cast<unsigned>(*other)).snapshot->set_aside();
}

bool States::pause_to_kept(const PauseCommand& command, unsigned number, Report& report) {
  const State& state = states_.at(number);
  state.session->origin(command.options.image, command.options.requester);
  SnapshotOptions options;
  options.timeout_ms = options.agent_timeout_ms = command.options.timeout_ms;
  options.request_flags = command.options.request_flags;
  state.snapshot->set_options(options);
  try {
    report = state.snapshot->rollback(command.options.restore);
  } catch (const Error& error) {
    if (error.code() != ENXIO) throw;
    forget(number);
    return false;
  }
  report.image = command.options.image;
  report.bytes = state.snapshot->report().bytes;
  state.session->rest();
  tree_.go_to(number);
  used(number);
  return true;
}

void States::pause_and_keep(const PauseCommand& command, Report& report) {
  if (ImageFile::of(command.options.image) != command.image)
    throw Error(Failure::refused, ESTALE,
                command.options.image + " is another file for the process that keeps snapshots: give the path of the file itself");
  State state;
  state.image = command.image;
  state.session = std::make_unique<Session>(Session::attach(pid_));
  std::optional<Snapshot> loaded = [&] {
    ProgressBar bar("checking", !command.common.json && !command.common.quiet);
    PauseOptions options = command.options;
    options.progress = bar.callback();
    return Snapshot::load(*state.session, options, report);
  }();
  if (!loaded) return;
  if (ImageFile::of(command.options.image) != command.image) {
    report.warnings.push_back("its state is not kept in memory: " + command.options.image + " was replaced meanwhile");
    return;
  }
  state.snapshot = std::make_unique<Snapshot>(std::move(*loaded));
  state.session->rest();
  const std::string name = std::filesystem::absolute(command.options.image).lexically_normal();
  // What was kept of another file that had this name is of no use any more.
  for (const auto& [number, node] : std::map(tree_.nodes()))
    if (states_.at(number).image && node.name == name) forget(number);
  tree_.go_to(0);  // no snapshot is its parent
  const unsigned number = tree_.add(tree_.may_be_name(name) ? name : "");
  states_[number] = std::move(state);
  used(number);
}

bool States::pause(PauseCommand& command, pid_t requester) {
  command.options.requester = requester;
  Report report;
  const unsigned number = command.options.use_tracking ? kept(command.image) : 0;
  if (number == 0 || !pause_to_kept(command, number, report)) {
    if (!command.keep) return false;
    pause_and_keep(command, report);
  }
  print_pause(command.common, report);
  return true;
}

void States::drop(const Options& options) {
  std::vector<unsigned> numbers;
  for (const std::string& which : options.drop) numbers.push_back(tree_.find(which));
  if (options.all)
    for (const auto& [number, node] : tree_.nodes()) numbers.push_back(number);
  for (const unsigned number : numbers) forget(number);
  const std::string left = states_.empty() ? "none is left" : tool::counted(states_.size(), "snapshot") + " left";
  if (options.common.json)
    print({{"command", options.common.name}, {"ok", true}, {"pid", pid_}, {"dropped", numbers}, {"left", states_.size()}});
  else if (!options.common.quiet)
    std::printf("%s: process %d (%s): dropped %s, %s\n", options.common.name.c_str(), pid_, comm_of(pid_).c_str(),
                tool::counted(numbers.size(), "snapshot").c_str(), left.c_str());
}

void States::list(const Options& options) const {
  if (options.common.json) {
    Json all = Json::array();
    for (const auto& [number, node] : tree_.nodes()) {
      const Report& report = states_.at(number).snapshot->report();
      all.push_back({{"snapshot", number}, {"name", node.name}, {"parent", node.parent},
                     {"taken_unix_ns", report.image_taken_unix_ns}, {"threads", report.threads}, {"pages", report.pages},
                     {"kernel_bytes", report.kernel_bytes}});
    }
    return print({{"command", options.common.name}, {"ok", true}, {"pid", pid_}, {"comm", comm_of(pid_)},
                  {"current", tree_.current()}, {"snapshots", all}});
  }
  std::printf("process %d (%s)%s\n", pid_, comm_of(pid_).c_str(), tree_.current() ? "" : " *");
  for (const Tree::Line& line : tree_.draw()) {
    const Report& report = states_.at(line.number).snapshot->report();
    const std::string& name = tree_.nodes().at(line.number).name;
    std::printf("  %s%u%s%s  %s, %s%s\n", line.lead.c_str(), line.number, name.empty() ? "" : " ", name.c_str(),
                when(report.image_taken_unix_ns).c_str(), tool::bytes(report.pages * 4096).c_str(),
                line.number == tree_.current() ? " *" : "");
  }
}

void States::save(const Options& options) {
  const unsigned number = tree_.find(options.snapshot);
  Report report;
  {
    ProgressBar bar("writing", !options.common.json && !options.common.quiet);
    report = states_.at(number).snapshot->write(options.image, options.clobber, options.sync, bar.callback());
  }
  used(number);
  say(options, report, number,
      title(number) + " saved to " + report.image + ": " + tool::counted(report.pages, "page") + ", " + tool::bytes(report.bytes));
}

void States::carry_out(const Options& options, pid_t requester) {
  switch (options.verb) {
    case Verb::take: return take(options, requester);
    case Verb::list: return list(options);
    case Verb::go_to: return go_to(options, requester);
    case Verb::drop: return drop(options);
    case Verb::save: return save(options);
  }
}

}  // namespace reprise::snapshots
