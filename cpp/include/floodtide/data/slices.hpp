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

/// A stack of slices: a table [[data.slices]] of a configuration.
struct SliceStack {
  VolumeReference images;  ///< [n, y, x] intensities
  VolumeReference masks;   ///< [n, y, x] integer classes
  std::string patients;    ///< [n] integers, "file:dataset"; empty: the whole stack is one patient
};

/// Random changes of training slices. 0 and false switch a change off.
struct SliceAugmentation {
  bool flip_y = false;      ///< reversed with probability one half
  bool flip_x = false;      ///< reversed with probability one half
  double rotation_deg = 0;  ///< largest angle of a rotation, in degrees, 0 to 180
  double scale = 0;         ///< magnification is log-uniform in [1 / (1 + scale), 1 + scale]
  double gain = 0;          ///< intensities are multiplied by a factor in [1 - gain, 1 + gain]; below 1
  double offset = 0;        ///< a number in [-offset, offset] is added to all intensities
  double noise = 0;         ///< standard deviation of the normal noise of each pixel
};

/// The patients that a source takes.
enum class SlicePart { all, training, validation };
constexpr Names<SlicePart, 3> names_of(SlicePart) {
  return {"part", {{{"all", SlicePart::all}, {"training", SlicePart::training}, {"validation", SlicePart::validation}}}};
}

struct SliceOptions {
  std::array<std::int64_t, 2> size{};  ///< (y, x) to crop or pad to; (0, 0): the stored size
  std::int64_t classes = 2;            ///< masks hold 0 to classes - 1; 2 to 255
  double mean = 0;                     ///< intensities become (value - mean) / std
  double std = 1;
  double outside = 0;  ///< stored intensity of padding, whose class is 0
  SlicePart part = SlicePart::all;
  double validation_share = 0;  ///< share of the patients for validation, if `part` is not all
  std::uint64_t split_seed = 0;
  SliceAugmentation augmentation;
  SampleOrderOptions order;
};

/// Slices with class masks from one or more stacks. All slices of a patient are in the same part.
class SliceSource final : public SampleSource {
 public:
  /// Opens and checks all stacks. Throws the errors of open_volume(). Throws Error(shape_mismatch) if images, masks and
  /// patients of a stack have different lengths, or if stacks differ in (y, x) and no size is given. Throws
  /// Error(invalid_argument) for options outside their ranges, a part without patients, or a step that takes more slices than
  /// the part has.
  SliceSource(const std::vector<SliceStack>& stacks, const SliceOptions& options);
  ~SliceSource() override;
  SliceSource(const SliceSource&) = delete;
  SliceSource& operator=(const SliceSource&) = delete;
  SliceSource(SliceSource&&) = delete;
  SliceSource& operator=(SliceSource&&) = delete;

  [[nodiscard]] const SliceOptions& options() const noexcept;
  [[nodiscard]] const SampleFormat& format() const noexcept override;
  [[nodiscard]] const SampleOrder& order() const noexcept override;
  /// Return the number of patients.
  [[nodiscard]] std::int64_t groups() const noexcept override;
  /// Return the number of the patient, or the name of the stack.
  [[nodiscard]] std::string group_name(std::int64_t group) const override;
  /// Return the number of slices.
  [[nodiscard]] std::int64_t fixed_size() const noexcept override;
  /// Where a slice is stored: its stack, and its index in the stack.
  struct Place {
    std::int64_t stack;
    std::int64_t index;
  };
  [[nodiscard]] Place place(std::int64_t number) const;
  /// Read the masks of slices [begin, end), and throw the error of fixed() if a mask has an unexpected class. At the start of a
  /// run, each rank checks its share. Throws Error(out_of_range) for other slices.
  void check_masks(std::int64_t begin, std::int64_t end, const Progress& progress = {}) const;

 private:
  /// Throws Error(invalid_file) for NaN intensities, and for a mask with an unexpected class. The message names file, slice and
  /// value.
  [[nodiscard]] Sample read_fixed(std::int64_t number) const override;
  [[nodiscard]] Sample read_training(std::int64_t epoch, std::int64_t number) const override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Check that no patient has slices in both sources. Throws Error(invalid_argument) with the patient's name. Equal numbers in
/// `patients` datasets are the same patient. A stack without patient numbers is one patient, the same in both sources.
void require_different_patients(const SliceSource& training, const SliceSource& validation);

}  // namespace floodtide::data
