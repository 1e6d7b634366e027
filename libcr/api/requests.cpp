// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "api/agent.h"
#include "api/agent_device.h"
#include "api/channel.h"
#include "api/errors.h"
#include "api/serving.h"
#include "api/targets.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

constexpr int kLastSignal = 64;

bool open_descriptor(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/** @return the scope as a number: an unset one (-1) is no value of the enumeration */
int scope_of(const cr_checkpoint_args_t& args) {
  int scope;
  static_assert(sizeof scope == sizeof args.cr_scope);
  std::memcpy(&scope, &args.cr_scope, sizeof scope);
  return scope;
}

/** Arguments that have grown since BLCR's, which are version 1. */
template <class Args, cr_version_t newest>
struct Grown {
  std::size_t older[newest - 1];  ///< bytes of each version before the newest

  /** @return bytes of the arguments of @p version; 0: unknown */
  std::size_t size(cr_version_t version) const {
    if (version < 1 || version > newest) return 0;
    return version == newest ? sizeof(Args) : older[version - 1];
  }
  /** Set all to 0, and the version. @return false: it is unknown */
  bool init(cr_version_t version, Args* args) const {
    if (size(version) == 0) return false;
    std::memset(args, 0, size(version));
    args->cr_version = version;
    return true;
  }
  /** Copy @p given to @p all, which has 0 for what its version lacks. @return false: its version is unknown */
  bool copy(const Args& given, Args& all) const {
    if (size(given.cr_version) == 0) return false;
    all = {};
    std::memcpy(&all, &given, size(given.cr_version));
    return true;
  }
};
constexpr Grown<cr_checkpoint_args_t, CR_CHECKPOINT_ARGS_VERSION> kCheckpointArgs{{offsetof(cr_checkpoint_args_t, cr_parent)}};
constexpr Grown<cr_restart_args_t, CR_RESTART_ARGS_VERSION> kRestartArgs{
    {offsetof(cr_restart_args_t, cr_fds), offsetof(cr_restart_args_t, cr_kept)}};

/** @return what is wrong with the descriptors to replace; nullptr: nothing. Sets @p err. */
const char* wrong_fds(const cr_restart_args_t& args, int& err) {
  err = EINVAL;
  if (args.cr_fds == nullptr) return nullptr;
  if (args.cr_fds->count > CR_MAX_RSTRT_FDS) return "more than CR_MAX_RSTRT_FDS descriptors to replace";
  for (unsigned i = 0; i < args.cr_fds->count; ++i) {
    const cr_rstrt_fd& one = args.cr_fds->fd[i];
    if (one.copy > args.cr_copies) return "a descriptor is for a copy that is not asked for";
    if (one.fd < 0) return "a descriptor to replace has a negative number";
    err = EBADF;
    if (!open_descriptor(one.with)) return "a descriptor that is to replace one is not open";
    err = EINVAL;
  }
  return nullptr;
}

/** @return what is wrong with the kept memory to give; nullptr: nothing. Sets @p err. */
const char* wrong_kept(const cr_restart_args_t& args, int& err) {
  err = EINVAL;
  if (args.cr_kept == nullptr) return nullptr;
  if (args.cr_kept->count > CR_MAX_RSTRT_KEPT) return "more than CR_MAX_RSTRT_KEPT pieces of kept memory";
  for (unsigned i = 0; i < args.cr_kept->count; ++i) {
    const cr_rstrt_kept_one& one = args.cr_kept->memory[i];
    if (one.name == nullptr || *one.name == '\0') return "kept memory has no name";
    err = EBADF;
    if (!open_descriptor(one.with)) return "a descriptor of kept memory is not open";
    err = EINVAL;
  }
  return nullptr;
}

bool in_callback() {
  const ThreadState* state = self();
  return state != nullptr && state->chain != nullptr;
}

constexpr unsigned kRestartOneOf = CR_RSTRT_KEEP_SHARED | CR_RSTRT_RESTORE_SHARED;
constexpr char kOneOf[] = "shared memory cannot be both kept and restored";
constexpr unsigned kPauseOneOf = CR_PAUSE_KEEP_SHARED | CR_PAUSE_RESTORE_SHARED;

bool valid_signal(int signal) { return signal >= -kLastSignal && signal <= kLastSignal; }

/** Check that the module is loaded, before the start of a helper. @return 0, or -1 with errno ENOSYS */
int check_module() {
  return device::present() ? 0 : fail(ENOSYS, "the kernel module is not loaded (no /dev/cr)");
}

/**
 * Wait until the target of a request is notified of it.
 * @param later  report an error that comes before that only in cr_reap_…()
 * @return 0 with *handle set, or -1 with errno
 */
int finish_request(Channel* channel, unsigned long* handle, bool later) {
  if (channel == nullptr) return -1;
  channel->wait_started();
  if (!later && channel->refused()) {
    const int err = channel->error();
    channel->close();
    errno = err;
    return -1;
  }
  *handle = channel->handle();
  return 0;
}

/** These functions are shared by all kinds of requests. */
int wait_for(Channel::Kind kind, const unsigned long* handle, timeval* timeout) {
  Channel* channel = Channel::find(kind, *handle);
  return channel == nullptr ? -1 : channel->wait(timeout);
}

int log_of(Channel::Kind kind, const unsigned long* handle, unsigned len, char* msg) {
  const Channel* channel = Channel::find(kind, *handle);
  return channel == nullptr ? -1 : channel->copy_log(msg, len);
}

/** @return the channel of a request that has ended; nullptr with errno EINVAL, EAGAIN */
Channel* ended(Channel::Kind kind, const unsigned long* handle) {
  Channel* channel = Channel::find(kind, *handle);
  timeval none{0, 0};
  if (channel == nullptr || channel->wait(&none) != 0) return channel;
  fail(EAGAIN, "the request has not ended yet");
  return nullptr;
}

int reap(Channel::Kind kind, unsigned long* handle) {
  Channel* channel = ended(kind, handle);
  if (channel == nullptr) return -1;
  const int err = channel->error();
  const auto value = err == 0 ? static_cast<int>(channel->value()) : -1;
  channel->close();
  *handle = ~0UL;
  if (err != 0) {
    errno = err;
    return -1;
  }
  return value > 0 ? value : 1;
}

int poll(Channel::Kind kind, unsigned long* handle, timeval* timeout, char** msg) {
  const int done = wait_for(kind, handle, timeout);
  if (done <= 0) return done == 0 ? 0 : CR_POLL_CHKPT_ERR_PRE;
  if (msg != nullptr) {
    *msg = nullptr;
    const int size = log_of(kind, handle, 0, nullptr);
    if (size > 0) {
      *msg = static_cast<char*>(std::malloc(static_cast<std::size_t>(size)));
      if (*msg == nullptr) {
        errno = ENOMEM;
        return CR_POLL_CHKPT_ERR_LOG;
      }
      log_of(kind, handle, static_cast<unsigned>(size), *msg);
    }
  }
  const int value = reap(kind, handle);
  return value < 0 ? CR_POLL_CHKPT_ERR_POST : value;
}

static_assert(CR_POLL_CHKPT_ERR_PRE == CR_POLL_RSTRT_ERR_PRE && CR_POLL_CHKPT_ERR_PRE == CR_POLL_PAUSE_ERR_PRE);
static_assert(CR_POLL_CHKPT_ERR_POST == CR_POLL_RSTRT_ERR_POST && CR_POLL_CHKPT_ERR_POST == CR_POLL_PAUSE_ERR_POST);
static_assert(CR_POLL_CHKPT_ERR_LOG == CR_POLL_RSTRT_ERR_LOG && CR_POLL_CHKPT_ERR_LOG == CR_POLL_PAUSE_ERR_LOG);

constexpr auto kCheckpoint = Channel::Kind::checkpoint;
constexpr auto kRestart = Channel::Kind::restart;
constexpr auto kPause = Channel::Kind::pause;

}  // namespace
}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

