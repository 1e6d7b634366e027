// SPDX-License-Identifier: GPL-2.0-only
// crjob: queries and controls the jobs of crrun.
#include <time.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <stdexcept>

#include "base/error.h"
#include "command.h"
#include "crjob/report.h"
#include "crjob/status_text.h"
#include "job/asking.h"
#include "job/epoch.h"
#include "job/files.h"
#include "job/log.h"

using namespace reprise;
using namespace reprise::job;

namespace {

constexpr std::uint64_t kStatusMs = 10'000;

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

int list(bool json) {
  const std::vector<RegisteredJob> jobs = registered_jobs();
  if (!json) {
    std::fputs(list_text(jobs, now_ns()).c_str(), stdout);
    return 0;
  }
  nlohmann::json out = nlohmann::json::array();
  for (const RegisteredJob& one : jobs)
    out.push_back({{"id", one.id},
                   {"state", state_words(one)},
                   {"directory", one.directory},
                   {"host", one.host},
                   {"pid", one.pid},
                   {"program", one.program},
                   {"begun_unix_ns", one.begun_unix_ns},
                   {"ended", one.ended},
                   {"exit_code", one.exit_code}});
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

Answer answer_of(const JobFile& job, const Ask& ask, std::uint64_t limit_ms) {
  const Asked asked = ask_crrun(job, ask, limit_ms);
  if (!asked.answer) throw std::runtime_error(asked.problem);
  return *asked.answer;
}

int status(const JobFile& job, bool json) {
  Ask ask;
  ask.set_status(true);
  const Answer answer = answer_of(job, ask, kStatusMs);
  if (json)
    std::printf("%s\n", answer.status_json().c_str());
  else
    std::fputs(status_text(nlohmann::json::parse(answer.status_json()), now_ns()).c_str(), stdout);
  return 0;
}

int request(const JobFile& job, const Ask& ask, bool json) {
  const Answer answer = answer_of(job, ask, 0);
  if (json)
    std::printf("%s\n", nlohmann::json({{"ok", answer.ok()}, {"text", answer.text()}}).dump().c_str());
  else
    std::fprintf(answer.ok() ? stdout : stderr, "crjob: %s\n", answer.text().c_str());
  return answer.ok() ? 0 : 1;
}

/** Remove JOBDIR, the job's entry in the list and, on this host, what crrun has kept of it. */
int remove(const JobFile& job, bool force, bool json) {
  const Living lives = crrun_lives(job);
  if (lives == Living::yes)
    throw std::runtime_error(job.spec.id() + " has its crrun, process " + std::to_string(job.pid) + " on " + job.host +
                             ": end it first with crjob end " + job.spec.id());
  if (lives == Living::unknown && Epoch(job.directory).beats(kBeatsSeen))
    throw std::runtime_error(job.host + " does not answer, but the crrun of " + job.spec.id() + " there still writes to " + job.directory +
                             ": end it there first");
  if (!force && !Epoch(job.directory).ended())
    throw std::runtime_error("the crrun of " + job.spec.id() + " has died before the job's end, and its ranks may still run: take the job over on " +
                             job.host + " with crrun --attach " + job.directory + " and end it, or use --force if its nodes are free");
  const std::uint64_t bytes = remove_job_directory(job.directory);
  forget_job(job.spec.id());
  const std::string text = job.directory + " is removed (" + std::to_string((bytes + (1 << 20) - 1) >> 20) + " MB)";
  if (json)
    std::printf("%s\n", nlohmann::json({{"ok", true}, {"text", text}, {"bytes", bytes}}).dump().c_str());
  else
    std::printf("crjob: %s\n", text.c_str());
  return 0;
}

int report(const JobFile& job, std::string file) {
  const std::string page = report_page(read_file(job.directory + "/timeline.jsonl"), "Job " + job.spec.id());
  if (file == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  if (file.empty()) file = job.spec.id() + ".html";
  write_atomically(file, page, 0644);
  std::printf("%s\n", file.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  CLI::App app{
      "Query and control the jobs of crrun.\n"
      "  crjob list                 list the jobs of this user\n"
      "  crjob status JOB           show ranks, nodes, waves and the last recovery\n"
      "  crjob checkpoint JOB       take a wave of checkpoints now\n"
      "  crjob drain JOB NODE       move the ranks of a node to other nodes now\n"
      "  crjob report JOB [-o FILE] write an HTML page that shows where the time went\n"
      "  crjob end JOB              end the job\n"
      "  crjob remove JOB           remove a job that has ended, with its waves",
      "crjob"};
  app.usage("Usage: crjob COMMAND [JOB] [NODE] [OPTIONS]");
  app.footer(
      "JOB is a job id, a unique prefix of one, or the job's directory.\n"
      "Exit status: 0 done, 1 crrun could not do it, 2 wrong usage, 5 the job or its crrun was not found.");
  tool::Common common("crjob");
  std::string command, job, node, file;
  bool force = false;
  tool::set_up(app);
  app.add_option("COMMAND", command, "list, status, checkpoint, drain, report, end or remove")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"list", "status", "checkpoint", "drain", "report", "end", "remove"}));
  app.add_option("JOB", job, "the job")->type_name("");
  app.add_option("NODE", node, "of drain: the node, named as in crjob status")->type_name("");
  app.add_option("-o,--output", file, "of report: output file (default: JOB.html; - is standard output)")->type_name("FILE");
  app.add_flag("--force", force, "of remove: although the job's crrun has died before its end");
  app.add_flag("--json", common.json, "print JSON");

  return tool::run(app, common, argc, argv, [&] {
    if (command == "list") return list(common.json);
    if (job.empty()) throw Error(Failure::usage, EINVAL, command + " needs a job: crjob " + command + " JOB");
    if ((command == "drain") == node.empty())
      throw Error(Failure::usage, EINVAL, node.empty() ? "drain needs a node: crjob drain JOB NODE"
                                                       : command + " takes no node");
    set_up_log("crjob", "error");
    const JobFile found = JobFile::read(find_job(job));
    if (command == "status") return status(found, common.json);
    if (command == "report") return report(found, file);
    if (command == "remove") return remove(found, force, common.json);
    Ask ask;
    if (command == "checkpoint") ask.set_checkpoint(true);
    if (command == "drain") ask.set_drain(node);
    if (command == "end") ask.set_end(true);
    return request(found, ask, common.json);
  });
}
