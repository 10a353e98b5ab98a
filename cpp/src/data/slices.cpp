// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/slices.hpp"

#include <algorithm>
#include <cmath>
#include <compare>

#include "data/purposes.hpp"
#include "data/slice_transform.hpp"
#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {
namespace {

constexpr std::int64_t kLargest32 = (std::int64_t{1} << 32) - 1;  // -1 of 32 bits without sign; that of 64 bits is read as -1
constexpr std::size_t kCacheBytes = std::size_t{4} << 20;         // a dataset: slices come in random order, stacks may be many

struct Stack {
  VolumePtr images;
  VolumePtr masks;
};

Stack open_stack(const SliceStack& names) {
  Stack stack{names.images.open(kCacheBytes), names.masks.open(kCacheBytes)};
  stack.images->require_type<float>();
  stack.masks->require_type<std::int64_t>();
  FLOODTIDE_REQUIRE(stack.images->shape() == stack.masks->shape(), shape_mismatch, stack.masks->name(), ": has shape ",
                    Show{stack.masks->shape()}, ", the images ", stack.images->name(), " have ", Show{stack.images->shape()});
  return stack;
}

void check(const SliceOptions& options) {
  FLOODTIDE_REQUIRE(options.classes >= 2 && options.classes <= 255, invalid_argument, "classes: ", options.classes,
                    " given, expected 2 to 255");
  FLOODTIDE_REQUIRE(options.std > 0 && std::isfinite(options.std) && std::isfinite(options.mean), invalid_argument,
                    "slices: mean ", options.mean, " and std ", options.std, ", expected finite ones, std above 0");
  FLOODTIDE_REQUIRE(std::isfinite(options.outside), invalid_argument, "outside: ", options.outside,
                    " given, expected a number");
  const auto [y, x] = options.size;
  FLOODTIDE_REQUIRE((y == 0 && x == 0) || (y > 0 && x > 0), invalid_argument, "size: ", Show{options.size},
                    " (y, x) given, expected two numbers above 0, or (0, 0) for slices as they are stored");
  require_valid(options.augmentation);
}

Shape<2> common_size(const std::vector<Stack>& stacks, const SliceOptions& options) {
  if (options.size[0] > 0) return options.size;
  const Vec3& first = stacks.front().images->shape();
  for (const Stack& stack : stacks) {
    const Vec3& shape = stack.images->shape();
    FLOODTIDE_REQUIRE(shape[1] == first[1] && shape[2] == first[2], shape_mismatch, stack.images->name(), ": slices of ",
                      shape[1], " x ", shape[2], ", ", stacks.front().images->name(), " has ", first[1], " x ", first[2],
                      "; give a size to cut or pad them to");
  }
  return {first[1], first[2]};
}

/// The patient of a slice: a numbered patient (stack -1), or a whole stack (number 0). The order does not depend on the paths
/// of the files, because the split of the patients follows this order.
struct Patient {
  std::int64_t stack = -1;
  std::int64_t number = 0;
  auto operator<=>(const Patient&) const = default;
};

/// Return the patient of each slice of a stack.
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

/// Return the sorted patients of a part.
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

}  // namespace

struct SliceSource::Impl {
  struct Slice {
    Place place;
    std::int64_t group;
  };
  std::vector<SliceStack> names;
  std::vector<Stack> stacks;
  SliceOptions options;
  SampleFormat format;
  std::vector<Patient> patients;  // sorted; a group is a place in this list
  std::vector<Slice> slices;
  std::optional<SampleOrder> order;  // set by the constructor

  [[nodiscard]] std::string name(const Patient& patient) const {
    return patient.stack < 0 ? std::to_string(patient.number) : names[static_cast<std::size_t>(patient.stack)].images.name();
  }

  [[nodiscard]] const Stack& stack(const Slice& slice) const { return stacks[static_cast<std::size_t>(slice.place.stack)]; }

  [[nodiscard]] Box box(const Slice& slice) const {
    const Vec3& shape = stack(slice).images->shape();
    return {{slice.place.index, 0, 0}, {1, shape[1], shape[2]}};
  }

  [[nodiscard]] Tensor<std::int64_t, 3> read_mask(const Slice& slice) const {
    const Volume& masks = *stack(slice).masks;
    const Box box = Impl::box(slice);
    Tensor<std::int64_t, 3> mask = masks.read_block<std::int64_t>(box);
    const bool is_signed = masks.type() != ElementType::uint64;  // whose values above 2^63 are read as negative numbers
    for (std::int64_t flat = 0; flat < mask.size(); ++flat) {
      std::int64_t& value = mask.data()[flat];
      if (value == -1 || value == kLargest32 || (is_signed && value < 0)) {
        value = kUnlabelled;
        continue;
      }
      FLOODTIDE_REQUIRE(value >= 0 && value < options.classes, invalid_file, masks.name(), ": slice ", box.start[0],
                        " has class ", value, " at ", flat / box.size[2], ", ", flat % box.size[2], " (y, x); expected 0 to ",
                        options.classes - 1, " (classes = ", options.classes, ")");
    }
    return mask;
  }

