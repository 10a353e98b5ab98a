// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/named.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/samples.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {

/// A stack of slices: an entry of [[data.slices]].
struct SliceStack {
  VolumeReference images;  ///< [n, y, x] intensities
  VolumeReference masks;   ///< [n, y, x] integer classes
  std::string patients;    ///< [n] integers, "file:dataset"; empty: the whole stack is one patient
};

/// Random changes of training slices; 0 and false switch one off.
struct SliceAugmentation {
  bool flip_y = false;      ///< reversed with probability one half
  bool flip_x = false;      ///< reversed with probability one half
  double rotation_deg = 0;  ///< by an angle from [-rotation_deg, rotation_deg], at most 180
  double scale = 0;         ///< by a factor from [1 / (1 + scale), 1 + scale], its logarithm uniform
  double gain = 0;          ///< normalised intensities times a factor from [1 - gain, 1 + gain], below 1
  double offset = 0;        ///< plus a number from [-offset, offset]
  double noise = 0;         ///< plus normal noise of this standard deviation, another for each pixel
};

/// Which patients a source takes.
enum class SlicePart { all, training, validation };
constexpr Names<SlicePart, 3> names_of(SlicePart) {
  return {"part", {{{"all", SlicePart::all}, {"training", SlicePart::training}, {"validation", SlicePart::validation}}}};
}

struct SliceOptions {
  std::array<std::int64_t, 2> size{};  ///< (y, x): the centre is cut out, or `outside` put around; (0, 0): as stored
  std::int64_t classes = 2;            ///< masks hold 0 to classes - 1; 2 to 255
  double mean = 0;                     ///< intensities become (value - mean) / std
  double std = 1;
  double outside = 0;  ///< stored intensity of what lies outside a slice (0 is air where CT is clipped at 0); class 0 there
  SlicePart part = SlicePart::all;
  double validation_share = 0;  ///< of the patients, when `part` is not all: the split depends on split_seed only
  std::uint64_t split_seed = 0;
  SliceAugmentation augmentation;
  SampleOrderOptions order;
};

/// Slices with class masks from one or more stacks, whole patients in each part.
class SliceSource final : public SampleSource {
 public:
  /// Opens and checks all stacks. Throws as open_volume does, and: Error(shape_mismatch) if a stack's images, masks and
  /// patients do not fit each other, or stacks differ in (y, x) and no size is given; Error(invalid_argument) for options out
  /// of range, a part without patients, or a step that takes more slices than there are.
  SliceSource(const std::vector<SliceStack>& stacks, const SliceOptions& options);
  ~SliceSource() override;
  SliceSource(const SliceSource&) = delete;
  SliceSource& operator=(const SliceSource&) = delete;
  SliceSource(SliceSource&&) = delete;
  SliceSource& operator=(SliceSource&&) = delete;

  [[nodiscard]] const SliceOptions& options() const noexcept;
  [[nodiscard]] const SampleFormat& format() const noexcept override;
  [[nodiscard]] const SampleOrder& order() const noexcept override;
  /// Patients.
  [[nodiscard]] std::int64_t groups() const noexcept override;
  /// The patient's number, or the stack's name.
  [[nodiscard]] std::string group_name(std::int64_t group) const override;
  /// Slices.
  [[nodiscard]] std::int64_t fixed_size() const noexcept override;
  /// Where slice `number` is stored: its stack and its index there.
  struct Place {
    std::int64_t stack;
    std::int64_t index;
  };
  [[nodiscard]] Place place(std::int64_t number) const;
  /// Reads the masks of slices [begin, end) and throws as fixed() does if one has an unexpected class: for the start of a run,
  /// each rank its share, rather than the moment when the slice comes up. Throws Error(out_of_range) for other slices.
  void check_masks(std::int64_t begin, std::int64_t end, const Progress& progress = {}) const;

 private:
  /// Throws Error(invalid_file) for a mask with a class that is not expected (naming file, slice and value) or NaN intensities.
  [[nodiscard]] Sample read_fixed(std::int64_t number) const override;
  [[nodiscard]] Sample read_training(std::int64_t epoch, std::int64_t number) const override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws Error(invalid_argument) naming the patient if one has slices in both sources: numbers from `patients` datasets mean
/// the same patient wherever they occur; a stack without them is a patient of its own, the same wherever it is named.
void require_different_patients(const SliceSource& training, const SliceSource& validation);

}  // namespace floodtide::data
