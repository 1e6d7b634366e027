// SPDX-License-Identifier: LGPL-2.1-or-later
// The states of a task, as a table.
#pragma once

#include <array>
#include <optional>

namespace croff {

enum class State {
  held,      // waits for its booster, or for tasks on which it depends
  sending,   // its inputs are on the way
  running,   // the booster executes it
  finished,  // waits for clearance; the booster keeps its outputs
  fetching,  // its outputs are on the way
  fetched,   // its outputs are here, but do not count before the whole domain is here
  cleared,   // its outputs are in place; it is never executed again
  failed     // by itself: it is never executed again
};

enum class Event {
  launch,
  sent,    // the inputs have left
  done,    // the booster has executed it
  fetch,
  received,
  clear,
  lost,    // its booster or a member of its domain was lost
  failure
};

struct Transition {
  State from;
  Event event;
  State to;
};

inline constexpr std::array kTransitions{
    Transition{State::held, Event::launch, State::sending},
    Transition{State::sending, Event::sent, State::running},
    Transition{State::sending, Event::done, State::finished},  // its notice can overtake the end of the transfer
    Transition{State::finished, Event::sent, State::finished},
    Transition{State::fetching, Event::sent, State::fetching},
    Transition{State::fetched, Event::sent, State::fetched},
    Transition{State::running, Event::done, State::finished},
    Transition{State::finished, Event::fetch, State::fetching},
    Transition{State::fetching, Event::received, State::fetched},
    Transition{State::fetched, Event::clear, State::cleared},
    // Whatever is not cleared is executed again.
    Transition{State::sending, Event::lost, State::held},
    Transition{State::running, Event::lost, State::held},
    Transition{State::finished, Event::lost, State::held},
    Transition{State::fetching, Event::lost, State::held},
    Transition{State::fetched, Event::lost, State::held},
    Transition{State::held, Event::lost, State::held},
    Transition{State::held, Event::failure, State::failed},  // a task on which it depends has failed
    Transition{State::sending, Event::failure, State::failed},
    Transition{State::running, Event::failure, State::failed},
    Transition{State::finished, Event::failure, State::failed},
    Transition{State::fetching, Event::failure, State::failed},
    Transition{State::fetched, Event::failure, State::failed},
};

/** @return nothing if the event is impossible in this state */
constexpr std::optional<State> next(State from, Event event) {
  for (const Transition &transition : kTransitions)
    if (transition.from == from && transition.event == event) return transition.to;
  return std::nullopt;
}

constexpr bool over(State state) { return state == State::cleared || state == State::failed; }
constexpr bool on_booster(State state) {
  return state == State::sending || state == State::running || state == State::finished || state == State::fetching;
}

}  // namespace croff
