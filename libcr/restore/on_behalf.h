// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * What an image names (files, sockets' addresses) is opened, made and bound with the rights of the process that it is
 * for: an image can be forged, and the caller may be root.
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
  /** Of a live process: with its rights, inside its root directory where it has another mount namespace. */
  static OnBehalf of_process(pid_t pid);
  /** Of the process that a restart makes. @p image must stay. With --trust the caller vouches for the image, and lends it its own rights. */
  static OnBehalf of_image(const Process& image, const RestoreOptions& options);
  /**
   * Whichever it is that is brought back. In a pause that has the rights of the image's process if it can give them to
   * itself, else those that it has.
   */
  static OnBehalf of(pid_t target, const Process& image, const RestoreOptions& options, RestoreMode mode);

  /**
   * In a pause: open() is a system call of the target's first thread. So the kernel asks all that it asks of the process
   * itself: ids, capabilities, security module, Landlock, root directory and mount namespace. @p session and @p remote
   * must stay; the target is frozen at each open().
   */
  static OnBehalf of_target(Session& session, LazyRemote& remote, const Process& image);

  /**
   * As open(2), close-on-exec. @return an empty descriptor with errno set on failure; EXDEV: the path lies outside of the
   * root directory of the target
   */
  UniqueFd open(const std::string& path, int flags, mode_t mode = 0) const;
  /** Another description of what is open here as @p fd, which the process must be allowed to open with @p flags. */
  UniqueFd reopen(int fd, int flags) const;
  /**
   * Open what @p name, an O_PATH descriptor from open(@p path), refers to. @return an empty descriptor with errno set on
   * failure; ESTALE: another file has the path by now
   */
  UniqueFd open_found(const UniqueFd& name, const std::string& path, int flags) const;

  /**
   * While it exists this thread, and those that it starts, have the file system's ids, the groups and none but the
   * capabilities of the process (credentials(7)). One within the other changes nothing more. Requests to the module
   * do not depend on them. Throws Error where the caller may not.
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
