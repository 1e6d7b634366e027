// SPDX-License-Identifier: LGPL-2.1-or-later
// Fenix_Init and Fenix_Finalize.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "groups.h"
#include "library.h"
#include "process/calls.h"
#include "resume.h"
#include "ulfm/spawn.h"
#include "ulfm/ulfm.h"
#ifdef FENIX_REPRISE
#include "reprise/reprise.h"
#endif

namespace {

using fnx::Code, fnx::Error;

bool finalized = false;
bool failed = false;  // Fenix_Init has: what follows it does nothing

enum class Engine { ulfm, reprise };

std::optional<std::string> value_of(MPI_Info info, const char *key) {
  char value[MPI_MAX_INFO_VAL + 1];
  int there = 0, length = MPI_MAX_INFO_VAL + 1;
  if (info == MPI_INFO_NULL) return {};
  MPI_Info_get_string(info, key, &length, value, &there);
  return there ? std::optional<std::string>(value) : std::nullopt;
}

/** What the environment says counts if the program says nothing. */
std::optional<std::string> value_or_variable(MPI_Info info, const char *key) {
  const auto value = value_of(info, key);
  const char *variable = getenv(key);
  return value || !variable || !*variable ? value : std::optional<std::string>(variable);
}

/** @return the program has chosen */
template <class Mode>
bool choose(const std::optional<std::string> &value, const char *key, const std::map<std::string, Mode> &modes, Mode &mode) {
  if (!value) return false;
  const auto found = modes.find(*value);
  if (found != modes.end()) {
    mode = found->second;
    return true;
  }
  std::string names;
  for (const auto &[name, ignored] : modes) names += (names.empty() ? "" : ", ") + name;
  throw Error(Code::setting_option, std::string(key) + "=" + *value + " is unknown: use one of " + names);
}

void take_settings(int spawn, MPI_Info info) {
  fnx::Settings &settings = fnx::settings();
  settings.resume_chosen |= choose<Fenix_Resume_mode>(value_of(info, "FENIX_RESUME_MODE"), "FENIX_RESUME_MODE",
                            {{"Fenix_init", FENIX_RESUME_JUMP},
                             {"JUMP", FENIX_RESUME_JUMP},
                             {"NO_JUMP", FENIX_RESUME_RETURN},
                             {"RETURN", FENIX_RESUME_RETURN},
                             {"THROW", FENIX_RESUME_THROW}},
                            settings.resume);
  choose<Fenix_Unhandled_mode>(
      value_of(info, "FENIX_UNHANDLED_MODE"), "FENIX_UNHANDLED_MODE",
      {{"SILENT", FENIX_UNHANDLED_SILENT}, {"PRINT", FENIX_UNHANDLED_PRINT}, {"ABORT", FENIX_UNHANDLED_ABORT}}, settings.unhandled);
  if (spawn >= 0) settings.recovery = spawn ? FENIX_RECOVERY_SPAWN : FENIX_RECOVERY_REPAIR;
}

Engine engine(MPI_Info info) {
  Engine engine = Engine::ulfm;
  choose<Engine>(value_or_variable(info, "FENIX_ENGINE"), "FENIX_ENGINE", {{"ulfm", Engine::ulfm}, {"reprise", Engine::reprise}}, engine);
  return engine;
}

void begin_ulfm(MPI_Comm comm, int spares) {
  // A process that was spawned alone is in a communicator of its own: the argument is about the first one.
  if (spares < 0 || (spares >= fnx::size_of(comm) && !fnx::is_newcomer()))
    throw Error(Code::no_category, std::to_string(spares) + " spares of " + std::to_string(fnx::size_of(comm)) +
                                       " ranks: leave at least one active, or start more ranks");
  auto process = std::make_unique<fnx::UlfmProcess>(fnx::fenix_live_error, fnx::fenix_stale_error);
  try {
    process->begin(comm, spares, fnx::settings().recovery == FENIX_RECOVERY_SPAWN);
  } catch (const fnx::Failure &) {
    throw Error(Code::internal, "MPI cannot repair communicators: start the program by crrun --recover ulfm");
  }
  fnx::set_process(std::move(process));
}

#ifdef FENIX_REPRISE
/** Bytes for the store of this process. They are allocated when they are written. */
std::size_t store_bytes(MPI_Info info) {
  constexpr std::size_t kLeast = 1 << 20;
  const auto text = value_or_variable(info, "FENIX_MEMORY");
  if (!text) return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), bytes);
  if (error != std::errc() || end != text->data() + text->size() || bytes < kLeast)
    throw Error(Code::setting_option,
                "FENIX_MEMORY=" + *text + " cannot be used: give a number of bytes, at least " + std::to_string(kLeast));
  return bytes;
}

