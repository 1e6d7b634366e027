// SPDX-License-Identifier: GPL-2.0-only
// Fuzzes the module's ioctls: see README.md.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <stdexcept>

#include "world.h"

namespace fuzz {

World* world;
Targets* targets;

namespace {

constexpr int kRoundPrograms = 16;
constexpr int kSoftMs = 200, kHardMs = 1500, kEndSeconds = 30;
int slowness = 1;  // factor on time limits, for slow kernels

struct Options {
  uint64_t seed = 1;
  int seconds = 60, times = 1;
  std::string corpus, regressions, replay, logs = "build/fuzz-module";
  std::vector<int> excluded;
  bool write = false, verbose = false, merge = false, check = false;
} options;

pid_t executors[kExecutors];
int record = -1;  // file with the programs of this round, written before they run

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

template <class T>
T* shared() {
  void* p = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::runtime_error("no memory to share");
  return static_cast<T*>(p);
}

void copy(const std::string& from, const std::string& to, mode_t mode) {
  std::string all = get_file(from);
  int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (all.empty() || fd < 0 || write(fd, all.data(), all.size()) != ssize_t(all.size()) || fchmod(fd, mode))
    throw std::runtime_error("cannot copy " + from + " to " + to + ": " + strerror(errno));
  close(fd);
}

void prepare() {
  world = shared<World>();
  targets = shared<Targets>();
  mkdir(kFolder, 0755);
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) throw std::runtime_error("no /proc");
  std::string here(self);
  here.resize(here.rfind('/'));
  const char* names[2] = {"/run/cr-fuzz/victim", "/run/cr-fuzz/victim-suid"};
  for (int i = 0; i < 2; i++) {
    copy(here + "/fuzz_victim", names[i], i ? 04755 : 0755);
    strcpy(targets->path[i], names[i]);
  }
  targets->argv[0] = targets->path[0];
  std::string content(64 * 4096, 'c');
  int fd = open((std::string(kFolder) + "/content").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, content.data(), content.size()) != ssize_t(content.size())) throw std::runtime_error("no room in /run");
  close(fd);

  put_file("/proc/sys/vm/unprivileged_userfaultfd", "1");
  put_file("/proc/sys/kernel/yama/ptrace_scope", "0");
  put_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids");
  mkdir(kCgroup, 0755);
  cgroup_write("cgroup.subtree_control", "+memory");
  cgroup_write("pids.max", "300");
  cgroup_write("memory.max", std::to_string(600 << 20));
  for (const char* part : {"/e", "/t0", "/t1", "/t2", "/t3"})
    if (mkdir((kCgroup + std::string(part)).c_str(), 0755) && errno != EEXIST) throw std::runtime_error("no cgroup v2 at /sys/fs/cgroup");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  module_load();
  if (access("/dev/cr", R_OK | W_OK)) throw std::runtime_error("no /dev/cr: the module is not there");
  for (auto& i : inbox)
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, i)) throw std::runtime_error("no sockets");
  mkdir(options.logs.c_str(), 0755);
}

// ------------------------------------------------------------------ one program

bool may_kill;  // an action of this round may have a target killed

bool is_deadly(const Action& a) {
  const Op& op = ops()[a.op];
  std::string name = op.name;
  if (name == "commit" || name == "raw_ioctl" || name == "poke" || name.starts_with("memory_")) return true;
  for (size_t i = 0; i < op.params.size(); i++) {
    if (name == "thaw" && i == 2 && a.arg[i]) return true;
    if (op.params[i].kind == Kind::kSignal && (a.arg[i] & 63) == SIGKILL) return true;
    if (op.params[i].kind == Kind::kCommand && (a.arg[i] == kLimit || a.arg[i] == kSeccomp)) return true;
    if (op.params[i].kind == Kind::kNr && a.arg[i] == SYS_prctl) return true;
  }
  return false;
}

