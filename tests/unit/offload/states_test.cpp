// SPDX-License-Identifier: GPL-2.0-only
#include "graph/states.h"

#include <gtest/gtest.h>

namespace croff {
namespace {

TEST(States, ATaskWithoutLossesIsClearedOnce) {
  State state = State::held;
  for (Event event : {Event::launch, Event::sent, Event::done, Event::fetch, Event::received, Event::clear})
    state = *next(state, event);
  EXPECT_EQ(state, State::cleared);
  for (Event event : {Event::launch, Event::sent, Event::done, Event::fetch, Event::received, Event::clear, Event::lost,
                      Event::failure})
    EXPECT_FALSE(next(state, event)) << "it is never executed again";
}

TEST(States, ALossSendsBackWhateverIsNotCleared) {
  for (State state : {State::held, State::sending, State::running, State::finished, State::fetching, State::fetched})
    EXPECT_EQ(next(state, Event::lost), State::held);
}

TEST(States, NothingIsFetchedBeforeTheTaskHasFinished) {
  for (State state : {State::held, State::sending, State::running}) EXPECT_FALSE(next(state, Event::fetch));
}

TEST(States, OneTransitionForAnEvent) {
  for (std::size_t i = 0; i < kTransitions.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(kTransitions[i].from == kTransitions[j].from && kTransitions[i].event == kTransitions[j].event) << i << " and " << j;
}

TEST(States, ANoticeCanOvertakeTheEndOfATransfer) {
  EXPECT_EQ(next(State::sending, Event::done), State::finished);
  EXPECT_EQ(next(State::finished, Event::sent), State::finished);
}

}  // namespace
}  // namespace croff