int cri_init_checkpoint_args_t(cr_version_t version, cr_checkpoint_args_t* args) {
  if (!kCheckpointArgs.init(version, args)) return fail(EINVAL);
  const int unset = -1;
  std::memcpy(&args->cr_scope, &unset, sizeof unset);  // must be set
  args->cr_fd = -1;                                    // likewise
  return 0;
}

int cri_init_restart_args_t(cr_version_t version, cr_restart_args_t* args) {
  if (!kRestartArgs.init(version, args)) return fail(EINVAL);
  args->cr_fd = -1;
  args->cr_flags = CR_RSTRT_RESTORE_PID;
  return 0;
}

int cri_init_pause_args_t(cr_version_t version, cr_pause_args_t* args) {
  if (version != CR_PAUSE_ARGS_VERSION) return fail(EINVAL);
  *args = {};
  args->cr_version = version;
  args->cr_fd = -1;
  return 0;
}

int cr_request_checkpoint(cr_checkpoint_args_t* given, cr_checkpoint_handle_t* handle) {
  clear_error();
  cr_checkpoint_args_t all;
  if (!kCheckpointArgs.copy(*given, all)) return fail(EINVAL, "call cr_initialize_checkpoint_args_t() first");
  const cr_checkpoint_args_t* const args = &all;
  if ((args->cr_flags & CR_CHKPT_DELTA) != 0 && args->cr_parent == nullptr)
    return fail(EINVAL, "CR_CHKPT_DELTA needs cr_parent");
  if (!valid_scope(scope_of(*args))) return fail(EINVAL, "cr_scope is not one of CR_SCOPE_*");
  if (!valid_signal(args->cr_signal)) return fail(EINVAL, "cr_signal is not a signal number");
  if (args->cr_fd != CR_DEST_CWD && !open_descriptor(args->cr_fd)) return fail(EBADF, "cr_fd is not open");
  Target target;
  if (const int err = target.find(args->cr_scope, args->cr_target); err != 0) return fail(err);
  if (target.includes_self() && (args->cr_flags & CR_CHKPT_PROHIBIT_SELF) != 0) return fail(EDEADLK);
  if (check_module() != 0) return -1;
  // A callback must not request a checkpoint of its own process.
  if (target.includes_self() && in_callback()) return fail(EBUSY, "callbacks of another request are running");
  // Only the agent can detect that this process was restarted.
  if (target.includes_self())
    if (const int err = agent_ensure(); err != 0) return fail(err);

  Channel::Start start{kCheckpoint, {}};
  start.order.command = Command::checkpoint;
  start.order.target = target.id();
  start.order.scope = args->cr_scope;
  start.order.signal = args->cr_signal;
  start.order.timeout_s = args->cr_timeout;
  start.order.flags = args->cr_flags;
  start.target_mem = target.mem();
  start.saves_self = target.includes_self();
  start.parent = args->cr_parent;
  start.compress = args->cr_compress;
  if (args->cr_fd == CR_DEST_CWD)
    start.path = "";
  else
    start.image = args->cr_fd;
  const std::uint32_t heard = g_serving.heard.load();
  Channel* channel = Channel::open(start);
  if (finish_request(channel, handle, (args->cr_flags & CR_CHKPT_ASYNC_ERR) != 0) != 0) return -1;
  // The module has notified our agent; wait until the agent thread has run and seen it.
  if (target.id() == getpid() && start.saves_self) channel->wait_heard(g_serving.heard, heard);
  return 0;
}

