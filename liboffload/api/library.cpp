// SPDX-License-Identifier: LGPL-2.1-or-later
#include "library.h"

#include <cstdlib>
#include <new>
#include <string>

#include "mpi/engine.h"
#ifdef CROFF_REPRISE
#include "reprise/engine.h"
#endif

namespace croff {
namespace {

struct Library {
  std::unique_ptr<Engine> engine;
  Scheduler scheduler;
};
std::unique_ptr<Library> library;
std::string last_error;
std::string task_failure;  // of croff_fail(); it counts if task_failed
bool task_failed = false;

/** In a booster: one task. Groups that it has allocated end with it. */
void execute(const Work &work) {
  const auto function = reinterpret_cast<croff_function>(resolve(work.code));
  task_failed = false;
  try {
    function(work.values, work.regions.data());
  } catch (const std::exception &error) {
    task_failed = true;
    task_failure = error.what();
  } catch (...) {
    task_failed = true;
    task_failure = "it has thrown something that is no std::exception";
  }
  try {
    library->scheduler.release_all();
  } catch (const Error &error) {
    if (!task_failed) task_failure = std::string("a task that it has submitted: ") + error.what();
    task_failed = true;
  }
  if (task_failed) throw Error(Code::task, task_failure);
}

std::unique_ptr<Engine> choose_engine() {
  const char *chosen = getenv("CROFF_ENGINE");
  const std::string name = chosen ? chosen : "mpi";
  if (name == "mpi") return make_mpi_engine();
#ifdef CROFF_REPRISE
  if (name == "reprise") return make_reprise_engine();
#endif
  throw Error(Code::engine, "CROFF_ENGINE=" + name + ": there is no such engine; unset it, or set it to mpi" +
#ifdef CROFF_REPRISE
                                " or reprise");
#else
                                "; this library was built without libcr, which the engine reprise needs");
#endif
}

/** MPI calls it at the beginning of MPI_Finalize. */
int at_finalize(MPI_Comm, int, void *, void *) {
  if (library) guarded([] { library->scheduler.release_all(); });
  library.reset();
  return MPI_SUCCESS;
}

void init() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (!begun || ended)
    throw Error(Code::init, "croff_init was called outside of MPI: call it after MPI_Init and before MPI_Finalize");
  if (library) return;
  auto made = std::make_unique<Library>();
  made->engine = choose_engine();
  library = std::move(made);
  if (library->engine->is_booster()) library->engine->serve(execute);
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  MPI_Comm_free_keyval(&key);
}

Library &there() {
  if (!library) throw Error(Code::init, "croff_init was not called: call it in main() after MPI_Init; boosters serve there");
  return *library;
}

}  // namespace

Scheduler &scheduler() { return there().scheduler; }
Engine &engine() { return *there().engine; }

int guarded(const std::function<void()> &work) {
  try {
    work();
    return CROFF_OK;
  } catch (const Error &error) {
    last_error = error.what();
    return static_cast<int>(error.code);
  } catch (const std::bad_alloc &) {
    last_error = "there is too little memory for a task: submit fewer or smaller ones before croff_taskwait";
    return CROFF_ERR_MEMORY;
  }
}

}  // namespace croff

int croff_init(void) { return croff::guarded(croff::init); }

const char *croff_last_error(void) { return croff::last_error.c_str(); }

void croff_fail(const char *text) {
  croff::task_failed = true;
  croff::task_failure = text ? text : "";
}
