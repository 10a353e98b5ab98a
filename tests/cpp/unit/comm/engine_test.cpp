// SPDX-License-Identifier: Apache-2.0
#include "comm/engine.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "comm/access.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {
namespace {

TEST(Engine, KeepsASteadySetOfSchedulesHoweverManyThereWereBefore) {
  const std::unique_ptr<Communicator> ranks = self();
  const AllreduceRow& row = allreduce_row("ring");
  for (std::int64_t count = 1; count <= 200; ++count) {
    const MessageSchedule* made = engine_of(*ranks).allreduce_schedule(row, count).get();
    EXPECT_EQ(engine_of(*ranks).allreduce_schedule(row, count).get(), made) << count;
  }
}

}  // namespace
}  // namespace floodtide::comm
