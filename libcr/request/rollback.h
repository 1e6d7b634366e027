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

/** Where the content comes from, and what a request adds to the steps. */
struct RollbackSource {
  PageSource pages;
  BlobReader blob;
  /** Read one saved page. @return false when none is saved at that address */
  std::function<bool(std::uint64_t addr, char (&page)[4096])> read_page;
  std::vector<cr_range> dirty;        ///< with tracking: what has changed since the checkpoint
  bool in_session = false;            ///< the source is the session's own snapshot
  std::optional<MappingFiles> files;  ///< restart: opened before the target existed
  /** Verifies the pages that will be put back. Called before the commit. May be empty. */
  std::function<void(const std::vector<cr_range>& ranges)> verify;
  /** Called in stage hold: the memory is back, and nothing that others can see has changed. Throws to give up. May be empty. */
  std::function<void()> hold;
};

class Rollback {
 public:
  /**
   * @param image  state to bring back; tids are put in here when they are not restored
   * @param regs   in the order of image.threads()
   */
  Rollback(Session& session, Process& image, const std::vector<ThreadRegs>& regs, const RestoreOptions& options,
           RestoreMode mode, RollbackSource source)
      : session_(session), image_(image), regs_(regs), options_(options), mode_(mode), source_(std::move(source)) {}

  /**
   * Roll the target back. It must be frozen and stays frozen; the caller thaws it, by carry_out(). Throws Error: either
   * nothing has changed and the target is still frozen, or it has been killed (committed() tells).
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
  RollbackSource source_;
  bool committed_ = false;
};

/** Refusals that need no target: descriptors and surroundings that the image and the options rule out. */
void check_image(const Process& image, const RestoreOptions& options, RestoreMode mode);

}  // namespace reprise
