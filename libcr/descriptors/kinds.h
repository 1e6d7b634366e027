// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The table of kinds of open files, and the state that its functions work on. Each kind has a source file of its own;
 * their functions are declared here.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/proc_dir.h"
#include "base/unique_fd.h"
#include "cr.h"
#include "descriptors/choose_method.h"
#include "descriptors/plan.h"
#include "descriptors/socket_options.h"
#include "image/state.pb.h"
#include "restore/on_behalf.h"
#include "restore/target_paths.h"
#include "restore/options.h"

namespace reprise {

class NamelessFiles;
class Remote;
class Session;

/** Gives access to open files of the target: through a session or, in tests, in the test process itself. */
class Source {
 public:
  virtual ~Source() = default;
  virtual pid_t pid() const = 0;
  /** @return a descriptor of ours for the same open file description. Throws Error. */
  virtual UniqueFd get(int fd) = 0;
  /** @return a descriptor of ours for the file mapped at @p addr; empty if there is none */
  virtual UniqueFd get_mapping(std::uint64_t addr) = 0;
};

/** A source that is a session. */
class SessionSource : public Source {
 public:
  explicit SessionSource(Session& session) : session_(session) {}
  pid_t pid() const override;
  UniqueFd get(int fd) override;
  UniqueFd get_mapping(std::uint64_t addr) override;

 private:
  Session& session_;
};

/** State while descriptors are saved. */
class Collector {
 public:
  Collector(Source& source, Process& image, std::vector<cr_fd> fds, bool save_deleted = true);

  /** Classify and save all of them. Throws Error (refused) listing every refusal. */
  void run();

  Source& source;
  Process& image;
  const std::vector<cr_fd> fds;
  const bool save_deleted;  ///< save the content of deleted files
  const OnBehalf behalf;    ///< opens files with the rights of the process

  std::string fdinfo(int fd) const { return fdinfo_.read(std::to_string(fd)); }
  std::string link(int fd) const { return fd_dir_.link(std::to_string(fd)); }
  bool stat(int fd, struct ::stat& out) const { return fd_dir_.stat(std::to_string(fd), out); }
  /** Record a refusal: "descriptor 5: what". */
  void refuse(int fd, const std::string& what);

 private:
  void one(const cr_fd& fd, std::uint32_t index);
  void locks();

  ProcDir fd_dir_, fdinfo_;
  TargetPaths paths_;
  Refusals refusals_;
  std::map<std::uint32_t, int> number_;  // description -> its lowest number
};

/** State while descriptors are restored. */
class Restorer {
 public:
  Restorer(Source& source, const Process& image, const RestoreOptions& options, RestoreMode mode, OnBehalf behalf);

  Source& source;
  const Process& image;
  const RestoreOptions& options;
  const RestoreMode mode;
  OnBehalf behalf;
  NamelessFiles* nameless = nullptr;      ///< recreates deleted files and memfds; set before the commit only

  std::vector<cr_fd> live;                ///< the target's descriptor table when it was frozen
  std::map<std::uint32_t, int> alive;     ///< description -> a descriptor of the target
  std::vector<Decision> decisions;
  std::map<std::uint32_t, UniqueFd> made;  ///< by description
  std::map<std::uint32_t, UniqueFd> dups;  ///< our duplicates of live ones, by description
  std::vector<std::string> warnings;
  std::map<std::uint32_t, std::vector<LiveEntry>> epolls;  ///< entries of live epoll sets
  std::map<std::uint32_t, std::string> problems;           ///< why a live one cannot be kept
  Remote* remote = nullptr;  ///< set after the commit only
  std::optional<std::map<std::uint64_t, std::uint32_t>> unix_ends;  ///< Unix sockets of inside pairs, by inode
  int highest_stray = -1;  ///< highest epoll entry number that our descriptor table needs temporarily

