// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/failure.hpp"

#include <new>
#include <stdexcept>
#include <system_error>

namespace floodtide {

Error as_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::io, "out of memory"};
  } catch (const std::length_error&) {  // a container larger than its maximum size
    return {ErrorCode::io, "out of memory"};
  } catch (const std::system_error& error) {
    return {ErrorCode::io, str_cat("the system refuses: ", error.what(), " (limits of threads, memory or open files?)")};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception of unknown type"};
  }
}

}  // namespace floodtide
