// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/train/gradient_products.hpp"
#include "floodtide/train/network_file.hpp"
#include "floodtide/train/validation.hpp"
#include "floodtide/train/walkers.hpp"
#include "options.hpp"
#include "path_name.hpp"
#include "unlocked.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

py::dict scores_dict(const evaluate::VoxelCounts& counts, double cross_entropy) {
  py::dict scores;
  scores["cross_entropy"] = cross_entropy;
  scores["average_precision"] = counts.average_precision();
  for (const auto& [index, suffix] : {std::pair<std::size_t, const char*>{0, "50"}, {1, "90"}}) {
    const evaluate::BinaryScores binary = counts.counts(index).scores();
    scores[py::str(std::string("f1_") + suffix)] = binary.f1;
    scores[py::str(std::string("mcc_") + suffix)] = binary.mcc;
    scores[py::str(std::string("precision_") + suffix)] = binary.precision;
    scores[py::str(std::string("recall_") + suffix)] = binary.recall;
    scores[py::str(std::string("accuracy_") + suffix)] = binary.accuracy;
  }
  return scores;
}

py::array_t<double> copied(const Tensor<double, 2>& table) { return py::array_t<double>(table.shape(), table.data()); }

double mean_cross_entropy(const Tensor<double, 2>& centres) {
  double sum = 0, voxels = 0;
  for (std::int64_t row = 0; row < centres.shape()[0]; ++row) {
    sum += centres.data()[row * centres.shape()[1]];
    voxels += centres.data()[row * centres.shape()[1] + 1];
  }
  return voxels > 0 ? sum / voxels : 0;
}

py::dict trivial_dict(const evaluate::VoxelCounts& counts) {
  const auto scores = [](const evaluate::BinaryCounts& binary) {
    py::dict result;
    result["f1_50"] = binary.scores().f1;
    result["mcc_50"] = binary.scores().mcc;
    result["accuracy_50"] = binary.scores().accuracy;
    return result;
  };
  py::dict result;
  result["all_object"] = scores(counts.everything_is_object());
  py::dict constant = scores(counts.best_constant(0));
  constant["cross_entropy"] = counts.best_constant_cross_entropy();
  constant["probability"] = counts.mean_label();
  result["best_constant"] = constant;
  return result;
}

Record summary(const train::ValidationResult& result) {
  py::dict record;
  record["first_pass"] = scores_dict(result.first_pass, mean_cross_entropy(result.first_pass_centres));
  record["moves"] = scores_dict(result.moves, mean_cross_entropy(result.moves_centres));
  record["trivial"] = trivial_dict(result.first_pass);
  record["trivial_moves"] = trivial_dict(result.moves);
  record["moves_made"] = result.moves_made;
  record["centres"] = result.first_pass_centres.shape()[0];
  return record;
}

py::dict metrics_dict(const train::Metrics& sums) {
  py::dict result;
  result["fovs"] = sums.fovs;
  result["examples"] = sums.examples;
  result["dropped"] = sums.dropped;
  result["staleness_sum"] = sums.staleness_sum;
  result["tp"] = sums.true_positive;
  result["fp"] = sums.false_positive;
  result["fn"] = sums.false_negative;
  result["tn"] = sums.true_negative;
  result["loss_sum"] = sums.loss_sum;
  result["data_s"] = sums.data_s;
  result["compute_s"] = sums.compute_s;
  result["reduce_s"] = sums.reduce_s;
  result["update_s"] = sums.update_s;
  return result;
}

void copy_average(const train::Trainer& trainer, nn::Network& network) {
  const std::span<const float> average = trainer.average();
  FLOODTIDE_REQUIRE(average.size() == network.parameters().size(), shape_mismatch, "copy_average: the network has ",
                    network.parameters().size(), " parameters, expected ", average.size());
  const py::gil_scoped_release unlocked;
  const nn::NetworkUse::Hold change = network.use().change();
  std::ranges::copy(average, network.parameters().begin());
}

void save_network(const PathName& path, const nn::Network& network, const std::string& statistics) {
  const py::gil_scoped_release unlock;
  data::Hdf5File file = data::Hdf5File::create(path.text, train::network_result());
  train::write_network(file, network);
  if (!statistics.empty()) file.write_attribute("/", "statistics", statistics);
  file.commit();
}

