// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * What was open at the checkpoint and had lost its name before, or never had one (memfds): made again, without a name,
 * before the commit. All that can go wrong with it (no folder, no room) has been tried then.
 */
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/file_content.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** All of its content is in the image, and what it is beside: nothing but the image is needed to make it again. */
inline bool is_kept(const SharedObject& object) { return object.has_deleted() || object.kind() == SharedObject::MEMFD; }

class NamelessFiles {
 public:
  /** Nothing is looked for or made before it is asked for. @p image must stay. @p read gives content. */
  NamelessFiles(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode, BlobReader read);

  /**
   * A descriptor of ours for shared object @p number (1 + index), for which is_kept() holds: of the file that the target
   * still has open or mapped in a pause, else of one that is made. Open for reading and writing when it was made.
   * Throws Error (refused) naming the file and each folder where it could not be made.
   */
  int file(std::uint32_t number);
  /** Another description of it. @return an empty one with errno set where the process may not open it so */
  UniqueFd open(std::uint32_t number, int flags);

  /** A folder without a name, with nothing in it, opened with O_PATH. The same one for the same inode of the image. */
  int folder(const File& file);
  /** A FIFO without a name, opened for reading and writing; a new one each time. */
  UniqueFd fifo(const File& file);

  /**
   * Owner, mode and times of what was made, when it has been opened in all the ways that are needed. The seals of a
   * memfd come last of all, when it is mapped (restore_shared).
   */
  void finish(Report& report);
  /** Numbers of the objects that were made, with their content. */
  const std::set<std::uint32_t>& made() const { return made_; }

 private:
  struct Folder {
    std::string path;
    bool other;  ///< than where it was
  };
  std::vector<Folder> folders(const File& file) const;
  /** Try @p make in one folder after the other. Throws Error when it works in none. */
  template <class Make>
  UniqueFd make_somewhere(const File& file, const char* kind, Make make);
  UniqueFd find(std::uint32_t number);
  bool is_it(int fd, std::uint32_t number) const;
  bool is_executed(std::uint32_t number) const;
  UniqueFd make_memfd(const SharedObject& object);
  void fill(const SharedObject& object, int fd);
  void finish_one(const SharedObject& object, int fd, Report& report);

  Session& session_;
  const Process& image_;
  const RestoreOptions& options_;
  RestoreMode mode_;
  BlobReader read_;
  OnBehalf behalf_;
  std::map<std::uint32_t, UniqueFd> files_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, UniqueFd> folders_;  ///< by device and inode in the image
  std::set<std::uint32_t> made_;
  std::vector<std::string> elsewhere_;
};

/**
 * A file without a name in the folder that is open as @p folder, for reading and writing; by a name that is gone again
 * when this returns where the file system has no such files, or where @p by_name says so.
 * @return an empty descriptor with errno set on failure
 */
UniqueFd make_nameless_file(int folder, bool by_name = false);
/** As make_nameless_file: of a folder, with O_PATH; of a FIFO. */
UniqueFd make_nameless_folder(int folder);
UniqueFd make_nameless_fifo(int folder);

}  // namespace reprise
