// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The table of kinds of open files, and what the functions in it work with. Each
 * kind lives in a file of its own; all it has to offer is declared here.
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

/** Where open files of the target come from: a session, or, in tests, the test itself. */
class Source {
 public:
  virtual ~Source() = default;
  virtual pid_t pid() const = 0;
  /** A descriptor of ours for the same open file description. Throws Error. */
  virtual UniqueFd get(int fd) = 0;
  /** One for the file that is mapped at @p addr; empty if there is none. */
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

/** While descriptors are saved. */
class Collector {
 public:
  Collector(Source& source, Process& image, std::vector<cr_fd> fds, bool save_deleted = true);

  /** Classify and save all of them; throws Error with every refusal. */
  void run();

  Source& source;
  Process& image;
  const std::vector<cr_fd> fds;
  const bool save_deleted;  ///< the content of files that have no name any more
  const OnBehalf behalf;    ///< of the process

  std::string fdinfo(int fd) const { return fdinfo_.read(std::to_string(fd)); }
  std::string link(int fd) const { return fd_dir_.link(std::to_string(fd)); }
  bool stat(int fd, struct ::stat& out) const { return fd_dir_.stat(std::to_string(fd), out); }
  /** Refuse to save: "descriptor 5: what". */
  void refuse(int fd, const std::string& what);

 private:
  void one(const cr_fd& fd, std::uint32_t index);
  void locks();

  ProcDir fd_dir_, fdinfo_;
  TargetPaths paths_;
  Refusals refusals_;
  std::map<std::uint32_t, int> number_;  // description -> its lowest number
};

/** While descriptors are brought back. */
class Restorer {
 public:
  Restorer(Source& source, const Process& image, const RestoreOptions& options, RestoreMode mode, OnBehalf behalf);

  Source& source;
  const Process& image;
  const RestoreOptions& options;
  const RestoreMode mode;
  OnBehalf behalf;
  NamelessFiles* nameless = nullptr;      ///< before the commit: makes what has no name

  std::vector<cr_fd> live;                ///< the target's table when it was frozen
  std::map<std::uint32_t, int> alive;     ///< description -> a number in the target
  std::vector<Decision> decisions;
  std::map<std::uint32_t, UniqueFd> made;  ///< by description
  std::map<std::uint32_t, UniqueFd> dups;  ///< ours for those that are alive
  std::vector<std::string> warnings;
  std::map<std::uint32_t, std::vector<LiveEntry>> epolls;  ///< what live epoll sets hold
  std::map<std::uint32_t, std::string> problems;           ///< what speaks against keeping a live one
  Remote* remote = nullptr;  ///< behind the commit
  std::optional<std::map<std::uint64_t, std::uint32_t>> unix_ends;  ///< Unix sockets that are inside, by inode
  int highest_stray = -1;  ///< highest number of an epoll entry that needs it in our table for a moment

  const Description& description(std::uint32_t index) const { return image.descriptions(static_cast<int>(index)); }
  Way way(std::uint32_t index) const { return decisions[index].way; }
  /** The lowest number under which the image's process knows it. */
  int number(std::uint32_t index) const { return numbers_.at(index); }
  /** A descriptor of ours for it, made or alive; -1 if there is none (yet). */
  int fd(std::uint32_t index);
  /** As fd; throws when there is none. */
  int must_fd(std::uint32_t index);
  /** What the kernel tells of a description that is alive. */
  std::string fdinfo(std::uint32_t index);
  /** stat of a description that is made or alive; @return false when there is none */
  bool stat(std::uint32_t index, struct ::stat& out);
  void warn(std::uint32_t index, const std::string& text);
  /** Throws Error naming the description, with strerror(code). */
  [[noreturn]] void fail(std::uint32_t index, const std::string& what, int code) const;

  /** Make what is to be made and is not yet. @p last: also what changes the system (binding a Unix path). */
  void make(std::uint32_t index, bool last);
  /** Is it only made after the commit? */
  bool made_after_commit(std::uint32_t index) const;
  std::set<std::uint32_t> bind_after_commit;  ///< beside those which always are
  /** Bring the state of a made or live description back: all but its epoll set and POSIX locks. */
  void restore_state(std::uint32_t index);