Typed<"floodtide._core.Ffn | floodtide._core.UNet"> load_network(const PathName& path, const std::string& compute) {
  std::unique_ptr<nn::Network> network =
      without_lock([&] { return train::read_network(data::Hdf5File::open(path.text), named<kernels::Compute>(compute)); });
  // From a raw pointer, pybind11 makes an object of the class of the network, Ffn or UNet, and not of their base class.
  return py::cast(network.release(), py::return_value_policy::take_ownership);
}

/// Return a text that a checkpoint keeps as an attribute of the file, or an empty text without the attribute.
std::string stored_text(const PathName& path, const std::string& attribute) {
  const py::gil_scoped_release unlock;
  const data::Hdf5File file = data::Hdf5File::open(path.text);
  return file.has_attribute("/", attribute) ? file.read_text_attribute("/", attribute) : "";
}

using BucketHook =
    Typed<"collections.abc.Callable[[int, numpy.typing.NDArray[numpy.float32], list[int], bool], object] | None">;

constexpr int kFirstClass = 1, kLastClass = 13;  // partition classes of validation centres: all except background

struct ValidationSet {
  std::vector<data::Source> sources;  // exactly one
  std::vector<data::Centre> centres;

  ValidationSet(data::SourceOptions options, const Vec3& patch_size, std::int64_t count, std::uint64_t seed) {
    sources.emplace_back(std::move(options));
    centres = data::balanced_centres(sources, patch_size, kFirstClass, kLastClass, count, seed);
  }
};

}  // namespace

