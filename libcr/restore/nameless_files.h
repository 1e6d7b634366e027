// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Files that were open at the checkpoint and had no name: deleted files, directories and FIFOs, and memfds. They are
 * created again, without a name, before the commit, so that every failure (no directory, no space) comes before it.
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
#include "restore/kept_memory.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** Whether the image alone can create @p object again: it holds all content and attributes, or the object is kept memory. */
inline bool can_be_made(const SharedObject& object) { return object.has_deleted() || is_memfd(object); }

class NamelessFiles {
 public:
  /**
   * Does not open or create anything yet. @p session, @p image and @p options must outlive the result.
   * @param read  reads content of the blob section
   */
  NamelessFiles(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode, BlobReader read);

  /**
   * Find or create the file of a shared object.
   * @param number  1 + index of a shared object for which can_be_made() holds
   * @return our descriptor (borrowed): in a pause, of the file that the target still has open or mapped; in a restart, of the
   *         memory that the options give; otherwise of a new file with the saved content, open for reading and writing
   * Throws Error (refused or temporary) naming the file and each directory where it could not be created.
   */
  int file(std::uint32_t number);
  /**
   * Open a new description of file(@p number) with @p flags.
   * @return an empty descriptor with errno set when the process may not open the file so
   */
  UniqueFd open(std::uint32_t number, int flags);

  /** @return an empty directory without a name, opened with O_PATH (borrowed); one for each inode of the image */
  int folder(const File& file);
  /** @return a new FIFO without a name, opened for reading and writing */
  UniqueFd fifo(const File& file);

  /**
   * Set owner, mode, times and extended attributes of the created files. Call it after all open() calls, because owner
   * and mode may forbid them. restore_shared() sets the seals of a memfd later, when it is mapped.
   * @param report  receives a warning for each attribute that cannot be set
   */
  void finish(Report& report);
  /** Numbers of the objects that file() has created with their content. */
  const std::set<std::uint32_t>& made() const { return made_; }

 private:
  struct Folder {
    std::string path;
    bool other;  ///< not the directory in which the file was
  };
  std::vector<Folder> folders(const File& file) const;
  /** Try @p make in each directory of folders(). Throws Error when it fails in all of them. */
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
  std::vector<std::string> notes_;  ///< warnings about what was made
};

/**
 * Create a file without a name, open for reading and writing. Uses O_TMPFILE, or a temporary name that is unlinked
 * before the return if the file system does not support O_TMPFILE.
 * @param folder   descriptor of the directory
 * @param by_name  use a temporary name in any case
 * @return an empty descriptor with errno set on failure
 */
UniqueFd make_nameless_file(int folder, bool by_name = false);
/** As make_nameless_file(), for a directory (opened with O_PATH) and for a FIFO. Both use a temporary name. */
UniqueFd make_nameless_folder(int folder);
UniqueFd make_nameless_fifo(int folder);

}  // namespace reprise
