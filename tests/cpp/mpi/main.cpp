// SPDX-License-Identifier: Apache-2.0
// Usage under mpiexec: floodtide_mpi_tests PLUGIN LIBRARY RANKS [GoogleTest options]. If one rank fails, all ranks fail.
#include <gtest/gtest.h>

#include <cstdlib>

#include "floodtide/comm/collectives.hpp"
#include "mpi/mpi_world.hpp"
#include "support/watchdog.hpp"

namespace floodtide::test {
namespace {

struct World {
  std::unique_ptr<comm::MpiLibrary> library;
  std::unique_ptr<comm::Communicator> comm;
  int expected_ranks = 0;
};

World& world() {
  static World one;
  return one;
}

}  // namespace

comm::MpiLibrary& mpi_library() { return *world().library; }
comm::Communicator& mpi_world() { return *world().comm; }
int mpi_expected_ranks() { return world().expected_ranks; }

}  // namespace floodtide::test

int main(int argc, char** argv) {
  using namespace floodtide;
  testing::InitGoogleTest(&argc, argv);
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s PLUGIN LIBRARY RANKS\n", argv[0]);
    return 2;
  }
  const test::Watchdog watchdog(std::chrono::seconds(110));
  auto& world = test::world();
  world.library = std::make_unique<comm::MpiLibrary>(comm::MpiOptions{argv[1], {argv[2]}, 4096});
  world.comm = world.library->world();
  world.expected_ranks = std::atoi(argv[3]);
  const int result = RUN_ALL_TESTS();
  world.comm.reset();
  world.library->finish();
  return result;
}