void register_train(py::module_& m) {
  m.attr("REQUEST_LOG") = static_cast<std::uint32_t>(train::kLog);
  m.attr("REQUEST_CHECKPOINT") = static_cast<std::uint32_t>(train::kCheckpoint);
  m.attr("REQUEST_STOP") = static_cast<std::uint32_t>(train::kStop);
  m.attr("REQUEST_RATE") = static_cast<std::uint32_t>(train::kRate);
  m.def(
      "training_limits",
      []() -> NamedLimits {
        py::dict result;
        result["rate_factor"] = dict_of(train::kRateFactors);
        return result;
      },
      "Ranges of numbers that training takes, by name; see floodtide.base.limits.");
  py::class_<train::StepReport>(m, "StepReport")
      .def_readonly("step", &train::StepReport::step)
      .def_readonly("loss", &train::StepReport::loss)
      .def_readonly("lr", &train::StepReport::lr)
      .def_readonly("gradient_norm", &train::StepReport::gradient_norm)
      .def_readonly("requests", &train::StepReport::requests)
      .def_readonly("met", &train::StepReport::met);

  py::class_<train::Walkers, std::shared_ptr<train::Walkers>>(m, "Walkers", "The walkers of one rank and their network.");
  Options<train::WalkersOptions>(m, "WalkersOptions", "What the walkers of one rank are; see train/walkers.hpp.")
      .field("walkers", &train::WalkersOptions::walkers)
      .field("rank", &train::WalkersOptions::rank)
      .field("ranks", &train::WalkersOptions::ranks)
      .field("seed", &train::WalkersOptions::seed)
      .field("prefetch", &train::WalkersOptions::prefetch)
      .field("readers", &train::WalkersOptions::readers)
      .field("cycle", &train::WalkersOptions::cycle)
      .field("epochs", &train::WalkersOptions::epochs);
  m.def(
      "flood_walkers",
      [](nn::Ffn& network, const data::ExampleSource& examples, const train::WalkersOptions& options, double seed_pad,
         double threshold)
          ->Typed<"floodtide._core.Walkers"> {
            return keeping(freed_unlocked(train::make_flood_walkers(network, examples, options, {seed_pad, threshold})),
                           network, examples);
          },
      py::arg("network"), py::arg("examples"), py::arg("options"), py::kw_only(), py::arg("seed_pad"), py::arg("threshold"));

  Options<train::TrainerOptions>(m, "TrainerOptions", "Options of the step loop; see train/trainer.hpp.")
      .field("clip", &train::TrainerOptions::clip)
      .field("clip_norm", &train::TrainerOptions::clip_norm)
      .field("measure_noise", &train::TrainerOptions::measure_noise)
      .field("average", &train::TrainerOptions::average)
      .field("algorithm", &train::TrainerOptions::algorithm)
      .field("accumulate", &train::TrainerOptions::accumulate)
      .field("contributors", &train::TrainerOptions::contributors)
      .field("steps", &train::TrainerOptions::steps)
      .field("meet_every", &train::TrainerOptions::meet_every)
      .field("bucket_bytes", &train::TrainerOptions::bucket_bytes)
      .field("activity", &train::TrainerOptions::activity)
      .field("timeout_s", &train::TrainerOptions::timeout_s)
      .field("record_path", &train::TrainerOptions::record_path)
      .field("on_exhausted", &train::TrainerOptions::on_exhausted)
      .field("exactness", &train::TrainerOptions::exactness)
      .field("mode", &train::TrainerOptions::mode)
      .field("late", &train::TrainerOptions::late)
      .field("wire", &train::TrainerOptions::wire);

  py::class_<train::Trainer, std::shared_ptr<train::Trainer>>(m, "Trainer", "The step loop; see floodtide.train.Trainer.")
      .def(py::init([](const std::shared_ptr<train::Walkers>& walkers, comm::Communicator& communicator,
                       const std::string& optimizer, const ParameterValues& optimizer_values, const std::string& schedule,
                       const ParameterValues& schedule_values, const std::string& scale, const ParameterValues& scale_values,
                       const train::TrainerOptions& options) {
             const py::gil_scoped_release unlock;
             const std::int64_t count = walkers->options().walkers;
             const optim::Workers workers{.count = count, .batch = walkers->examples_per_pass() / count};
             return freed_unlocked(std::make_unique<train::Trainer>(
                 walkers,
                 optim::make_optimizer(optimizer, optim::scaled_optimizer(scale, optimizer, optimizer_values, workers),
                                       walkers->layout()),
                 optim::make_schedule(schedule, schedule_values), optim::Scaling(scale, scale_values, workers), communicator,
                 options));
           }),
           py::arg("walkers").none(false), py::arg("communicator"), py::kw_only(), py::arg("optimizer"),
           py::arg("optimizer_values"), py::arg("schedule"), py::arg("schedule_values"), py::arg("scale"),
           py::arg("scale_values"), py::arg("options"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def("step", &train::Trainer::step, py::arg("requests"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("steps_done", &train::Trainer::steps_done)
      .def_property_readonly(
          "noise_scale",
          [](const train::Trainer& trainer) -> std::optional<std::tuple<double, double, double>> {
            const auto estimate = trainer.noise_scale();
            if (!estimate) return std::nullopt;
            return std::tuple(estimate->examples, estimate->low, estimate->high);
          },
          "Gradient noise scale in examples with its 95 % interval (scale, low, high); None if it is not known.")
      .def_property("rate_factor", &train::Trainer::rate_factor, &train::Trainer::set_rate_factor)
      .def(
          "set_pace",
          [](train::Trainer& trainer, std::int64_t step, double planned, double per_step) {
            trainer.set_pace({.step = step, .planned = planned, .per_step = per_step});
          },
          py::arg("step"), py::arg("planned"), py::arg("per_step"))
      .def("copy_average", &copy_average, py::arg("network"))
      .def(
          "take_metrics", [](train::Trainer& trainer)->Typed<"dict[str, float]"> {
            return metrics_dict(without_lock([&] { return trainer.take_metrics(); }));
          })
      .def("save", &train::Trainer::save, py::arg("path"), py::arg("configuration"), py::arg("statistics") = "",
           py::call_guard<py::gil_scoped_release>())
      .def("load", &train::Trainer::load, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def("trace", &train::Trainer::trace, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def("begin_activity", &train::Trainer::begin_activity, py::arg("name"))
      .def("end_activity", &train::Trainer::end_activity, py::arg("number"))
      .def("flush_trace", &train::Trainer::flush_trace)
      .def("record_failure", &train::Trainer::record_failure, py::arg("reason"))
      .def(
          "set_bucket_hook",
          [](train::Trainer& trainer, const BucketHook& hook) {
            if (hook.is_none()) {
              trainer.set_bucket_hook({});
              return;
            }
            // The deleter takes the interpreter lock, because the trainer may release the hook on any thread.
            const std::shared_ptr<py::object> kept(new py::object(hook), [](py::object* object) {
              const py::gil_scoped_acquire lock;
              delete object;
            });
            trainer.set_bucket_hook([kept, memory = trainer.bucket_memory()](const comm::Bucket& bucket) {
              const py::gil_scoped_acquire lock;
              const auto values = shared_array(bucket.values.data(), Shape<1>{std::ssize(bucket.values)}, memory);
              (*kept)(bucket.index, values, std::vector<std::size_t>(bucket.parts.begin(), bucket.parts.end()), bucket.last);
            });
          },
          py::arg("hook"), "hook(index, values, parts, last), or None")
      .def("check_replicas", &train::Trainer::check_replicas, py::call_guard<py::gil_scoped_release>());

  py::class_<train::GradientProducts>(m, "GradientProducts",
                                      "Gradients at fixed weights; see floodtide.train.gradient_products.")
      .def(py::init<std::shared_ptr<train::Walkers>>(), py::arg("walkers").none(false), py::keep_alive<1, 2>(),
           py::call_guard<py::gil_scoped_release>())
      .def("add_pass", &train::GradientProducts::add_pass, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("passes", &train::GradientProducts::passes)
      .def_property_readonly("batch", &train::GradientProducts::batch)
      .def(
          "products", [](const train::GradientProducts& self) { return copied(without_lock([&] { return self.products(); })); },
          "float64 (walkers, walkers): inner products of the sums of the walkers' gradients.")
      .def(
          "squares",
          [](const train::GradientProducts& self) {
            return py::array_t<double>(std::ssize(self.squares()), self.squares().data());
          },
          "float64 (walkers,): sum of the squared norms of each walker's gradients.");

  py::class_<train::ValidationResult>(m, "ValidationResult")
      .def("summary", &summary, "Return scores pooled over all centres, and those of trivial predictors.")
      .def_property_readonly(
          "first_pass_centres", [](const train::ValidationResult& r) { return copied(r.first_pass_centres); },
          "float64 (centres, 6): cross-entropy sum in nats, voxels, TP, FP, FN, TN at probability 0.5.")
      .def_property_readonly("moves_centres", [](const train::ValidationResult& r) { return copied(r.moves_centres); });

  py::class_<ValidationSet>(m, "ValidationSet", "A fixed set of centres of one volume; see floodtide.train.Validation.")
      .def(py::init([](const data::SourceOptions& volume, const Vec3& patch_size, std::int64_t centres, std::uint64_t seed) {
             const py::gil_scoped_release unlock;
             return std::make_unique<ValidationSet>(volume, patch_size, centres, seed);
           }),
           py::arg("volume"), py::kw_only(), py::arg("patch_size"), py::arg("centres"), py::arg("seed"))
      .def_property_readonly("centres", [](const ValidationSet& set) {
        std::vector<Vec3> positions;
        for (const data::Centre& centre : set.centres) positions.push_back(centre.position);
        return positions;
      });

  m.def(
      "validate",
      [](nn::Ffn& network, const ValidationSet& set, double seed_pad, double threshold, double softness, std::uint64_t seed,
         comm::Communicator& communicator, const ProgressCallback& progress) {
        const flood::TrainingFloodOptions options{network.options().fov, network.options().deltas, seed_pad, threshold};
        const Progress report_progress = progress_of(progress);
        const py::gil_scoped_release unlock;
        return train::validate(network, set.sources.front(), set.centres, options, softness, seed, communicator,
                               report_progress);
      },
      py::arg("network"), py::arg("set"), py::kw_only(), py::arg("seed_pad"), py::arg("threshold"), py::arg("softness"),
      py::arg("seed"), py::arg("communicator"), py::arg("progress") = py::none(),
      "Run the validation protocol on a fixed list of centres. Collective.");

  m.def(
      "check_network_output", [](const PathName& path) { data::Hdf5File::check_output(path.text, train::network_result()); },
      py::arg("path"), "Raise the error that `save_network` would raise for the path, without writing.");
  m.def("save_network", &save_network, py::arg("path"), py::arg("network"), py::arg("statistics") = "");
  m.def("load_network", &load_network, py::arg("path"), py::arg("compute"), "Return the network of a file, of any kind.");
  m.def("stored_text", &stored_text, py::arg("path"), py::arg("name"),
        "Return a text that a checkpoint keeps: the \"configuration\" (TOML), or the \"statistics\" of the training volumes "
        "(JSON). "
        "Return an empty text if the file has none, for example because it has a network only.");
}

}  // namespace floodtide::bindings
