// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The coordinator as a table: what each input does in each phase of the job, and to which phases it may lead. Read
 * this first. Coordinator::admit() drops an input that a phase ignores, and Coordinator::enter() reports a change of phase
 * that is not in the table; no test leads to one.
 *
 *      starting ──> running <──> recovering
 *          │           │             │
 *          └───────────┴──> ending <─┘
 *                             │
 *                             v
 *                         finished
 *
 * Waves and drains are no phases: a job runs meanwhile. waves.h, draining.h and recovery.h have their states.
 */
#include <cstdint>
#include <iterator>

namespace reprise::job {

enum class Phase : std::uint8_t {
  starting,    ///< some daemon has not sent Hello yet
  running,
  recovering,  ///< from the begin of a recovery until all ranks have resumed; a failed one is followed by the next
  ending,      ///< the ranks have ended, or are being ended; then the daemons
  finished,
};

enum class Input : std::uint8_t {
  // from daemons
  hello, heartbeat, rank_started, rank_ready, rank_exited, wave_done, pin_wave, staged, protect_done, serving, has_copy, restored, resumed, moved_away, output, link_lost,
  abort, log, spawn, spawn_known, pmix,
  // from the launcher and the transport
  link_ended, connection_closed,
  // from the clock
  tick,
  // from the user, and from crjob
  signal, request_checkpoint, request_drain, request_end,
  // from the recorder
  replaced,
};

/** What an input does in one phase. */
struct Cell {
  bool admitted = false;
  std::uint8_t next = 0;  ///< phases that may follow, as bits
};

namespace cells {
constexpr std::uint8_t bit(Phase phase) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(phase)); }
/** The input is ignored. */
inline constexpr Cell o{};
/** It counts, and the phase stays. */
inline constexpr Cell x{true, 0};
/**
 * It may lead to: R running, C recovering, E ending, and finished, if there is no daemon to wait for. A recovery without a
 * usable wave runs again at once.
 */
inline constexpr Cell E{true, static_cast<std::uint8_t>(bit(Phase::ending) | bit(Phase::finished))};
inline constexpr Cell RCE{true, static_cast<std::uint8_t>(E.next | bit(Phase::recovering) | bit(Phase::running))};
}  // namespace cells

struct Rule {
  Input input;
  Cell starting, running, recovering, ending;  ///< finished ignores every input
  const char* effect;

  constexpr Cell in(Phase phase) const {
    switch (phase) {
      case Phase::starting: return starting;
      case Phase::running: return running;
      case Phase::recovering: return recovering;
      case Phase::ending: return ending;
      case Phase::finished: break;
    }
    return {};
  }
};

namespace cells {
inline constexpr Rule kRules[] = {
    // input                     starting run. recov. ending
    {Input::hello,               RCE,   RCE,  RCE,    x,   "starting: the last one launches, restarts or attaches the job; later: "
                                                           "welcome, or give up the daemon's earlier process; ending: Shutdown"},
    {Input::heartbeat,           x,     x,    x,      x,   "an answer, which grants a lease"},
    {Input::rank_started,        E,     E,    E,      o,   "note its pid; if it could not be started, end the job"},
    {Input::rank_ready,          x,     x,    x,      o,   "note where its transport listens; when all are ready, waves may begin"},
    {Input::rank_exited,         E,     RCE,  RCE,    E,   "it ended well: when all have, end the job; of a signal: recover; "
                                                           "otherwise end the job"},
    {Input::wave_done,           o,     RCE,  o,      o,   "when all ranks are saved: save the state, commit; an error: abort the "
                                                           "wave"},
    {Input::pin_wave,            o,     RCE,  x,      o,   "when all ranks have asked: a wave that all recoveries go back to; when "
                                                           "all release it, waves are taken as before. Recovering: only progress "
                                                           "of the program counts; they ask again"},
    {Input::staged,              o,     RCE,  x,      x,   "note what is in JOBDIR; when the wave is there: drop older ones; a "
                                                           "drain may move its ranks"},
    {Input::protect_done,        o,     RCE,  x,      o,   "note which images a node keeps for others; when the wave is safe: drop older "
                                                           "ones; a drain may move its ranks"},
    {Input::serving,             x,     RCE,  x,      o,   "note where a node hands images out; when all do, a recovery that waits for "
                                                           "this after an attach"},
    {Input::has_copy,            o,     x,    x,      o,   "note which node has a copy of kept memory; when another than the rank's own "
                                                           "has it: tell the rank"},
    {Input::restored,            o,     o,    RCE,    o,   "when all ranks are restored and what moved away has ended: Resume; an "
                                                           "error: the next recovery"},
    {Input::resumed,             o,     o,    RCE,    o,   "when all ranks have resumed, the job runs"},
    {Input::moved_away,          o,     x,    RCE,    o,   "processes that were moved to another node have ended: these may start "
                                                           "there, or resume"},
    {Input::output,              E,     E,    x,      x,   "print what is new; when all ranks have ended and all is said, end the "
                                                           "job"},
    {Input::link_lost,           o,     RCE,  RCE,    o,   "messages are lost: recover; the peer is not reached: suspect its node"},
    {Input::abort,               E,     E,    E,      o,   "end the job with that code"},
    {Input::log,                 x,     x,    x,      x,   "print it"},
    {Input::spawn,               o,     x,    x,      o,   "start processes; recovering: later"},
    {Input::spawn_known,         o,     E,    E,      o,   "when all daemons know the namespace, answer the parent"},
    {Input::pmix,                x,     x,    x,      x,   "fences, modex, names, events: joined and passed on"},
    {Input::link_ended,          RCE,   RCE,  RCE,    E,   "starting: a spare takes the node's place; later: suspect the node, or "
                                                           "give it up if its daemon has ended"},
    {Input::connection_closed,   RCE,   RCE,  RCE,    E,   "suspect the node; give it up if its ssh has ended, too; ending: "
                                                           "it is not awaited any more"},
    {Input::tick,                RCE,   RCE,  RCE,    E,   "deadlines; silent nodes are given up; a job that hangs goes "
                                                           "back; due waves begin"},
    {Input::signal,              E,     RCE,  E,      E,   "--checkpoint-on: a last wave, its staging, then the end; --rollback-on: recover; "
                                                           "INT, TERM, HUP: SIGTERM to all ranks, at the second time SIGKILL; others: to all ranks"},
    {Input::request_checkpoint,  x,     RCE,  x,      x,   "a wave now, or a refusal"},
    {Input::request_drain,       x,     RCE,  x,      x,   "a wave and its staging, then a recovery that moves the node's ranks; "
                                                           "or a refusal"},
    {Input::request_end,         E,     E,    E,      E,   "as SIGTERM"},
    {Input::replaced,            E,     E,    E,      E,   "another crrun owns JOBDIR: kill the ranks"},
};
}  // namespace cells

constexpr const Rule& rule(Input input) { return cells::kRules[static_cast<std::size_t>(input)]; }

namespace cells {
constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kRules); ++i)
    if (static_cast<std::size_t>(kRules[i].input) != i) return false;
  return std::size(kRules) == static_cast<std::size_t>(Input::replaced) + 1;
}
static_assert(in_order(), "one row for each input, in the order of Input");
}  // namespace cells

const char* name(Phase phase);

}  // namespace reprise::job
