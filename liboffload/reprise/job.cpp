// SPDX-License-Identifier: LGPL-2.1-or-later
#include "job.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/idle.h"
#include "boosters/arguments.h"
#include "invitation.h"

extern char **environ;

namespace croff {
namespace {

constexpr int kSecondsToEnd = 60, kSecondsAfterTerm = 15;

std::vector<std::string> lines(const char *text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

/** "node1:2,node2:2" */
std::string hosts_of(const Hosts &wanted) {
  const auto names = wanted.named ? host_names() : std::vector<std::string>();
  if (names.empty()) {
    const char *open = getenv("REPRISE_HOSTS");
    return open ? open : "";
  }
  std::map<std::string, int> slots;
  for (int i = 0; i < wanted.hosts; ++i) slots[names[i % names.size()]] += wanted.per_host;
  std::string list;
  for (const auto &[name, count] : slots) list += (list.empty() ? "" : ",") + name + ":" + std::to_string(count);
  return list;
}

/** The command that the daemon of the masters' job gives its ranks; without one, crrun with its defaults. */
std::vector<std::string> command(const Hosts &wanted) {
  const char *given = getenv("REPRISE_CRRUN");
  std::vector<std::string> words = given ? lines(given) : std::vector<std::string>{"crrun", "--oversubscribe"};
  const auto add = [&words](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (const std::string hosts = hosts_of(wanted); !hosts.empty()) add({"--hosts", hosts});
  // How often boosters may be lost is for the master to decide. If it is lost with its crrun, they are not to wait for another one.
  add({"--quiet", "--max-restarts", "1000000", "--abandon-after", "1min", "--rollback-on", "USR2", "--stdin", "none"});
  add({"-n", std::to_string(wanted.hosts * wanted.per_host), "-x", kInvitation});
  for (const char *name : {"CROFF_ENGINE", "CROFF_HOSTS", "CROFF_ATTEMPTS", "CROFF_FAULT", "CROFF_FAULT_FILES"})
    if (getenv(name)) add({"-x", name});
  words.push_back(executable());
  const std::vector<std::string> own = arguments();
  words.insert(words.end(), own.begin() + (own.empty() ? 0 : 1), own.end());
  return words;
}

/** This process's, without what its own job and MPI have put there: that is not for another job. */
std::vector<std::string> environment(const std::vector<std::string> &words, const std::string &invitation) {
  std::set<std::string> passed;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "-x") passed.insert(words[i + 1]);
  std::vector<std::string> all{std::string(kInvitation) + "=" + invitation};
  for (char **one = environ; *one; ++one) {
    const std::string name(*one, strcspn(*one, "="));
    const auto begins = [&name](const char *prefix) { return name.rfind(prefix, 0) == 0; };
    const bool foreign = begins("OMPI_") || begins("PMIX_") || begins("PRTE_") || begins("CR_RANK_") || begins("REPRISE_") ||
                         name == "LD_PRELOAD" || name == kInvitation;
    if (!foreign || (passed.count(name) && name != kInvitation)) all.push_back(*one);
  }
  return all;
}

std::vector<char *> pointers(std::vector<std::string> &words) {
  std::vector<char *> all;
  for (std::string &word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Job::Job(const Hosts &hosts, const std::string &invitation) {
  std::vector<std::string> words = command(hosts), variables = environment(words, invitation);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&crrun_, words[0].c_str(), &actions, &attributes, pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!error) return;
  crrun_ = -1;
  throw Error(Code::spawn, words[0] + " cannot be started: " + strerror(error) + ": install Reprise on this node, or use CROFF_ENGINE=mpi");
}

bool Job::ended() {
  if (crrun_ < 0) return true;
  const pid_t who = waitpid(crrun_, nullptr, WNOHANG);
  if (who == 0 || (who < 0 && errno == EINTR)) return false;
  crrun_ = -1;
  return true;
}

void Job::roll_back() {
  if (!ended()) kill(crrun_, SIGUSR2);
}

void Job::end() {
  // ended() also tells whether the number is that of a child still.
  if (!ended()) kill(crrun_, SIGTERM);
  for (Idle idle(kSecondsAfterTerm); !ended() && !idle.over(); idle.wait()) {
  }
  if (!ended()) kill(crrun_, SIGKILL);
  while (!ended()) Idle().wait();
}

void Job::wait() {
  for (Idle idle(kSecondsToEnd); !ended() && !idle.over(); idle.wait()) {
  }
  end();
}

}  // namespace croff
