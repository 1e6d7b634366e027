// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Restore a frozen process to a saved state. Pause, restart and in-memory snapshots share this code. */
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

/** Source of the saved content, and hooks of the request. */
struct RollbackSource {
  PageSource pages;
  BlobReader blob;
  /** Read one saved page. @return false when none is saved at that address */
  std::function<bool(std::uint64_t addr, char (&page)[4096])> read_page;
  std::vector<cr_range> dirty;        ///< with tracking: ranges that have changed since the checkpoint
  bool in_session = false;            ///< the source is the session's own snapshot
  bool own_channel = false;           ///< as in SnapshotOptions
  /** Restart: files that were opened before the target existed; none: run() opens those of the mappings that it makes. */
  std::optional<MappingFiles> files;
  /** Called before the commit to verify the pages that will be restored. Throws Error. May be empty. */
  std::function<void(const std::vector<cr_range>& ranges)> verify;
  /**
   * Called in stage hold: private memory is restored, and nothing that other processes can see has changed.
   * Throws Error to cancel the request. May be empty.
   */
  std::function<void()> hold;
};

/**
 * A restore of @p image has failed after the commit: kill the target, and throw an Error (permanent) with the reason. Call it
 * in a catch block. Target frozen.
 */
[[noreturn]] void end_process(Session& session, const Process& image);

class Rollback {
 public:
  /**
   * All referenced objects must outlive the Rollback.
   * @param image  the state to restore; without options.restore_pid, run() replaces its tids by the new ones, and in any case
   *               the inodes of kept memory by those that the target has
   * @param regs   registers in the order of image.threads()
   */
  Rollback(Session& session, Process& image, const std::vector<ThreadRegs>& regs, const RestoreOptions& options,
           RestoreMode mode, RollbackSource source)
      : session_(session), image_(image), regs_(regs), options_(options), mode_(mode), source_(std::move(source)) {}

  /**
   * Roll the target back. It must be frozen and stays frozen; the caller thaws it in carry_out(). Throws Error. If
   * committed() is false then, nothing has changed and the target is still frozen; otherwise it has been killed.
   */
  void run(Report& report);
  bool committed() const { return committed_; }

  /**
   * Restart: restore only the address space and the private memory of the image. As run(), but the target still needs
   * registers to run with.
   */
  void run_memory(Report& report);

  /**
   * Run a step after the commit. If it throws, the target is killed, and an Error (permanent) says so.
   */
  template <class Work>
  void carry_out(Stage stage, Work work) {
    try {
      enter(stage);
      work();
    } catch (...) {
      end_process(session_, image_);
    }
  }

 private:
  struct Plan;
  struct Step;
  static const Step kSteps[];
  std::unique_ptr<Plan> begin_plan();
  void plan_memory(Plan& plan);
  std::unique_ptr<Plan> prepare_memory(Report& report);
  std::unique_ptr<Plan> prepare(Report& report);
  void commit(Plan& plan);
  void end_surplus(Plan& plan, Report& report);
  void restore_address_space(Plan& plan, Report& report);
  void restore_private_memory(Plan& plan, Report& report);
  void restore_files(Plan& plan, Report& report);
  void restore_shared_memory(Plan& plan, Report& report);
  void restore_process(Plan& plan, Report& report);
  void restore_each_thread(Plan& plan, Report& report);

  Session& session_;
  Process& image_;
  const std::vector<ThreadRegs>& regs_;
  const RestoreOptions& options_;
  RestoreMode mode_;
  RollbackSource source_;
  bool committed_ = false;
};

/** Throw Error (refused) where image and options alone rule a restore out: descriptors and environment. */
void check_image(const Process& image, const RestoreOptions& options, RestoreMode mode);

}  // namespace reprise