void reap() {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (auto& e : executors)
      if (e == pid) e = 0;
    for (auto& t : targets->target)
      if (t.pid == pid) {
        t.pid = 0;
        if (!may_kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          violation("target %d was killed, and no action asked for that", int(&t - targets->target));
      }
  }
}

// Whether the last program has changed this target permanently.
bool is_changed(int number) {
  static const Command lasting[] = {kLimit, kUndumpable, kIoUring, kSeccomp, kUffdHeap, kUnshare};
  const Program& last = world->program;
  for (uint32_t i = 0; i < last.count; i++) {
    const Action& a = last.action[i];
    if (ops()[a.op].params.size() > 2 && ops()[a.op].params[2].kind == Kind::kCommand && int(a.arg[0] % kTargets) == number &&
        std::count(std::begin(lasting), std::end(lasting), Command(a.arg[2])))
      return true;
  }
  return false;
}

// Kill targets that do not answer (stopped, frozen, other program executed …) and replace them.
void replace_targets() {
  uint32_t seq[kTargets];
  bool answered = false;
  for (int i = 0; i < kTargets; i++) {
    Order& o = targets->target[i].order[0];
    o.command = kNop;
    seq[i] = ++o.seq;
    syscall(SYS_futex, &o.seq, FUTEX_WAKE, 100, nullptr, nullptr, 0);
  }
  auto answers = [&](int i) { return targets->target[i].pid <= 0 || targets->target[i].order[0].ack == seq[i]; };
  for (int n = 0; n < 15 && !answered; n++) {
    answered = true;
    for (int i = 0; i < kTargets; i++) answered &= answers(i);
    if (!answered) sleep_us(1000);
  }
  for (int i = 0; i < kTargets; i++) {
    auto& t = targets->target[i];
    if (t.pid <= 0 || (answers(i) && !is_changed(i))) continue;
    bool before = may_kill;
    may_kill = true;
    kill(t.pid, SIGKILL);
    // One look decides: the next one may find fewer threads in the list than it has counted just before.
    bool gone = false;
    for (double end = now() + slowness * kEndSeconds; !(gone = !t.pid || ended(t.pid)) && now() < end; sleep_us(500)) reap();
    may_kill = before;
    if (!gone) stuck(t.pid, "a killed target");
    t.pid = 0;  // otherwise a tracer would keep it until the end of the round
  }
}

void populate() {
  reap();
  replace_targets();
  for (int i = 0; i < kTargets; i++) {
    auto& t = targets->target[i];
    if (t.pid) continue;
    for (auto& tid : t.tid) tid = 0;
    for (auto& o : t.order) o.ack = o.seq.load();
    pid_t pid = fork();
    if (!pid) target(i);
    t.pid = pid < 0 ? 0 : pid;
  }
  for (auto& t : targets->target)
    for (int i = 0; i < 500 && t.pid && !t.tid[0]; i++) sleep_us(1000);
  for (int i = 0; i < kExecutors; i++) {
    if (executors[i]) continue;
    pid_t pid = fork();
    if (!pid) executor(i);
    executors[i] = pid < 0 ? 0 : pid;
  }
}

bool lane_is_done(int lane) { return !executors[executor_of(lane)] || world->lane[lane].done == world->generation; }

bool all_done() {
  for (int i = 0; i < kLanes; i++)
    if (!lane_is_done(i)) return false;
  return true;
}

// Kill executors that have not finished in time: they are inside the module, and must end then.
void kill_late() {
  for (int lane = 0; lane < kLanes; lane++)
    if (!lane_is_done(lane)) kill(executors[executor_of(lane)], SIGKILL);
  for (double end = now() + slowness * kEndSeconds; !all_done() && now() < end; sleep_us(2000)) reap();
  for (int lane = 0; lane < kLanes; lane++)
    if (!lane_is_done(lane)) stuck(executors[executor_of(lane)], "a killed requester");
}

