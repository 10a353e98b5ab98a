// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of `data`: temporary folders, volumes written with one call, and error messages.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"
#include "support/temporary_folder.hpp"

namespace floodtide::data {

using test::TemporaryFolder;

template <class T>
void write_dataset(const std::string& path, const std::string& dataset, const std::vector<std::int64_t>& shape,
                   const std::vector<T>& values, const DatasetOptions& options = {}) {
  Hdf5File file = Hdf5File::create(path);
  file.write_array<T>(dataset, shape, values, options);
  file.commit();
}

/// Return the Error that `action` throws. The test fails if `action` does not throw.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an Error";
  return Error(ErrorCode::internal, "none");
}

/// Expects an Error with this code. Its message must be one line, and contain all given parts.
inline void expect_error(const std::function<void()>& action, ErrorCode code, const std::vector<std::string>& parts) {
  const Error error = error_of(action);
  const std::string message = error.what();
  EXPECT_EQ(name(error.code()), name(code)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
}

}  // namespace floodtide::data