int cr_wait_checkpoint(cr_checkpoint_handle_t* handle, struct timeval* timeout) {
  return wait_for(kCheckpoint, handle, timeout);
}
int cr_log_checkpoint(cr_checkpoint_handle_t* handle, unsigned int len, char* msg) {
  return log_of(kCheckpoint, handle, len, msg);
}
int cr_reap_checkpoint(cr_checkpoint_handle_t* handle) { return reap(kCheckpoint, handle); }
int cr_poll_checkpoint_msg(cr_checkpoint_handle_t* handle, struct timeval* timeout, char** msg) {
  return poll(kCheckpoint, handle, timeout, msg);
}
int cr_poll_checkpoint(cr_checkpoint_handle_t* handle, struct timeval* timeout) {
  return poll(kCheckpoint, handle, timeout, nullptr);
}

int cr_request_restart(cr_restart_args_t* given, cr_restart_handle_t* handle) {
  clear_error();
  cr_restart_args_t all;
  if (!kRestartArgs.copy(*given, all)) return fail(EINVAL, "call cr_initialize_restart_args_t() first");
  const cr_restart_args_t* const args = &all;
  if ((args->cr_flags & kRestartOneOf) == kRestartOneOf) return fail(EINVAL, kOneOf);
  if (!valid_signal(args->cr_signal)) return fail(EINVAL, "cr_signal is not a signal number");
  if (args->cr_relocate != nullptr && args->cr_relocate->count > CR_MAX_RSTRT_RELOC)
    return fail(EINVAL, "more than CR_MAX_RSTRT_RELOC relocations");
  if (args->cr_copies > CR_MAX_RSTRT_COPIES) return fail(EINVAL, "more than CR_MAX_RSTRT_COPIES copies");
  const bool same_ids = (args->cr_flags & CR_RSTRT_RESTORE_PID) != 0, space = (args->cr_flags & CR_RSTRT_PID_NAMESPACE) != 0;
  if (args->cr_copies != 0 && same_ids && !space)
    return fail(EINVAL, "copies cannot have the same ids: clear CR_RSTRT_RESTORE_PID, or set CR_RSTRT_PID_NAMESPACE");
  if (space && !same_ids) return fail(EINVAL, "CR_RSTRT_PID_NAMESPACE needs CR_RSTRT_RESTORE_PID");
  int err = 0;
  if (const char* wrong = wrong_fds(*args, err); wrong != nullptr) return fail(err, wrong);
  if (const char* wrong = wrong_kept(*args, err); wrong != nullptr) return fail(err, wrong);
  if (!open_descriptor(args->cr_fd)) return fail(EBADF, "cr_fd is not open");
  if (check_module() != 0) return -1;

  Channel::Start start{kRestart, {}};
  start.order.command = Command::restart;
  start.order.signal = args->cr_signal;
  start.order.flags = args->cr_flags;
  start.order.relocations = args->cr_relocate == nullptr ? 0 : args->cr_relocate->count;
  start.image = args->cr_fd;
  start.relocate = args->cr_relocate;
  start.order.copies = space && args->cr_copies == 0 ? 1 : args->cr_copies;
  start.order.several = args->cr_copies != 0;
  start.order.substitutes = args->cr_fds == nullptr ? 0 : args->cr_fds->count;
  start.fds = args->cr_fds;
  start.order.kept = args->cr_kept == nullptr ? 0 : args->cr_kept->count;
  start.kept = args->cr_kept;
  return finish_request(Channel::open(start), handle, (args->cr_flags & CR_RSTRT_ASYNC_ERR) != 0);
}

