// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Opens, creates and binds what an image names (files, addresses of sockets) with the rights of the process that the
 * image is for. An image can be forged, and the caller may be root.
 */
#include <memory>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/options.h"

namespace reprise {

class LazyRemote;
class Session;

class OnBehalf {
 public:
  /** Rights of a live process; paths are looked up in its root directory if it has another mount namespace. */
  static OnBehalf of_process(pid_t pid);
  /** Rights that the restarted process will have; with --trust those of the caller. @p image must outlive this. */
  static OnBehalf of_image(const Process& image, const RestoreOptions& options);
  /**
   * In a restart as of_image(). In a pause the rights of the image's process, if the live process can take them on,
   * otherwise its current ones.
   */
  static OnBehalf of(pid_t target, const Process& image, const RestoreOptions& options, RestoreMode mode);

  /**
   * For a pause: open() is a system call of the target's first thread, so all checks of the kernel apply to the target:
   * ids, capabilities, security module, Landlock, root directory and mount namespace. @p session, @p remote and @p image
   * must outlive this. The target must be frozen at each open().
   */
  static OnBehalf of_target(Session& session, LazyRemote& remote, const Process& image);

  /**
   * As open(2), with O_CLOEXEC. @return an empty descriptor with errno set on failure; EXDEV: the path lies outside of
   * the root directory of the target
   */
  UniqueFd open(const std::string& path, int flags, mode_t mode = 0) const;
  /** Open the file of our descriptor @p fd again, with the same rights. @return as open() */
  UniqueFd reopen(int fd, int flags) const;
  /**
   * Open the file of @p name, an O_PATH descriptor from open(@p path). @return as open(); ESTALE: the path leads to
   * another file by now
   */
  UniqueFd open_found(const UniqueFd& name, const std::string& path, int flags) const;

  /**
   * During its lifetime this thread, and threads that it starts, have the filesystem ids and groups of the process and
   * at most its capabilities (credentials(7)). Nested ones have no further effect. Ioctls of the module do not depend
   * on these rights. The constructor throws Error (refused) if the caller may not take them on.
   */
  class Rights {
   public:
    explicit Rights(const OnBehalf& whom);
    ~Rights();
    Rights(const Rights&) = delete;
    Rights& operator=(const Rights&) = delete;

   private:
    const OnBehalf& whom_;
  };

 private:
  struct State;
  explicit OnBehalf(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace reprise
