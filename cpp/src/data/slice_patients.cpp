// SPDX-License-Identifier: Apache-2.0
#include "data/slice_patients.hpp"

#include <algorithm>
#include <cmath>

#include "data/purposes.hpp"
#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {

std::vector<Patient> read_patients(const SliceStack& stack, std::int64_t stack_number, std::int64_t slices) {
  if (stack.patients.empty()) return std::vector<Patient>(static_cast<std::size_t>(slices), {stack_number, 0});
  const DatasetName name = parse_dataset_name(stack.patients);
  const Hdf5File file = Hdf5File::open(name.file);
  const DatasetInfo info = file.info(name.dataset);
  FLOODTIDE_REQUIRE(info.shape.size() == 1 && is_integer(info.type), invalid_file, stack.patients, ": is ",
                    data::name(info.type), " of shape ", Show{info.shape}, "; expected one integer a slice");
  FLOODTIDE_REQUIRE(info.shape[0] == slices, shape_mismatch, stack.patients, ": has ", info.shape[0], " patients, ",
                    stack.images.name(), " has ", slices, " slices");
  std::vector<Patient> patients;
  with_type(info.type, [&](auto sample) {
    for (const auto number : file.read_array<decltype(sample)>(name.dataset).values) {
      patients.push_back({-1, static_cast<std::int64_t>(number)});
    }
  });
  return patients;
}

std::vector<Patient> choose_patients(std::span<const Patient> of_slices, const SliceOptions& options) {
  std::vector<Patient> all(of_slices.begin(), of_slices.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const double share = options.validation_share;
  if (options.part == SlicePart::all) {
    FLOODTIDE_REQUIRE(share == 0, invalid_argument, "validation_share: ", share,
                      " given, expected 0 where all patients are taken");
    return all;
  }
  FLOODTIDE_REQUIRE(share > 0 && share < 1, invalid_argument, "validation_share: ", share,
                    " given, expected a share of the patients above 0 and below 1");
  const std::int64_t held_out = std::llround(share * static_cast<double>(all.size()));
  const IndexPermutation order(options.split_seed, stream_id(kSplitPurpose), all.size());
  std::vector<Patient> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool validation = static_cast<std::int64_t>(order(i)) < held_out;
    if (validation == (options.part == SlicePart::validation)) chosen.push_back(all[i]);
  }
  FLOODTIDE_REQUIRE(!chosen.empty(), invalid_argument, "validation_share: ", share, " of ", all.size(),
                    all.size() == 1 ? " patient" : " patients", " leaves none for ",
                    options.part == SlicePart::validation ? "validation" : "training", "; expected at least one in each part");
  return chosen;
}

}  // namespace floodtide::data