void machine_as_before(const Program& p) {
  for (uint32_t i = 0; i < p.count; i++) {
    std::string name = ops()[p.action[i].op].name;
    if (name == "hotplug") put_file("/sys/devices/system/cpu/cpu1/online", "1");
    if (name == "memory_max") cgroup_write("e/memory.max", "max");
    for (int t = 0; t < kTargets; t++) {
      if (name == "memory_high") cgroup_write("t" + std::to_string(t) + "/memory.high", "max");
      if (name == "cgroup_freeze") cgroup_write("t" + std::to_string(t) + "/cgroup.freeze", "0");
    }
    if (name == "unload" || name == "load") module_load();
  }
}

void run(const Program& p) {
  populate();
  for (uint32_t i = 0; i < p.count; i++) may_kill |= is_deadly(p.action[i]);
  cover_clear();
  world->program = p;
  for (auto& f : world->flag) f = 0;
  for (auto& l : world->lane) std::fill(l.result, l.result + kMaxActions, kNotMade);
  world->generation++;
  syscall(SYS_futex, &world->generation, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  double begin = now(), nudge = begin + slowness * kSoftMs / 1e3;
  while (!all_done() && now() < begin + slowness * kHardMs / 1e3) {
    sleep_us(2000);
    reap();
    if (now() < nudge) continue;
    nudge = now() + 0.05;
    for (int lane = 0; lane < kLanes; lane++)
      if (!lane_is_done(lane)) syscall(SYS_tgkill, executors[executor_of(lane)], world->lane[lane].tid.load(), SIGUSR1);
  }
  kill_late();
  machine_as_before(p);
}

// ------------------------------------------------------------------ rounds

std::string record_name(const char* which) { return options.logs + "/" + which + ".txt"; }

void begin_round() {
  if (record >= 0) {
    close(record);
    rename(record_name("round").c_str(), record_name("round-before").c_str());
  }
  record = open(record_name("round").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

// @return the program without the excluded actions
Program allowed(Program p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p.count; i++)
    if (!std::count(options.excluded.begin(), options.excluded.end(), p.action[i].op)) p.action[n++] = p.action[i];
  p.count = n;
  return p;
}

void keep(const Program& p) {
  std::string text = print(p);
  if (record >= 0 && write(record, text.data(), text.size()) == ssize_t(text.size())) fsync(record);
}

// Print the results of the actions.
void tell(const Program& p) {
  std::string text = print(p);
  size_t at = text.find('\n') + 1;
  printf("program\n");
  for (uint32_t i = 0; i < p.count; i++) {
    size_t end = text.find('\n', at);
    int32_t r = world->lane[p.action[i].lane].result[i];
    std::string said = r == kNotMade      ? "not made"
                       : r == kCallFailed ? "the call failed"
                       : r == kThreadGone ? "the thread is gone"
                       : r < 0            ? strerrorname_np(-r)
                       : r                ? "ok, " + std::to_string(r)
                                          : "ok";
    printf("%s  # %s\n", text.substr(at, end - at).c_str(), said.c_str());
    at = end + 1;
  }
  fflush(stdout);
}

// Report a problem with its program, and keep the round.
bool problem(const Program* p) {
  std::string said = kernel_complaint();
  if (!said.empty()) violation("the kernel complained: %s", said.c_str());
  if (!world->violated) return false;
  for (int i = 0; i < 100 && world->violated < 2; i++) sleep_us(1000);
  std::string name = options.logs + "/found-" + std::to_string(options.seed) + "-" + std::to_string(time(nullptr)) + ".txt";
  rename(record_name("round").c_str(), name.c_str());
  printf("FOUND: %s\n", world->violation);
  if (p) printf("in or before\n%s", print(*p).c_str());
  printf("the round is in %s\n", name.c_str());
  fflush(stdout);
  return true;
}

bool end_round(int number) {
  may_kill = true;
  bool killed = cgroup_kill(slowness * kEndSeconds);
  std::fill(executors, executors + kExecutors, 0);
  for (auto& t : targets->target) t.pid = 0;
  for (auto& l : world->lane) l.done = world->generation.load();
  for (auto& i : inbox)  // descriptors that nobody has received
    for (int& fd : i) close(fd);
  for (auto& i : inbox)
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, i)) return false;
  if (!killed) return !problem(nullptr);
  module_idle();
  if (number % 4 == 0 && !world->violated) {
    if (!module_unload()) violation("an idle module cannot be unloaded: %s", strerror(errno));
    module_load();
  }
  if (!world->violated) module_works();
  module_idle();
  may_kill = false;
  return !problem(nullptr);
}

