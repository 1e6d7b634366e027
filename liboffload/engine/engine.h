// SPDX-License-Identifier: LGPL-2.1-or-later
// What the runtime wants of an engine: groups of boosters, transfers, consensus, and their replacement after a loss.
//
// An engine knows nothing of domains and dependencies. It can replace a group by new processes behind a new communicator, or
// roll it back in place: the runtime sees the same.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/code.h"
#include "base/error.h"
#include "graph/dependencies.h"

namespace croff {

/** A region as the booster gets it: `source` is read until the event `sent`, if `reads`. */
struct Input {
  const std::byte *source = nullptr;
  std::size_t bytes = 0;
  bool reads = false, writes = false;
};

struct Order {
  TaskId task = 0;
  CodeReference code;
  const std::vector<std::byte> *values = nullptr;
  std::vector<Input> regions;
};

struct Target {
  std::byte *data = nullptr;
  std::size_t bytes = 0;
};

/** What poll() reports of a task. */
struct Report {
  enum Kind { sent, done, received, failed } kind;
  TaskId task;
  Code code = Code::ok;  // of `failed`
  std::string text;      // of `failed`
};

/** One master's part of a consensus; the result has the maximum of each. */
struct Votes {
  std::int64_t lost = 0;        // boosters are lost
  std::int64_t below = 0;       // minus the key of my first domain that is not complete
  std::int64_t undone = 0;      // I have tasks
  std::int64_t busy = 0;        // something can happen here without the others
  std::int64_t order = 0;       // the end of my implicit domains
  static constexpr int count = 5;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int size() const = 0;
  virtual bool shared() const = 0;  // by several masters
  virtual MPI_Comm name() const = 0;

  /** Boosters are lost: nothing can be done with the group except replace() and release(). */
  virtual bool lost() const = 0;
  /** Send the inputs and have it executed. Reports: sent, done or failed. */
  virtual void launch(int booster, const Order &order) = 0;
  /** Have the outputs of a task that is done sent to the targets, one for each region that it writes. Report: received. */
  virtual void fetch(int booster, TaskId task, const std::vector<Target> &targets) = 0;
  /** The outputs of a task that is done are not wanted. */
  virtual void discard(int booster, TaskId task) = 0;
  virtual std::vector<Report> poll() = 0;

  /** Nonblocking consensus of the masters: begin it if none is under way. @return the result when it is there */
  virtual std::optional<Votes> agree(const std::function<Votes()> &mine) = 0;

  /** Collective over the masters: boosters are there again, and know nothing. Memory of transfers is not used any more.
   *  @throw Error(spawn), Error(masters) */
  virtual void replace() = 0;
  /** Collective over the masters: the boosters end. */
  virtual void release() = 0;
};

/** What a booster is to execute. */
struct Work {
  CodeReference code;
  void *values = nullptr;
  std::vector<void *> regions;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual bool is_booster() const = 0;
  /** Serve as a booster, and end the process. `execute` throws Error. */
  [[noreturn]] virtual void serve(const std::function<void(const Work &)> &execute) = 0;
  virtual std::unique_ptr<Group> allocate(MPI_Comm masters, int hosts, int per_host) = 0;
};

}  // namespace croff
