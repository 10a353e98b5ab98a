// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/staged_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "floodtide/base/error.hpp"
#include "support/temporary_folder.hpp"

namespace floodtide {
namespace {

namespace fs = std::filesystem;

class StagedFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.file(name); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::size_t entries() const { return folder_.entries(); }
  void replace(const std::string& name, const std::string& text) const {
    replace_file(path(name), std::as_bytes(std::span(text)));
  }
  /// Expects Error(invalid_argument) with `word` in the message, and no new file in the folder.
  void expect_refused(const std::string& name, const std::string& word) const {
    const auto before = entries();
    try {
      replace(name, "new");
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_EQ(entries(), before);
  }

  test::TemporaryFolder folder_;
};

TEST_F(StagedFiles, ReplaceAFileWithItsRightsAndLeaveNothingElse) {
  put("a", "old");
  ::chmod(path("a").c_str(), 0640);
  replace("a", "new");
  EXPECT_EQ(text("a"), "new");
  EXPECT_EQ(static_cast<int>(fs::status(path("a")).permissions()), 0640);
  replace("b", "first");
  EXPECT_EQ(text("b"), "first");
  EXPECT_EQ(entries(), 2);
}

TEST_F(StagedFiles, FollowSymbolicLinksToTheFileAndKeepTheLink) {
  fs::create_directory(path("elsewhere"));
  put("elsewhere/a", "old");
  fs::create_symlink("elsewhere/a", path("link"));
  fs::create_symlink("link", path("link2"));
  replace("link2", "new");
  EXPECT_TRUE(fs::is_symlink(path("link2")) && fs::is_symlink(path("link")));
  EXPECT_EQ(text("elsewhere/a"), "new");
  fs::create_symlink("elsewhere/b", path("dangling"));
  replace("dangling", "made");
  EXPECT_EQ(text("elsewhere/b"), "made");
  fs::create_symlink("loop", path("loop"));
  expect_refused("loop", "symbolic links");
}

TEST_F(StagedFiles, RefuseWhatIsNoRegularFile) {
  fs::create_directory(path("folder"));
  ::mkfifo(path("fifo").c_str(), 0600);
  expect_refused("folder", "a folder");
  expect_refused("fifo", "a pipe");
  fs::create_symlink("/dev/null", path("null"));
  expect_refused("null", "a device");
  EXPECT_THROW(output_target("/dev/full"), Error);
  put("opened", "");
  const int opened = ::open(path("opened").c_str(), O_RDWR | O_CLOEXEC);
  for (const char* open_files : {"/proc/self/fd/", "/dev/fd/"}) {
    fs::remove(path("stdout"));
    fs::create_symlink(open_files + std::to_string(opened), path("stdout"));
    expect_refused("stdout", "open file");
    EXPECT_THROW(output_target(open_files + std::to_string(opened)), Error);
  }
  ::close(opened);
  EXPECT_THROW(output_target(""), Error);
  EXPECT_THROW(output_target(path("folder/")), Error);
  EXPECT_THROW(output_target(path("a") + '\0' + "b"), Error);  // the system would see the name before the zero
}

TEST_F(StagedFiles, AreReopenedByDescriptorSoThatALinkInTheirPlaceIsNotFollowed) {
  put("victim", "precious");
  StagedFile file(path("a"));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (!entry.path().string().ends_with(kTemporarySuffix)) continue;
    fs::remove(entry.path());
    fs::create_symlink(path("victim"), entry.path());
  }
  std::ofstream(file.open_name(), std::ios::app) << "by a library";
  EXPECT_EQ(text("victim"), "precious");
  struct stat status{};
  ASSERT_EQ(::fstat(::open(file.open_name().c_str(), O_RDONLY | O_CLOEXEC), &status), 0);
  EXPECT_EQ(status.st_size, 12);
}

TEST_F(StagedFiles, KeepTheResultBesideAFileThatAnotherProcessHasChanged) {
  put("a", "old");
  StagedFile file(path("a"));
  file.write(std::as_bytes(std::span("new", 3)));
  put("a", "changed by another");
  try {
    file.commit();
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    const std::string message = error.what();
    const std::string kept = message.substr(message.rfind(' ') + 1);
    std::ifstream stream(kept);
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>(stream), {}}), "new") << message;
  }
  EXPECT_EQ(text("a"), "changed by another");
}

TEST_F(StagedFiles, CopyTheirTargetAndAreRemovedWithoutCommit) {
  const std::string large(3 << 20, 'x');
  put("a", large);
  {
    StagedFile file(path("a"));
    file.copy_target();
    EXPECT_EQ(fs::file_size(file.open_name()), large.size());
    EXPECT_EQ(entries(), 2);
  }
  EXPECT_EQ(entries(), 1);
}

}  // namespace
}  // namespace floodtide
