// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Making a stopped process what an image says: the one code for pause, restart and in-memory snapshots. */
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/stage.h"
#include "image/reader.h"
#include "process/mappings.h"
#include "process/memory.h"
#include "process/shared.h"
#include "request/options.h"
#include "restore/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

class Rollback {
 public:
  /**
   * @param image  state to bring back; tids are put in here when they are not restored
   * @param regs   in the order of image.threads()
   */
  Rollback(Session& session, Process& image, const std::vector<ThreadRegs>& regs, const RestoreOptions& options,
           RestoreMode mode)
      : session_(session), image_(image), regs_(regs), options_(options), mode_(mode) {}

  PageSource pages;
  BlobReader blob;
  /** One saved page; false when there is none at that address. */
  std::function<bool(std::uint64_t addr, char (&page)[4096])> read_page;
  /** Called before the commit with the pages that will be put back: verify them. May be empty. */
  std::function<void(const std::vector<cr_range>& ranges)> verify;
  /** Called when the memory is back, and nothing was touched yet that others can see. Throws to give up. May be empty. */
  std::function<void()> hold;
  std::vector<cr_range> dirty;        ///< tracked: what has changed
  std::optional<MappingFiles> files;  ///< restart: opened before
  bool in_session = false;            ///< the source is the session's own snapshot

  /**
   * Do it. Target frozen on entry, and on return; the caller thaws, by carry_out(). Throws Error: either nothing
   * has changed and the target is still frozen, or it has been killed (committed() tells).
   */
  void run(Report& report);
  bool committed() const { return committed_; }

  /**
   * A step behind the commit. There is no way back any more: whatever it throws, the process is ended, and the Error
   * says so.
   */
  template <class Work>
  void carry_out(Stage stage, Work work) {
    try {
      enter(stage);
      work();
    } catch (...) {
      end_process();
    }
  }

 private:
  struct Plan;
  struct Step;
  static const Step kSteps[];
  std::unique_ptr<Plan> prepare(Report& report);
  void end_surplus(Plan& plan, Report& report);
  void restore_address_space(Plan& plan, Report& report);
  void restore_private_memory(Plan& plan, Report& report);
  void restore_files(Plan& plan, Report& report);
  void restore_shared_memory(Plan& plan, Report& report);
  void restore_process(Plan& plan, Report& report);
  void restore_each_thread(Plan& plan, Report& report);
  /** In a catch block: kill the target, and throw what says so. */
  [[noreturn]] void end_process();

  Session& session_;
  Process& image_;
  const std::vector<ThreadRegs>& regs_;
  const RestoreOptions& options_;
  RestoreMode mode_;
  bool committed_ = false;
};

/** Refusals that need no target: descriptors and surroundings that the image and the options rule out. */
void check_image(const Process& image, const RestoreOptions& options, RestoreMode mode);

}  // namespace reprise
