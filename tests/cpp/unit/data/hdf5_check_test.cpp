// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_check.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {
namespace {

/// A folder with a file to check, and a script in the place of the program that checks files.
class Hdf5Check : public testing::Test {
 public:
  static void SetUpTestSuite() {  // the first check reads the environment
    ::setenv("PMI_RANK", "3", 1);
    ::setenv("HDF5_USE_FILE_LOCKING", "BEST_EFFORT", 1);
  }
  static void TearDownTestSuite() {
    ::unsetenv("PMI_RANK");
    ::unsetenv("HDF5_USE_FILE_LOCKING");
  }

 protected:
  Hdf5Check() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(file_) << "a file";
  }
  ~Hdf5Check() override {
    set_hdf5_checker("");
    std::filesystem::remove_all(folder_);
  }

  void check_with(const std::string& commands) const {
    const std::string program = folder_ / "checker";
    std::ofstream(program) << "#!/bin/sh\necho >>\"$0.calls\"\n" << commands << '\n';
    ::chmod(program.c_str(), 0755);
    set_hdf5_checker(program);
  }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(check_hdf5(file_));
    } catch (const Error& error) {
      return (error.code() == ErrorCode::invalid_file ? "invalid_file: " : "io: ") + std::string(error.what());
    }
    return "";
  }
  [[nodiscard]] auto calls() const { return std::filesystem::file_size(folder_ / "checker.calls"); }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("floodtide-check-" + std::to_string(::getpid()));
  std::string file_ = folder_ / "file.h5";
};

TEST_F(Hdf5Check, RemembersTheAnswerUntilTheFileChanges) {
  check_with("printf w");
  EXPECT_TRUE(check_hdf5(file_));
  EXPECT_TRUE(check_hdf5(file_));
  EXPECT_EQ(calls(), 1U);
  std::ofstream(file_) << "another file";
  EXPECT_TRUE(check_hdf5(file_));
  EXPECT_EQ(calls(), 2U);
}

TEST_F(Hdf5Check, TellsWhetherAllObjectsWereRead) {
  check_with("[ -z \"$2\" ] && printf p || printf w");
  EXPECT_FALSE(check_hdf5(file_));
  EXPECT_TRUE(check_hdf5(file_, "dataset"));
}

TEST_F(Hdf5Check, RefusesAFileThatTheLibraryCrashesWith) {
  for (const char* const signal : {"SEGV", "BUS", "FPE", "ABRT"}) {
    check_with(std::string("kill -") + signal + " $$");
    EXPECT_EQ(refusal(), "invalid_file: " + file_ +
                             ": is damaged: the HDF5 library crashed while it read the file; use another copy of the file");
  }
  check_with("exit 1");  // as the address sanitizer ends a program
  EXPECT_NE(refusal().find("crashed while it read"), std::string::npos);
}

TEST_F(Hdf5Check, RefusesAFileThatTheLibraryComesToNoEndWith) {
  check_with("kill -XCPU $$");
  for (int i = 0; i < 2; ++i) EXPECT_NE(refusal().find("does not come to an end with it"), std::string::npos);
  EXPECT_EQ(calls(), 1U);
}

TEST_F(Hdf5Check, BlamesNoFileForAProgramThatSomebodyEndsOrThatCannotRun) {
  check_with("kill -KILL $$");
  EXPECT_TRUE(refusal().starts_with("io: " + file_ + ": could not be checked")) << refusal();
  check_with("exit 127");
  EXPECT_TRUE(refusal().starts_with("io: " + (folder_ / "checker").string() + ": cannot be run")) << refusal();
  set_hdf5_checker(folder_ / "nothing");
  EXPECT_TRUE(refusal().starts_with("io: " + (folder_ / "nothing").string() + ": cannot be started")) << refusal();
}

TEST_F(Hdf5Check, GivesTheProgramOnlyWhatHdf5Reads) {
  check_with("[ -z \"$PMI_RANK\" ] && [ \"$HDF5_USE_FILE_LOCKING\" = BEST_EFFORT ] && printf w");
  EXPECT_TRUE(check_hdf5(file_));
}

TEST_F(Hdf5Check, DoesNotRememberThatAFileCouldNotBeOpened) {
  check_with("printf u");
  EXPECT_FALSE(check_hdf5(file_));
  EXPECT_FALSE(check_hdf5(file_));
  EXPECT_EQ(calls(), 2U);
}

TEST_F(Hdf5Check, SignalsOfTheTerminalDoNotEndTheProgram) {
  check_with("kill -INT $$; kill -QUIT $$; kill -HUP $$; kill -TSTP $$; printf w");
  EXPECT_TRUE(check_hdf5(file_));
}

TEST_F(Hdf5Check, TheProgramReadsAFileThatIsNotHdf5) {
  set_hdf5_checker(FLOODTIDE_HDF5_CHECK);
  EXPECT_FALSE(check_hdf5(file_));
}

TEST_F(Hdf5Check, TheProgramReadsAFile) {
  std::filesystem::remove(file_);
  {
    Hdf5File file = Hdf5File::create(file_);
    file.create_group("group");
    file.commit();
  }
  set_hdf5_checker(FLOODTIDE_HDF5_CHECK);
  EXPECT_TRUE(check_hdf5(file_));
  EXPECT_TRUE(Hdf5File::open(file_).exists("group"));
}

}  // namespace
}  // namespace floodtide::data
