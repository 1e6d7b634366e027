// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Content of shared memory: shared mappings, memfds and deleted files. */
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/kept_passing.h"
#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/file_content.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "session/session.h"

namespace reprise {

class MappingFiles;
class NamelessFiles;

/** Content of all shared objects of one process, laid out as in the blob section of its image. */
class SharedContents {
 public:
  SharedContents() = default;
  ~SharedContents();
  SharedContents(SharedContents&& other) noexcept;
  SharedContents& operator=(SharedContents&& other) noexcept;

  /**
   * Read the content of the shared objects registered in @p process and record its extents there.
   * Target frozen. Call it after the mappings and descriptors were collected.
   * @param kept  receives descriptors of the kept memory; nullptr: they are not wanted
   * Throws Error (refused) if the deleted files hold more than @p deleted_limit bytes.
   */
  void collect(Session& session, Process& process, std::uint64_t deleted_limit, std::vector<KeptFile>* kept = nullptr);

  /** @return a copy of the blob section of an image. @param bytes its size */
  static SharedContents copy(std::uint64_t bytes, const BlobReader& read);

  const char* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* buf, std::size_t len) const;

 private:
  void make_room(std::uint64_t bytes);
  char* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/**
 * Refuse a pause if a memfd has a new seal (F_ADD_SEALS) or a seal forbids restoring its size. Target frozen, with the
 * mappings @p now, not committed. Throws Error (refused).
 */
void check_seals(Session& session, std::span<const cr_vma> now, const Process& image);

/**
 * File system blocks reserved for content that is written back into holes made since the checkpoint: after the commit
 * ENOSPC could no longer be handled. The destructor frees the blocks unless keep() is called.
 */
class SharedRoom {
 public:
  SharedRoom() = default;
  SharedRoom(SharedRoom&&) = default;
  SharedRoom& operator=(SharedRoom&&) = default;
  ~SharedRoom();

  /**
   * Reserve the blocks. Target frozen, not committed.
   * @param files     files of mappings that will be remade; all other mappings are intact
   * @param nameless  has recreated some of the objects, content included
   * @param kept      indexes of objects whose content is left as it is
   * Throws Error naming the file that has no room.
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
 * Restore the content of all shared objects. Target frozen and committed; mappings and descriptors in place.
 * @param nameless  has recreated some of them, content included
 * @param kept      indexes of objects whose content is left as it is
 */
void restore_shared(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                    const BlobReader& read, NamelessFiles& nameless, const std::set<int>& kept);

}  // namespace reprise
