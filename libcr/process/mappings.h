// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Saving and restoring the mappings of a process. */
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
 * Save the mappings @p vmas and register the shared objects behind them. Target frozen.
 * Throws Error (refused) naming a mapping that cannot be saved.
 */
void collect_mappings(Session& session, std::span<const cr_vma> vmas, Process& process);

/**
 * The files behind the mappings to be made. All are opened and checked before the commit, so that none is missing
 * after it.
 */
class MappingFiles {
 public:
  MappingFiles() = default;
  MappingFiles(MappingFiles&&) = default;
  MappingFiles& operator=(MappingFiles&&) = default;
  ~MappingFiles();

  /**
   * Restart: open every file of the image by its path. A missing file is created if the image holds all of its content;
   * the destructor deletes it unless keep() is called. Throws Error (refused) naming a file that is missing or has
   * changed since the checkpoint.
   * @param plan  open only the files of the mappings that it makes; nullptr: those of all mappings
   */
  static MappingFiles for_restart(const Process& image, const RestoreOptions& options, const MappingPlan* plan = nullptr);

  /**
   * Pause: find the files of mappings that @p plan makes anew, in the target's mappings and descriptors or by path.
   * Target frozen, not committed. Throws Error (refused) naming a file that is missing or has changed.
   */
  static MappingFiles for_pause(Session& session, std::span<const cr_vma> now, const MappingPlan& plan,
                                const Process& image, const OnBehalf& behalf);

  /** Take deleted files and memfds that the target no longer has mapped or open from @p nameless. */
  void add_nameless(const Process& image, NamelessFiles& nameless);

  /** The restart has succeeded: keep the files that were created, and report them. */
  void keep(Report& report);

  /** Carry out the plan. Target frozen and committed. @p gap is the start of an unused range of gap_size() bytes. */
  void apply(Session& session, Remote& remote, const MappingPlan& plan, const Process& image, std::uint64_t gap,
             Report& report);

  /** Is a mapping of shared object @p number (1 + index) made anew? If not, all mappings of it are intact. */
  bool is_remade(std::uint32_t number) const;
  /** @return our descriptor for the file of a remade object; -1 if there is none or apply() creates the file */
  int find(std::uint32_t number) const;

  /** @return the number of descriptors that apply() installs in the target */
  std::size_t size() const { return files_.size(); }

  /** @return the bytes of unused address space that apply() needs in addition to the arena */
  static std::uint64_t gap_size(const MappingPlan& plan, const Process& image);

 private:
  struct Entry {
    UniqueFd fd;          // ours; none: shared memory that target_fd() creates
    int target_fd = -1;   // the target's, once installed
  };
  using Key = std::pair<std::uint32_t, std::string>;  // shared object, or 0 and path (with "w:" or "r:")
  static Key key_of(const Mapping& mapping);
  int target_fd(Session& session, Remote& remote, const Mapping& mapping, const Process& image, std::uint64_t gap);
  UniqueFd make_file(const OnBehalf& behalf, const Mapping& mapping, const SharedObject* object, const std::string& path);
  std::map<Key, Entry> files_;
  std::vector<std::string> made_;
  std::optional<OnBehalf> behalf_;  // whose rights made_ was created with
};

}  // namespace reprise
