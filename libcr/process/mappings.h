// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The mappings of a process: what is saved of them, and bringing them back. */
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "image/state.pb.h"
#include "process/mapping_plan.h"
#include "restore/on_behalf.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/remote.h"
#include "session/session.h"

namespace reprise {

class NamelessFiles;

/**
 * Save the mappings @p vmas and register the shared objects that they show. Target frozen.
 * Throws Error (refused) naming the mapping that cannot be saved.
 */
void collect_mappings(Session& session, std::span<const cr_vma> vmas, Process& process);

/**
 * The files that mappings will be made of. All are opened and checked before the
 * commit, so that nothing is missing after it.
 */
class MappingFiles {
 public:
  MappingFiles() = default;
  MappingFiles(MappingFiles&&) = default;
  MappingFiles& operator=(MappingFiles&&) = default;
  ~MappingFiles();

  /**
   * Restart: open every file of the image by its path. A file that is gone is made again if the image holds all
   * of it, and deleted again with this object unless keep() is called. Throws Error (refused) naming a file that
   * is gone or was changed since.
   */
  static MappingFiles for_restart(const Process& image, const RestoreOptions& options);

  /**
   * Pause: find the files of mappings that @p plan makes anew, in the target as it is now or by path.
   * Target frozen, not committed.
   */
  static MappingFiles for_pause(Session& session, std::span<const cr_vma> now, const MappingPlan& plan,
                                const Process& image, const OnBehalf& behalf);

  /** What no mapping or descriptor of the target shows any more, and had no name: deleted files, memfds. */
  void add_nameless(const Process& image, NamelessFiles& nameless);

  /** The restart goes on: files that were made stay, and are reported. */
  void keep(Report& report);

  /** Carry the plan out. Target frozen and committed. @p gap begins an unused range of gap_size() bytes. */
  void apply(Session& session, Remote& remote, const MappingPlan& plan, const Process& image, std::uint64_t gap,
             Report& report);

  /** Is a mapping of shared object @p number (1 + index) made anew? If not all of them are intact. */
  bool is_remade(std::uint32_t number) const;
  /** A descriptor of ours for the file of such a one; -1 where that is made behind the commit. */
  int find(std::uint32_t number) const;

  /** Descriptors of the target that apply() takes. */
  std::size_t size() const { return files_.size(); }

  /** Bytes of unused address space that apply() needs beside the arena. */
  static std::uint64_t gap_size(const MappingPlan& plan, const Process& image);

 private:
  struct Entry {
    UniqueFd fd;          // ours; none: shared memory still to be made
    int target_fd = -1;   // once installed
  };
  using Key = std::pair<std::uint32_t, std::string>;  // shared object, or 0 and path (with "w:" or "r:")
  static Key key_of(const Mapping& mapping);
  int target_fd(Session& session, Remote& remote, const Mapping& mapping, const Process& image, std::uint64_t gap);
  UniqueFd make_file(const OnBehalf& behalf, const Mapping& mapping, const SharedObject* object, const std::string& path);
  std::map<Key, Entry> files_;
  std::vector<std::string> made_;
  std::optional<OnBehalf> behalf_;  // who has made them
};

}  // namespace reprise
