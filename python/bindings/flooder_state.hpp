// SPDX-License-Identifier: Apache-2.0
// What a flooder has found so far, between C++ and a Python dictionary.
#pragma once

#include "floodtide/segment/flooder.hpp"
#include "types.hpp"

namespace floodtide::bindings {

using StateDict = Typed<"dict[str, typing.Any]">;

/// Return the state of a flooder: arrays, numbers, and dictionaries of counts and times. Arrays of the image's size are
/// read-only, and share the flooder's memory.
StateDict state_of(const segment::Flooder& flooder);

/// Give a flooder a state that state_of() has returned. Throws what Flooder::restore() throws, Error(invalid_argument) and
/// Error(shape_mismatch) for arrays of other types, and KeyError for missing ones.
void restore(segment::Flooder& flooder, const StateDict& values);

}  // namespace floodtide::bindings