std::vector<Program> read_programs(const std::string& path) {
  std::vector<Program> all;
  struct stat st;
  if (path.empty()) return all;
  if (stat(path.c_str(), &st)) throw std::runtime_error(path + ": " + strerror(errno));
  std::vector<std::string> files;
  if (S_ISDIR(st.st_mode)) {
    DIR* d = opendir(path.c_str());
    while (dirent* e = d ? readdir(d) : nullptr)
      if (std::string(e->d_name).ends_with(".txt")) files.push_back(path + "/" + e->d_name);
    if (d) closedir(d);
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  for (const auto& f : files) try {
      auto more = parse(get_file(f));
      all.insert(all.end(), more.begin(), more.end());
    } catch (const std::runtime_error& e) {
      throw std::runtime_error(f + ": " + e.what());
    }
  return all;
}

void append(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text.data(), text.size()) != ssize_t(text.size())) perror(path.c_str());
  close(fd);
}

// Run the programs that `next` returns until there is none. @return false when a problem was found
template <class Next, class Through>
bool rounds(Next next, Through through) {
  Program p;
  bool more = next(p);
  for (int number = 1; more; number++) {
    begin_round();
    for (int i = 0; more && i < kRoundPrograms; i++) {
      p = allowed(p);
      keep(p);
      run(p);
      if (options.verbose) tell(p);
      through(p);
      if (problem(&p)) {
        cgroup_kill(slowness * kEndSeconds);
        return false;
      }
      more = next(p);
    }
    if (!end_round(number)) return false;
  }
  return true;
}

bool replay(const std::vector<Program>& list, int times) {
  size_t at = 0, all = list.size() * size_t(times);
  return rounds(
      [&](Program& p) {
        if (at == all) return false;
        p = list[at++ % list.size()];
        return true;
      },
      [](const Program&) {});
}

bool fuzz(std::vector<Program> corpus, bool guided) {
  Random random(options.seed);
  const double begin = now(), end = begin + options.seconds;
  size_t at = 0, count = 0, given = corpus.size();
  double said = begin;
  std::vector<Program> fresh;
  bool good = rounds(
      [&](Program& p) {
        if (at < given) p = corpus[at++];
        else if (options.merge) return false;
        else if (corpus.empty() || random.one_in(guided ? 4 : 2)) p = generate(random);
        else p = mutate(random, corpus[random.below(corpus.size())], corpus);
        return now() < end;
      },
      [&](const Program& p) {
        count++;
        size_t places = cover_new(), results = cover_results(p);
        if (places + results) {
          if (count > given) corpus.push_back(p);
          if (options.merge || count > given) fresh.push_back(p);
        }
        if (now() > said + 30) {
          said = now();
          printf("%.0f s: %zu programs, %zu marks, %zu in the corpus\n", said - begin, count, cover_total(), corpus.size());
          fflush(stdout);
        }
      });
  printf("%zu programs in %.0f s, %zu marks, %zu in the corpus, seed %llu\n", count, now() - begin, cover_total(), corpus.size(),
         (unsigned long long)options.seed);
  if (options.write && !options.corpus.empty())
    for (const Program& p : fresh) append(options.corpus + "/found.txt", print(p));
  if (good) module_leaks();
  return good && !problem(nullptr);
}

