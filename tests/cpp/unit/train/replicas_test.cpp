// SPDX-License-Identifier: Apache-2.0
#include "train/replicas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "support/threads.hpp"

namespace floodtide::train {
namespace {

/// Return the error message on all ranks if the ranks `odd` have the hashes `different`, or "" without an error.
std::string told(int ranks, const std::vector<int>& odd, ReplicaHashes different) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  comm::run_threads(ranks, [&](comm::Communicator& comm) {
    const bool is_odd = std::ranges::find(odd, comm.rank()) != odd.end();
    try {
      require_equal(comm, is_odd ? different : ReplicaHashes{1, 2, 3}, 40);
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), ErrorCode::communication);
      said[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (const std::string& text : said) EXPECT_EQ(text, said[0]);
  return said[0];
}

TEST(Replicas, EqualOnesPass) { EXPECT_EQ(told(3, {}, {}), ""); }

TEST(Replicas, RanksThatDifferFromMostAreNamed) {
  EXPECT_EQ(told(2, {1}, {9, 2, 3}), "train: rank 1 holds other parameters than rank 0 after step 40; they are not saved");
  EXPECT_EQ(told(3, {0}, {9, 2, 3}), "train: rank 0 holds other parameters than ranks 1, 2 after step 40; they are not saved");
  EXPECT_EQ(told(4, {1, 2}, {1, 0x8000000000000000ULL, 3}),
            "train: ranks 1, 2 hold other averaged parameters than ranks 0, 3 after step 40; they are not saved");
  EXPECT_EQ(told(3, {2}, {1, 2, 0}),
            "train: rank 2 holds another optimizer state than ranks 0, 1 after step 40; they are not saved");
}

}  // namespace
}  // namespace floodtide::train