void begin_reprise(MPI_Comm comm, int spares, MPI_Info info) {
  if (spares != 0)
    throw Error(Code::no_category, std::to_string(spares) + " spares: the engine reprise needs no spare ranks; pass 0, and give crrun "
                                                            "spare nodes (--spares)");
  if (fnx::settings().resume_chosen && fnx::settings().resume == FENIX_RESUME_RETURN)
    throw Error(Code::setting_option, "FENIX_RESUME_MODE NO_JUMP: with the engine reprise survivors always return from Fenix_Init, and no "
                                      "call returns an error; leave it out, or use the engine ulfm");
  auto process = std::make_unique<fnx::ReprisedProcess>(fnx::fenix_stale_error);
  try {
    process->begin(comm, store_bytes(info));
  } catch (const fnx::Failure &) {
    throw Error(Code::internal, "MPI has failed in Fenix_Init: start the program by crrun --shared DIR");
  }
  fnx::set_process(std::move(process));
  fnx::groups().find_again(*fnx::process().arena());
}
#else
void begin_reprise(MPI_Comm, int, MPI_Info) {
  throw Error(Code::setting_option, "FENIX_ENGINE=reprise: this library was built without libcr; build it with libcr, or use the engine "
                                    "ulfm");
}
#endif

void begin(MPI_Comm comm, int spares, int spawn, MPI_Info info) {
  int begun = 0, ended = 0, inter = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (!begun || ended) throw Error(Code::uninitialized, "it was called outside of MPI: call it after MPI_Init");
  if (fnx::process_if_any() || finalized) throw Error(Code::logic_call, "it was called before: call it once in each process");
  if (comm != MPI_COMM_NULL) MPI_Comm_test_inter(comm, &inter);
  if (comm == MPI_COMM_NULL || inter) throw Error(Code::no_category, "comm is no intracommunicator: pass one, as MPI_COMM_WORLD");
  take_settings(spawn, info);
  if (engine(info) == Engine::reprise)
    begin_reprise(comm, spares, info);
  else
    begin_ulfm(comm, spares);
}

}  // namespace

void fenix_enter_(int *role, MPI_Comm comm, MPI_Comm *newcomm, int *argc, char ***argv, int spare_ranks, int spawn, MPI_Info info,
                  int *error, jmp_buf *point) {
  try {
    if (!role || !newcomm || !error) throw Error(Code::no_category, "role, newcomm or error is NULL: pass addresses that stay valid");
    begin(comm, spare_ranks, spawn, info);
    failed = false;
    fnx::hide_mark(argc, argv);
    fnx::set_outputs({role, newcomm, error, point, nullptr});
  } catch (const Error &reason) {
    failed = !fnx::process_if_any();
    fprintf(stderr, "Fenix_Init: %s\n", reason.what());
    const int code = fnx::tell(reason);
    if (role) *role = FENIX_ROLE_INITIAL_RANK;
    if (newcomm && failed) *newcomm = MPI_COMM_NULL;
    if (error) *error = code;
  }
}

void fenix_leave_(void) {
  if (failed) return;
  if (!fnx::process().wait_as_spare()) {
    finalized = true;
    fnx::set_process(nullptr);
    MPI_Finalize();
    exit(0);
  }
  fnx::publish();
}

int Fenix_Finalize(void) {
  static bool done;
  const int code = fnx::guarded([] {
    done = fnx::process().finish();
    if (!done) return 0;
    fnx::publish();
    fnx::drop_all_callbacks();
    fnx::groups().drop_all();
    fnx::set_process(nullptr);
    finalized = true;
    return static_cast<int>(FENIX_SUCCESS);
  });
  if (code != FENIX_SUCCESS || done) return code;
  return fnx::resume(MPI_ERR_PROC_FAILED);
}

int Fenix_Initialized(int *flag) {
  *flag = fnx::process_if_any() != nullptr;
  return FENIX_SUCCESS;
}

int Fenix_Finalized(int *flag) {
  *flag = finalized;
  return FENIX_SUCCESS;
}