  [[nodiscard]] Sample read(std::int64_t number, const SliceTransform& transform) const {
    const Slice& slice = slices[static_cast<std::size_t>(number)];
    const Tensor<float, 3> image = stack(slice).images->read_block<float>(box(slice));
    const Tensor<std::int64_t, 3> mask = read_mask(slice);
    const Shape<2> stored{image.shape()[1], image.shape()[2]};
    const Shape<2> size{format.shape[1], format.shape[2]};
    Sample sample;
    sample.group = slice.group;
    sample.image = Tensor<float, 4>({1, size[0], size[1], 1});
    sample.classes = Tensor<std::uint8_t, 3>(format.shape);
    transform_image(transform, {image.data(), stored}, static_cast<float>(options.outside), {sample.image.data(), size});
    transform_mask(transform, {mask.data(), stored}, {sample.classes.data(), size});
    const auto mean = static_cast<float>(options.mean);
    const auto scale = static_cast<float>(1 / options.std);
    const auto gain = static_cast<float>(transform.gain);
    const auto offset = static_cast<float>(transform.offset);
    for (float& value : sample.image.span()) value = gain * ((value - mean) * scale) + offset;
    return sample;
  }
};

SliceSource::SliceSource(const std::vector<SliceStack>& stacks, const SliceOptions& options) : impl_(std::make_unique<Impl>()) {
  check(options);
  FLOODTIDE_REQUIRE(!stacks.empty(), invalid_argument, "slices: no stack given");
  impl_->names = stacks;
  impl_->options = options;
  std::vector<Patient> patients;  // of every slice of all stacks
  std::vector<Place> places;
  for (const SliceStack& names : stacks) {
    impl_->stacks.push_back(open_stack(names));
    const std::int64_t slices = impl_->stacks.back().images->shape()[0];
    const auto stack = static_cast<std::int64_t>(impl_->stacks.size()) - 1;
    const std::vector<Patient> own = read_patients(names, stack, slices);
    patients.insert(patients.end(), own.begin(), own.end());
    for (std::int64_t index = 0; index < slices; ++index) places.push_back({stack, index});
  }
  const Shape<2> size = common_size(impl_->stacks, options);
  impl_->format = {{1, size[0], size[1]}, options.classes, true};
  impl_->patients = choose_patients(patients, options);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto found = std::lower_bound(impl_->patients.begin(), impl_->patients.end(), patients[i]);
    if (found == impl_->patients.end() || *found != patients[i]) continue;
    impl_->slices.push_back({places[i], found - impl_->patients.begin()});
  }
  impl_->order.emplace(static_cast<std::int64_t>(impl_->slices.size()), options.order,
                       "slices of " + stacks.front().images.name() + (stacks.size() > 1 ? " and other stacks" : ""));
}

SliceSource::~SliceSource() = default;

const SliceOptions& SliceSource::options() const noexcept { return impl_->options; }
const SampleFormat& SliceSource::format() const noexcept { return impl_->format; }
const SampleOrder& SliceSource::order() const noexcept { return *impl_->order; }
std::int64_t SliceSource::groups() const noexcept { return std::ssize(impl_->patients); }
std::int64_t SliceSource::fixed_size() const noexcept { return std::ssize(impl_->slices); }

std::string SliceSource::group_name(std::int64_t group) const {
  FLOODTIDE_REQUIRE(group >= 0 && group < groups(), out_of_range, "patient ", group, " of ", groups());
  return impl_->name(impl_->patients[static_cast<std::size_t>(group)]);
}

SliceSource::Place SliceSource::place(std::int64_t number) const {
  FLOODTIDE_REQUIRE(number >= 0 && number < fixed_size(), out_of_range, "slice ", number, " of ", fixed_size());
  return impl_->slices[static_cast<std::size_t>(number)].place;
}

void SliceSource::check_masks(std::int64_t begin, std::int64_t end, const Progress& progress) const {
  FLOODTIDE_REQUIRE(begin >= 0 && begin <= end && end <= fixed_size(), out_of_range, "slices ", begin, " to ", end, " of ",
                    fixed_size());
  for (std::int64_t number = begin; number < end; ++number) {
    static_cast<void>(impl_->read_mask(impl_->slices[static_cast<std::size_t>(number)]));
    report(progress, number + 1 - begin, end - begin);
  }
}

Sample SliceSource::read_fixed(std::int64_t number) const { return impl_->read(number, {}); }

Sample SliceSource::read_training(std::int64_t epoch, std::int64_t number) const {
  const SliceAugmentation& augmentation = impl_->options.augmentation;
  Philox random(impl_->options.order.seed,
                stream_id(kAugmentationPurpose, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(number)));
  Sample sample = impl_->read(number, draw_transform(augmentation, random));
  if (augmentation.noise > 0) add_noise(augmentation.noise, random, sample.image.span());
  return sample;
}

void require_different_patients(const SliceSource& training, const SliceSource& validation) {
  std::vector<std::string> names;
  for (std::int64_t group = 0; group < training.groups(); ++group) names.push_back(training.group_name(group));
  std::sort(names.begin(), names.end());
  for (std::int64_t group = 0; group < validation.groups(); ++group) {
    FLOODTIDE_REQUIRE(!std::binary_search(names.begin(), names.end(), validation.group_name(group)), invalid_argument,
                      "validation: patient ", validation.group_name(group),
                      " has slices in the training stacks too; expected different patients");
  }
}

}  // namespace floodtide::data
