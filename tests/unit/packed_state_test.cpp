// SPDX-License-Identifier: GPL-2.0-only
// A state that is kept in little memory comes out as it was.
#include <gmock/gmock.h>

#include "base/recent.h"
#include "image_sample.h"
#include "request/packed_state.h"

namespace reprise::test {
namespace {

TEST(PackedState, ComesOutAsItWas) {
  const Sample sample = small_sample();
  State state;
  state.process = sample.process;
  state.regs = sample.regs;
  state.regs.front().xstate = std::string(2696, '\0');
  state.regs.front().xstate[77] = 'x';
  state.regs.back().xstate.clear();
  state.id = {1, 2, 3};
  const std::string process = state.process.SerializeAsString();
  const std::vector<ThreadRegs> regs = state.regs;
  for (int round = 0; round < 3; ++round) {
    const PackedState packed = PackedState::of(state);
    EXPECT_LT(packed.bytes(), process.size() + 2696);
    EXPECT_EQ(state.process.ByteSizeLong(), 0u);
    EXPECT_TRUE(state.regs.empty());
    packed.restore(state);
    EXPECT_EQ(state.process.SerializeAsString(), process);
    ASSERT_EQ(state.regs.size(), regs.size());
    for (std::size_t i = 0; i < regs.size(); ++i) {
      EXPECT_EQ(state.regs[i].tid, regs[i].tid);
      EXPECT_EQ(std::memcmp(&state.regs[i].regs, &regs[i].regs, sizeof regs[i].regs), 0);
      EXPECT_EQ(state.regs[i].fpregs, regs[i].fpregs);
      EXPECT_EQ(state.regs[i].xstate, regs[i].xstate);
    }
  }
  EXPECT_EQ(state.id[2], 3);
}

TEST(Recent, ForgetsWhatWasNotUsedForLongest) {
  Recent recent(3);
  for (const std::uint64_t number : {1, 2, 3}) EXPECT_EQ(recent.use(number), std::nullopt);
  EXPECT_EQ(recent.use(1), std::nullopt);
  EXPECT_EQ(recent.use(4), 2u);
  recent.forget(3);
  EXPECT_EQ(recent.use(5), std::nullopt);
  EXPECT_EQ(recent.use(6), 1u);
}

}  // namespace
}  // namespace reprise::test