// A check that needs no module: programs survive being written and read.
bool self_check(std::vector<Program> list) {
  Random random(options.seed);
  for (int i = 0; i < 2000; i++) list.push_back(i % 2 ? generate(random) : mutate(random, list[random.below(list.size())], list));
  for (const Program& p : list) {
    auto again = parse(print(p));
    if (again.size() == 1 && print(again[0]) == print(p)) continue;
    printf("read differently than written:\n%s", print(p).c_str());
    return false;
  }
  printf("%zu programs written and read\n", list.size());
  return true;
}

int usage() {
  fputs(
      "usage: fuzz_module [-s SEED] [-t SECONDS] [-c CORPUS [-w | -m]] [-R REGRESSIONS] [-l LOGS] [-x ACTION]... [-v]\n"
      "       fuzz_module -r FILE [-n TIMES] [-l LOGS] [-v]\n"
      "       fuzz_module -p -c CORPUS [-R REGRESSIONS]    only parses them; needs no module\n"
      "  -c  a directory of initial programs; -w adds those with new coverage; -m only runs them and adds such\n"
      "  -R  a directory of programs that have found bugs: run first\n"
      "  -l  directory for the programs of the last two rounds and of findings\n"
      "  -x  leave this action out\n"
      "  -r  run the programs of a file, TIMES times\n",
      stderr);
  return 2;
}

int run_all(int argc, char** argv) {
  for (int o; (o = getopt(argc, argv, "s:t:c:r:R:n:l:x:wmvp")) != -1;) switch (o) {
      case 's': options.seed = strtoull(optarg, nullptr, 0); break;
      case 't': options.seconds = atoi(optarg); break;
      case 'c': options.corpus = optarg; break;
      case 'r': options.replay = optarg; break;
      case 'R': options.regressions = optarg; break;
      case 'n': options.times = atoi(optarg); break;
      case 'l': options.logs = optarg; break;
      case 'x':
        if (find_op(optarg) < 0) throw std::runtime_error("no such action: " + std::string(optarg));
        options.excluded.push_back(find_op(optarg));
        break;
      case 'w': options.write = true; break;
      case 'm': options.write = options.merge = true; break;
      case 'p': options.check = true; break;
      case 'v': options.verbose = true; break;
      default: return usage();
    }
  if (optind != argc) return usage();
  if (options.check) {
    auto all = read_programs(options.corpus), more = read_programs(options.regressions);
    all.insert(all.end(), more.begin(), more.end());
    return all.empty() || !self_check(all);
  }
  if (getuid()) throw std::runtime_error("needs root, in a machine to throw away");
  prepare();
  checks_begin();
  bool traced = cover_open();
  if (traced) slowness = 4;  // it is a debugging kernel
  printf("%s\n", traced ? "with coverage of the kernel" : "this kernel has no KCOV: guided by results alone");
  fflush(stdout);
  module_works();
  if (problem(nullptr)) {
    printf("0 passed, 1 failed\n");
    return 1;
  }
  if (!options.replay.empty()) {
    bool fine = replay(read_programs(options.replay), options.times);
    printf("%d passed, %d failed\n", fine, !fine);
    return !fine;
  }
  auto old = read_programs(options.regressions);
  bool good = replay(old, 1);
  if (good) printf("%zu programs that once found something: fine\n", old.size());
  fflush(stdout);
  if (good) good = fuzz(read_programs(options.corpus), traced);
  printf("%d passed, %d failed\n", good ? int(old.size()) + 1 : 0, !good);
  return !good;
}

}  // namespace
}  // namespace fuzz

int main(int argc, char** argv) {
  try {
    return fuzz::run_all(argc, argv);
  } catch (const std::exception& e) {
    fprintf(stderr, "fuzz_module: %s\n", e.what());
    return 2;
  }
}
