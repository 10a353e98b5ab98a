// SPDX-License-Identifier: Apache-2.0
// What the HDF5 library needs around each call: the lock, ids that close themselves, its error stack as text, and its types.
#pragma once

#define H5Dread_chunk_vers 1  // since HDF5 2.0, version 2 takes another argument
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// Held around every HDF5 call. Recursive, because an id may be closed by a destructor inside a locked function.
/// Takes the place of the default error printer, whose setting belongs to the calling thread. fork() waits for the lock, so
/// that a child finds the library between two calls.
class Hdf5Lock {
 public:
  Hdf5Lock() : lock_(mutex()) {
    // The library's own clean-up at exit would try again to write files that failed (see Hdf5File::Impl::give_up).
    static const herr_t no_clean_up_at_exit = H5dont_atexit();
    static_cast<void>(no_clean_up_at_exit);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> lock_;
};

/// Owns an HDF5 id. Move-only.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(hid_t id) noexcept : id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() { close(); }

  [[nodiscard]] hid_t id() const noexcept { return id_; }
  [[nodiscard]] bool valid() const noexcept { return id_ >= 0; }
  /// Closes now; false if the library reports a failure (data could not be flushed).
  bool close() noexcept {
    if (!valid()) return true;
    const Hdf5Lock lock;
    return Close(std::exchange(id_, H5I_INVALID_HID)) >= 0;
  }
  /// Forgets the id without closing it.
  void release() noexcept { id_ = H5I_INVALID_HID; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileHandle = Handle<H5Fclose>;
using DatasetHandle = Handle<H5Dclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using PropertyHandle = Handle<H5Pclose>;
using AttributeHandle = Handle<H5Aclose>;
using GroupHandle = Handle<H5Gclose>;
using ObjectHandle = Handle<H5Oclose>;

/// The innermost cause in the library's error stack: the system's message where there is one. Empties the stack. Every
/// HDF5 call that enters the library empties it too, so ask before any handle is closed.
[[nodiscard]] std::string hdf5_cause();

/// Return HDF5's id of the element type in memory.
[[nodiscard]] hid_t native_type(ElementType type);

/// Return the element type of a stored type. Throws Error(invalid_file) for other types; the message starts with `what`.
[[nodiscard]] ElementType element_type_of(hid_t type, const std::string& what);

}  // namespace floodtide::data