  const Description& description(std::uint32_t index) const { return image.descriptions(static_cast<int>(index)); }
  Way way(std::uint32_t index) const { return decisions[index].way; }
  /** @return the lowest descriptor of the image that refers to it */
  int number(std::uint32_t index) const { return numbers_.at(index); }
  /** @return a descriptor of ours for it, made or alive; -1 if there is none (yet) */
  int fd(std::uint32_t index);
  /** As fd(); throws Error if there is none. */
  int must_fd(std::uint32_t index);
  /** @return the text of /proc/PID/fdinfo for a live description */
  std::string fdinfo(std::uint32_t index);
  /** fstat a made or live description. @return false if there is none */
  bool stat(std::uint32_t index, struct ::stat& out);
  void warn(std::uint32_t index, const std::string& text);
  /** Throws Error naming the description, with strerror(code). */
  [[noreturn]] void fail(std::uint32_t index, const std::string& what, int code) const;

  /**
   * Make a description unless it exists already.
   * @param last  also make those for which made_after_commit() holds
   */
  void make(std::uint32_t index, bool last);
  /** Must it be made after the commit, because that changes the system or needs calls of the target? */
  bool made_after_commit(std::uint32_t index) const;
  std::set<std::uint32_t> bind_after_commit;  ///< additional descriptions for made_after_commit()
  /** Restore the state of a made or live description, except epoll entries and locks. */
  void restore_state(std::uint32_t index);

