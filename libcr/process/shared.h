// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Content of memory that is not the process's alone: shared mappings and memfds. */
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/file_content.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "session/session.h"

namespace reprise {

class MappingFiles;
class NamelessFiles;

/** Content of all shared objects of one process, laid out like the blob section of its image. */
class SharedContents {
 public:
  SharedContents() = default;
  ~SharedContents();
  SharedContents(SharedContents&& other) noexcept;
  SharedContents& operator=(SharedContents&& other) noexcept;

  /**
   * Read the content of the shared objects that are registered in @p process and note there
   * what was read. Target frozen; after its mappings and descriptors were collected.
   * Throws Error (refused) where there are more than @p deleted_limit bytes of deleted files.
   */
  void collect(Session& session, Process& process, std::uint64_t deleted_limit);

  const char* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* buf, std::size_t len) const;

 private:
  char* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/**
 * Refuse a pause that would have to undo what a seal forbids (F_ADD_SEALS), or the seal itself. Target frozen, with the
 * mappings @p now, not committed.
 */
void check_seals(Session& session, std::span<const cr_vma> now, const Process& image);

/**
 * Room on the file systems for content that comes back where holes were made since: behind the commit nobody can be told
 * that there is none. Given back with this object, unless keep() is called.
 */
class SharedRoom {
 public:
  SharedRoom() = default;
  SharedRoom(SharedRoom&&) = default;
  SharedRoom& operator=(SharedRoom&&) = default;
  ~SharedRoom();

  /**
   * Take it. Target frozen, not committed.
   * @param files     of mappings that are made anew; all others are intact
   * @param nameless  what has made some of the objects, with their content
   * @param kept      indexes of objects that are left as they are
   * Throws Error (temporary) naming the file for which there is no room.
   */
  static SharedRoom take(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                         const BlobReader& read, const MappingFiles& files, NamelessFiles& nameless,
                         const std::set<int>& kept);
  void keep() { taken_.clear(); }

 private:
  struct Taken {
    UniqueFd file;
    std::vector<FileRange> ranges;
  };
  std::vector<Taken> taken_;
};

/**
 * Put the content of all shared objects back. Target frozen and committed; mappings and descriptors in place.
 * @param nameless  what has made some of them, with their content
 * @param kept      indexes of objects that are left as they are
 */
void restore_shared(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                    const BlobReader& read, NamelessFiles& nameless, const std::set<int>& kept);

}  // namespace reprise