 private:
  std::optional<ProcDir> fdinfo_, fd_dir_;
  std::map<std::uint32_t, int> numbers_;  // description -> its lowest number
};

/** What a kind has to offer. Members may be null: nothing to do. */
struct KindOps {
  Description::Kind kind;
  /** Save what fd's description holds beyond flags, position and file. */
  void (*collect)(Collector&, const cr_fd&, Description&);
  /** Make one in our own process. May make others of its group, too. Throws Error. */
  void (*make)(Restorer&, std::uint32_t index);
  /** Bring the state of a live or made one back. */
  void (*restore_state)(Restorer&, std::uint32_t index);
  /** Make one whose other side is gone. */
  UniqueFd (*dead)(Restorer&, std::uint32_t index);
  bool seekable;
};

/** @return the kind's row; one without functions for an unknown kind */
const KindOps& kind_ops(Description::Kind kind);

/**
 * Open by path with the flags of the description and @p extra_flags, after checking that it is what it was.
 * @param access  instead of the description's O_ACCMODE; -1: that
 */
UniqueFd reopen_path(Restorer& restorer, std::uint32_t index, int extra_flags = 0, int access = -1);
/**
 * The process of a path below /proc, and its thread where it names one; 0 where the path names none. A process's own
 * files are shown by its pid, not as self.
 */
struct ProcPath {
  pid_t pid = 0, tid = 0;
};
ProcPath parse_proc_path(const std::string& path);
/** Another description of the same file, through /proc: @p flags as for open. */
UniqueFd reopen_fd(int fd, int flags);
/** Flags of a description that an open takes. */
int open_flags(const Description& description);

// deleted.cpp: what has lost its name
/** @param status  what stat tells of it now */
void collect_deleted(Collector&, const cr_fd&, Description&, const struct ::stat& status);
/** After all descriptors were saved: which files with other names are open under one of those. */
void finish_deleted(Collector&);
// files.cpp: regular files, directories, devices
void make_file(Restorer&, std::uint32_t);
/** Tell of, or cut back, files that have grown. */
void restore_file_state(Restorer&, std::uint32_t);
// pipes.cpp: pipes and FIFOs
void collect_pipe(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: which pipes are inside the process, and their content. */
void finish_pipes(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_pipe(Restorer&, std::uint32_t);
void restore_pipe_state(Restorer&, std::uint32_t);
UniqueFd dead_pipe(Restorer&, std::uint32_t);
// one file each
void collect_eventfd(Collector&, const cr_fd&, Description&);
void make_eventfd(Restorer&, std::uint32_t);
void restore_eventfd_state(Restorer&, std::uint32_t);
void collect_epoll(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: which of them each entry is of. */
void finish_epolls(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_epoll(Restorer&, std::uint32_t);
void collect_timerfd(Collector&, const cr_fd&, Description&);
/** After all descriptors were saved: which of those that seem not to be armed are only just due. */
void finish_timerfds(Collector&, const std::map<std::uint32_t, int>& numbers);
void make_timerfd(Restorer&, std::uint32_t);
void restore_timerfd_state(Restorer&, std::uint32_t);
void collect_signalfd(Collector&, const cr_fd&, Description&);
void make_signalfd(Restorer&, std::uint32_t);
void restore_signalfd_state(Restorer&, std::uint32_t);
void collect_inotify(Collector&, const cr_fd&, Description&);
void make_inotify(Restorer&, std::uint32_t);
void restore_inotify_state(Restorer&, std::uint32_t);
/** Has a live instance lost watches? Their numbers are only to be had in a new one. */
bool inotify_lost(const Description& description, const std::string& fdinfo);
void collect_terminal(Collector&, const cr_fd&, Description&);
void make_terminal(Restorer&, std::uint32_t);
void restore_terminal_state(Restorer&, std::uint32_t);
/** What takes the place of terminal @p number in a restart. */
UniqueFd own_terminal(Restorer&, int number, const Description& description);
/** If that is a terminal: the settings of the image, where they tell how a program is typed to. */
void restore_own_terminal_state(Restorer&, int fd, const Description& description);
void collect_memfd(Collector&, const cr_fd&, Description&);
void make_memfd(Restorer&, std::uint32_t);
void restore_memfd_state(Restorer&, std::uint32_t);
void collect_pidfd(Collector&, const cr_fd&, Description&);
void make_pidfd(Restorer&, std::uint32_t);
// sockets.cpp, socket_make.cpp
void collect_socket(Collector&, const cr_fd&, Description&);
/** The address to which it will be bound, after relocation. */
std::string socket_address(const Restorer&, const Socket&);
void make_socket(Restorer&, std::uint32_t);
void restore_socket_state(Restorer&, std::uint32_t);
UniqueFd dead_socket(Restorer&, std::uint32_t);
/** Set the options of a new one; report what cannot be set. Throws Error where the socket must not be without it. */
void set_options(Restorer&, std::uint32_t, int fd, SetWhen when);
/** Would that throw? "" or why. */
std::string options_problem(const Restorer&, std::uint32_t);
/** Bind a new one as the image says. @return 0 or errno */
int bind_socket(Restorer&, int fd, const Socket&);
// kernel_tls.cpp: what TCP has above it in the kernel
void collect_ulp(int fd, Socket&);
/** Connections whose keys are not those of the checkpoint. @return those that must be given back dead */
std::set<std::uint32_t> look_at_ulps(Restorer&);
// unix_pairs.cpp: Unix sockets whose two ends are both the process's own
/** After all descriptors were saved: which are, and what is in their queues. */
void finish_unix_pairs(Collector&, const std::map<std::uint32_t, int>& numbers);
/** @return those that must be made anew though they live: their other end is gone, or they are shut down since */
std::set<std::uint32_t> look_at_unix_pairs(Restorer&);
/** Both ends at once. */
void make_unix_pair(Restorer&, std::uint32_t);
/** Put back what was to be read from it. */
void restore_unix_pair_state(Restorer&, std::uint32_t);

// epoll.cpp: sets are brought back by calls of the target, when every descriptor is in its place.
/**
 * What the live ones hold, into Restorer::epolls. @return those that must be made anew though they live
 * @param replaced  of other kinds: the same
 */
std::set<std::uint32_t> look_at_epolls(Restorer&, const std::set<std::uint32_t>& replaced);
/** Take entries of live sets out that the image does not have, while their descriptors are still there. */
void prune_epolls(Restorer&, Remote&);
/**
 * @param table  the target's descriptors as they are now
 * @param moved  they are not those that look_at_epolls() saw
 */
void restore_epolls(Restorer&, Remote&, std::span<const cr_fd> table, bool moved);

// locks.cpp
/** Refuse locks that somebody else holds now. */
void check_locks(Restorer&, Refusals&);
void restore_locks(Restorer&, Remote&);

}  // namespace reprise