int cr_wait_restart(cr_restart_handle_t* handle, struct timeval* timeout) {
  return wait_for(kRestart, handle, timeout);
}
int cr_log_restart(cr_restart_handle_t* handle, unsigned int len, char* msg) {
  return log_of(kRestart, handle, len, msg);
}
int cr_reap_restart(cr_restart_handle_t* handle) { return reap(kRestart, handle); }
int cr_restart_pids(cr_restart_handle_t* handle, pid_t* pids, unsigned int len) {
  Channel* channel = ended(kRestart, handle);
  if (channel == nullptr) return -1;
  if (const int err = channel->error(); err != 0) {
    errno = err;
    return -1;
  }
  return static_cast<int>(channel->copy_pids(pids, len));
}
int cr_poll_restart_msg(cr_restart_handle_t* handle, struct timeval* timeout, char** msg) {
  return poll(kRestart, handle, timeout, msg);
}
int cr_poll_restart(cr_restart_handle_t* handle, struct timeval* timeout) {
  return poll(kRestart, handle, timeout, nullptr);
}

int cr_request_pause(cr_pause_args_t* args, cr_pause_handle_t* handle) {
  clear_error();
  if (args->cr_version != CR_PAUSE_ARGS_VERSION) return fail(EINVAL, "call cr_initialize_pause_args_t() first");
  if ((args->cr_flags & kPauseOneOf) == kPauseOneOf) return fail(EINVAL, kOneOf);
  if (!valid_signal(args->cr_signal)) return fail(EINVAL, "cr_signal is not a signal number");
  if (!open_descriptor(args->cr_fd)) return fail(EBADF, "cr_fd is not open");
  Target target;
  if (const int err = target.find(CR_SCOPE_PROC, args->cr_target); err != 0) return fail(err);
  if (check_module() != 0) return -1;

  Channel::Start start{kPause, {}};
  start.order.command = Command::pause;
  start.order.target = target.id();
  start.order.signal = args->cr_signal;
  start.order.timeout_s = args->cr_timeout;
  start.order.flags = args->cr_flags;
  start.target_mem = target.mem();
  start.image = args->cr_fd;
  Channel* channel = Channel::open(start);
  if (channel == nullptr) return -1;
  *handle = channel->handle();
  return 0;
}

int cr_wait_pause(cr_pause_handle_t* handle, struct timeval* timeout) { return wait_for(kPause, handle, timeout); }
int cr_log_pause(cr_pause_handle_t* handle, unsigned int len, char* msg) { return log_of(kPause, handle, len, msg); }
int cr_reap_pause(cr_pause_handle_t* handle) { return reap(kPause, handle); }
int cr_poll_pause_msg(cr_pause_handle_t* handle, struct timeval* timeout, char** msg) {
  return poll(kPause, handle, timeout, msg);
}
int cr_poll_pause(cr_pause_handle_t* handle, struct timeval* timeout) { return poll(kPause, handle, timeout, nullptr); }

}  // extern "C"
