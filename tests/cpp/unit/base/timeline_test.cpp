// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/timeline.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

class TimelineFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string text(const char* name) const {
    std::ostringstream out;
    out << std::ifstream(folder_ / name).rdbuf();
    return out.str();
  }

 private:
  std::filesystem::path folder_;
};

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Timeline, RemembersTheLastEventsOldestFirst) {
  Timeline timeline(3);
  for (std::int64_t step = 0; step < 5; ++step) timeline.end(timeline.begin({"compute", "step", step}));
  const auto events = timeline.last();
  ASSERT_EQ(events.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].step, static_cast<std::int64_t>(i) + 2);
    EXPECT_GE(events[i].end_ns, events[i].start_ns);
  }
  EXPECT_LE(events[0].end_ns, events[1].start_ns);
}

TEST(Timeline, SaysWhatIsUnderWayOnATrack) {
  Timeline timeline;
  EXPECT_FALSE(timeline.current("communication"));
  const ScopedEvent compute(&timeline, {"compute", "step", 7});
  {
    const ScopedEvent reduce(&timeline, {"allreduce", "communication", 7, 2, 1024});
    ASSERT_TRUE(timeline.current("communication"));
    EXPECT_EQ(timeline.current("communication")->bucket, 2);
    EXPECT_EQ(timeline.current("step")->name, "compute");
  }
  EXPECT_FALSE(timeline.current("communication"));
}

TEST(Timeline, AnEndOfAForgottenEventIsHarmless) {
  Timeline timeline(1);
  const std::uint64_t first = timeline.begin({"first", "step"});
  const std::uint64_t second = timeline.begin({"second", "step"});
  timeline.end(first);
  EXPECT_EQ(timeline.current("step")->name, "second");
  timeline.end(second);
  EXPECT_FALSE(timeline.current("step"));
}

TEST_F(TimelineFile, IsWholeAfterEveryFlush) {
  Timeline timeline;
  timeline.open(path("trace.json"), 3, 1000);
  EXPECT_EQ(count(text("trace.json"), "\"rank 3\""), 1);
  for (std::int64_t round = 1; round <= 3; ++round) {
    timeline.end(timeline.begin({"compute", "step", round}));
    timeline.flush();
    const std::string now = text("trace.json");
    EXPECT_EQ(now.substr(0, 2), "[\n");
    EXPECT_EQ(now.substr(now.size() - 3), "\n]\n");
    EXPECT_EQ(count(now, "\"ph\": \"X\""), round);
    EXPECT_EQ(count(now, "\n]"), 1);
  }
}

TEST_F(TimelineFile, EventsOfSeveralThreadsAllArrive) {
  {
    Timeline timeline(400);  // room for all events, because a thread may sleep between begin() and end()
    timeline.open(path("trace.json"), 0, 0);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&timeline] {
        for (int i = 0; i < 100; ++i) {
          const ScopedEvent event(&timeline, {"work", "step", i});
          timeline.flush();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }  // the destructor writes the remaining events
  EXPECT_EQ(count(text("trace.json"), "\"name\": \"work\""), 400);
}

TEST_F(TimelineFile, TheRecordOfAFailureNamesReasonAndWhatWasUnderWay) {
  Timeline timeline;
  const ScopedEvent reduce(&timeline, {"allreduce", "communication", 12, 4, 99});
  timeline.dump(path("flight.json"), 1, "rank 2 \"sleeps\"\n");
  const std::string record = text("flight.json");
  EXPECT_NE(record.find("\"reason\": \"rank 2 \\\"sleeps\\\"\\u000a\""), std::string::npos) << record;
  EXPECT_NE(record.find("\"done\": false, \"about\": {\"step\": 12, \"bucket\": 4, \"bytes\": 99}"), std::string::npos)
      << record;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(path("flight.json")).parent_path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(TimelineFile, FollowsNoLinkAndWaitsForNoPipe) {
  std::ofstream(path("precious")) << "precious";
  std::filesystem::create_symlink(path("precious"), path("link"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  Timeline timeline;
  EXPECT_THROW(timeline.open(path("link"), 0, 0), Error);
  EXPECT_THROW(timeline.open(path("pipe"), 0, 0), Error);
  EXPECT_EQ(text("precious"), "precious");
}

TEST(Timeline, AFileThatCannotBeMadeIsAnError) {
  Timeline timeline;
  EXPECT_THROW(timeline.open("/nowhere/trace.json", 0, 0), Error);
  EXPECT_THROW(timeline.dump("/nowhere/flight.json", 0, ""), Error);
  EXPECT_THROW(Timeline(0), Error);
}

}  // namespace
}  // namespace floodtide