 private:
  std::optional<ProcDir> fdinfo_, fd_dir_;
  std::map<std::uint32_t, int> numbers_;  // description -> its lowest number
};

/** What a rollback has to do for a kind when the module says that no descriptor has changed (CR_AREA_DESCRIPTORS). */
enum class Stays {
  as_it_is,  ///< nothing: the module has compared all there is, or a pause leaves the rest as it is
  content,   ///< restore_state, unless the content has not changed either (CR_AREA_CONTENT)
  entries,   ///< as compared, unless the content has not changed either
  restored,  ///< restore_state
  compared,  ///< compare it with the image, and with other descriptors: nothing is known of it
};

/** The functions of a kind. Null: nothing to do. */
struct KindOps {
  Description::Kind kind;
  /** Save the state of a description beyond its flags, offset and file. */
  void (*collect)(Collector&, const cr_fd&, Description&);
  /** Make one in our own process. May also make others, such as the other end of a pipe. Throws Error. */
  void (*make)(Restorer&, std::uint32_t index);
  /** Restore the state of a live or made one. */
  void (*restore_state)(Restorer&, std::uint32_t index);
  /** Make one whose other end is closed. */
  UniqueFd (*dead)(Restorer&, std::uint32_t index);
  bool seekable;
  Stays stays;
};

/** @return what to do for this one */
Stays stays(const Description& description);

/** @return the row of @p kind; a row without functions for an unknown kind */
const KindOps& kind_ops(Description::Kind kind);

/**
 * Open by path with the flags of the description and @p extra_flags, after a check that it is the same kind of file.
 * Throws Error (refused).
 * @param access  access mode; -1: that of the description
 */
UniqueFd reopen_path(Restorer& restorer, std::uint32_t index, int extra_flags = 0, int access = -1);
/**
 * The pid and tid in a path below /proc; 0 if it has none. The kernel shows a process's own files by pid, not as
 * /proc/self.
 */
struct ProcPath {
  pid_t pid = 0, tid = 0;
};
ProcPath parse_proc_path(const std::string& path);
/** Open the file of @p fd again through /proc/self/fd, with @p flags for open(2). @return empty with errno on errors */
UniqueFd reopen_fd(int fd, int flags);
/** @return the saved flags of a description that are passed to open(2) again */
int open_flags(const Description& description);

// deleted.cpp: deleted files
/** @param status  the file's current stat */
void collect_deleted(Collector&, const cr_fd&, Description&, const struct ::stat& status);
/** After all descriptors were saved: replace deleted names by another hard link under which the file is also open. */
void finish_deleted(Collector&);
// files.cpp: regular files, directories, devices
void make_file(Restorer&, std::uint32_t);
/** Truncate files that have grown (--rewind-files); warn about other changes of size or mtime. */
void restore_file_state(Restorer&, std::uint32_t);
// pipes.cpp: pipes and FIFOs
void collect_pipe(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: find the pipes with both ends in the process, and save their content. */
void finish_pipes(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_pipe(Restorer&, std::uint32_t);
void restore_pipe_state(Restorer&, std::uint32_t);
UniqueFd dead_pipe(Restorer&, std::uint32_t);
// kinds with one source file each
void collect_eventfd(Collector&, const cr_fd&, Description&);
void make_eventfd(Restorer&, std::uint32_t);
void restore_eventfd_state(Restorer&, std::uint32_t);
void collect_epoll(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: find the description of each entry. */
void finish_epolls(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_epoll(Restorer&, std::uint32_t);
void collect_timerfd(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: find the timers that look disarmed but have just expired. */
void finish_timerfds(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_timerfd(Restorer&, std::uint32_t);
void restore_timerfd_state(Restorer&, std::uint32_t);
void collect_signalfd(Collector&, const cr_fd&, Description&);
void make_signalfd(Restorer&, std::uint32_t);
void restore_signalfd_state(Restorer&, std::uint32_t);
void collect_inotify(Collector&, const cr_fd&, Description&);
void make_inotify(Restorer&, std::uint32_t);
void restore_inotify_state(Restorer&, std::uint32_t);
/** Has a live instance lost watches? Only a new instance can assign their numbers again. */
bool inotify_lost(const Description& description, const std::string& fdinfo);
void collect_terminal(Collector&, const cr_fd&, Description&);
void make_terminal(Restorer&, std::uint32_t);
void restore_terminal_state(Restorer&, std::uint32_t);
/** @return what replaces terminal @p number in a restart: our own standard descriptor or terminal */
UniqueFd own_terminal(Restorer&, int number, const Description& description);
/** If @p fd is a terminal: set the image's terminal settings that concern input. */
void restore_own_terminal_state(Restorer&, int fd, const Description& description);
void collect_memfd(Collector&, const cr_fd&, Description&);
void make_memfd(Restorer&, std::uint32_t);
void restore_memfd_state(Restorer&, std::uint32_t);
void collect_pidfd(Collector&, const cr_fd&, Description&);
void make_pidfd(Restorer&, std::uint32_t);
// sockets.cpp, socket_make.cpp
void collect_socket(Collector&, const cr_fd&, Description&);
/** @return the address to bind it to, after relocation */
std::string socket_address(const Restorer&, const Socket&);
void make_socket(Restorer&, std::uint32_t);
void restore_socket_state(Restorer&, std::uint32_t);
UniqueFd dead_socket(Restorer&, std::uint32_t);
/** Set the options of a new socket; warn about those that fail. Throws Error if a mandatory one fails. */
void set_options(Restorer&, std::uint32_t, int fd, SetWhen when);
/** @return why set_options() would throw, "" if it would not */
std::string options_problem(const Restorer&, std::uint32_t);
/** Bind a new one to the saved address. @return 0 or errno */
int bind_socket(Restorer&, int fd, const Socket&);
// kernel_tls.cpp: upper layer protocols of TCP (TCP_ULP)
void collect_ulp(int fd, Socket&);
/** Find connections whose TLS keys differ from the checkpoint's. @return those to be restored dead */
std::set<std::uint32_t> look_at_ulps(Restorer&);
// unix_pairs.cpp: connected Unix sockets of which the process has both ends
/** After all descriptors were saved: find them, and save their queues. */
void finish_unix_pairs(Collector&, const std::map<std::uint32_t, int>& numbers);
/** @return live ones that must be made anew: their other end was closed, or they were shut down since */
std::set<std::uint32_t> look_at_unix_pairs(Restorer&);
/** Make both ends. */
void make_unix_pair(Restorer&, std::uint32_t);
/** Restore the receive queue. */
void restore_unix_pair_state(Restorer&, std::uint32_t);

// epoll.cpp: sets are restored by calls of the target, when every descriptor has its number.
/**
 * Read the entries of live sets into Restorer::epolls.
 * @param replaced  descriptions of other kinds that are made anew although they live
 * @return the same for epoll sets
 */
std::set<std::uint32_t> look_at_epolls(Restorer&, const std::set<std::uint32_t>& replaced);
/** Remove entries of live sets that the image does not have, while their files are still open. */
void prune_epolls(Restorer&, Remote&);
/**
 * @param table  the target's current descriptors
 * @param moved  they have changed since look_at_epolls()
 */
void restore_epolls(Restorer&, Remote&, std::span<const cr_fd> table, bool moved);

// locks.cpp
/** Add refusals for locks that another process holds now. */
void check_locks(Restorer&, Refusals&);
void restore_locks(Restorer&, Remote&);

}  // namespace reprise
