// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "mpi/mpi_world.hpp"
#include "support/collective_checks.hpp"

namespace floodtide::test {
namespace {

TEST(Mpi, GivesAsManyRanksAsTheLauncherWasAskedFor) { EXPECT_EQ(mpi_world().size(), mpi_expected_ranks()); }

TEST(Mpi, StartedHereAtAThreadLevelThatIsEnough) {
  const std::string level = mpi_library().start();
  EXPECT_TRUE(level == "serialized" || level == "multiple") << level;
}

TEST(Mpi, VersionNamesTheFamilyOfThePlugin) {
  EXPECT_EQ(mpi_library().family() == "openmpi", mpi_library().version().find("Open MPI") != std::string::npos);
}

TEST(MpiCollectives, AllreduceAgreesWithWiderSumsAndOnAllRanks) { check_allreduce(mpi_world(), true); }
TEST(MpiCollectives, AllreduceOfHalvesIsRoundedOnceAnOperation) { check_half_allreduce(mpi_world(), true); }
TEST(MpiCollectives, ExchangesOfUnknownLengths) { check_exchanges(mpi_world()); }
TEST(MpiCollectives, ExchangesThatDoNotFitAreRefusedByAll) { check_refused_exchanges(mpi_world()); }
TEST(MpiCollectives, AllreduceOfManySegments) { check_long_allreduce(mpi_world(), true); }
TEST(MpiCollectives, NarrowWireHalvesTheBytes) { check_narrow_wire(mpi_world()); }
TEST(MpiCollectives, TrafficIsWhatTheSchedulesSay) { check_traffic(mpi_world()); }
TEST(MpiCollectives, TwoLevelsWithEmulatedNodes) { check_two_levels(*mpi_world().split(0, 0)); }
TEST(MpiCollectives, ManyOperationsInFlight) { check_concurrent_operations(mpi_world(), true); }
TEST(MpiCollectives, ReduceScatterOfAnyBlocks) { check_reduce_scatter(mpi_world()); }
TEST(MpiCollectives, RanksThatDisagreeAllThrowTheSame) { check_disagreements(mpi_world(), true); }
TEST(MpiCollectives, DisagreementsLeaveOtherOperationsAlone) { check_disagreements_in_flight(mpi_world()); }
TEST(MpiCollectives, GroupsAreComparedAsOne) { check_groups(mpi_world()); }
TEST(MpiCollectives, DisagreementsBesideARankThatHasJoined) { check_disagreements_with_joined(mpi_world(), true); }
TEST(MpiCollectives, JoinedRanksAnswerTheOthers) { check_join(mpi_world()); }
TEST(MpiCollectives, WaitingLeavesTheCore) { check_waiting_is_cheap(mpi_world()); }
TEST(MpiCollectives, MessagesKeepTheirOrder) { check_messages(mpi_world()); }
TEST(MpiCollectives, BroadcastFromEveryRoot) { check_broadcast(mpi_world()); }
TEST(MpiCollectives, AllgatherOfDifferentLengths) { check_allgather(mpi_world()); }
TEST(MpiCollectives, BarrierHoldsUntilTheLastCame) { check_barrier(mpi_world()); }
TEST(MpiCollectives, SplitByColorAndKey) { check_split(mpi_world()); }
TEST(MpiCollectives, AgreeGivesAllTheLowestRanksError) { check_agree(mpi_world()); }

TEST(MpiCollectives, ShortMessageIsAnErrorNamingBothRanks) {
  auto& comm = mpi_world();
  const std::byte data[3] = {};
  std::byte out[4] = {};
  const auto arrival = comm.receive(comm.rank(), 5, out);
  comm.send(comm.rank(), 5, data)->wait();
  try {
    arrival->wait();
    FAIL() << "a message of another length was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              str_cat("rank ", comm.rank(), ": message from rank ", comm.rank(), " with tag 5 has 3 bytes, expected 4"));
  }
}

TEST(MpiCollectives, WaitStopsWhenOnWaitThrowsAndTheReceiveIsTakenBack) {
  auto& comm = mpi_world();
  int calls = 0;
  comm.set_on_wait([&] {
    if (++calls == 2) throw std::runtime_error("interrupted");
  });
  std::byte out[8] = {};
  EXPECT_THROW(comm.receive(comm.rank(), 6, out)->wait(), std::runtime_error);
  comm.set_on_wait({});
  EXPECT_EQ(calls, 2);
  const std::byte data[8] = {};
  const auto arrival = comm.receive(comm.rank(), 6, out);  // gets the message that the cancelled receive did not take
  comm.send(comm.rank(), 6, data)->wait();
  arrival->wait();
}

TEST(MpiCollectives, ASendThatNobodyReceivesIsGivenUp) {
  const auto comm = mpi_world().split(0, mpi_world().rank());
  std::vector<std::byte> sent(std::size_t{8} << 20U), out(sent.size());  // longer than what a library sends ahead
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) static_cast<void>(comm->send(comm->rank(), 5, sent));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  for (int i = 0; i < 3; ++i) comm->receive(comm->rank(), 5, out)->wait();  // so that MPI ends
}

}  // namespace
}  // namespace floodtide::test
