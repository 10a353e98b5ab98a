# SPDX-License-Identifier: Apache-2.0
"""Requests and files of google/ffn: what they become, what is refused, and that they are read back."""

import json
import os
import sys
import types
import zipfile
from collections import namedtuple
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest

from floodtide import cli, errors
from floodtide.segment.canvas import read_seeds
from floodtide.segment.ffn_files import path_in, read_origins
from floodtide.segment.ffn_request import read_request

# The published request for FIB-25, whose facts are in every copy of google/ffn.
PUBLISHED = """
image { hdf5: "third_party/neuroproof_examples/training_sample2/grayscale_maps.h5:raw" }
image_mean: 128
image_stddev: 33
checkpoint_interval: 1800
seed_policy: "PolicyPeaks"
model_checkpoint_path: "models/fib25/model.ckpt-27465036"
model_name: "convstack_3d.ConvStack3DFFNModel"
model_args: "{\\"depth\\": 12, \\"fov_size\\": [33, 33, 33], \\"deltas\\": [8, 8, 8]}"
segmentation_output_dir: "results/fib25/training2"
inference_options {
  init_activation: 0.95
  pad_value: 0.05
  move_threshold: 0.9
  min_boundary_dist { x: 1 y: 1 z: 1}
  segment_threshold: 0.6
  min_segment_size: 1000
}
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "request.pbtxt"
    path.write_text(text)
    return str(path)


def test_the_published_request(tmp_path: Path) -> None:
    options = read_request(written(tmp_path, PUBLISHED))
    assert options.image.endswith("training_sample2/grayscale_maps.h5:raw")
    assert (options.mean, options.std) == (128.0, 33.0)
    assert (options.fov, options.deltas) == ((33, 33, 33), (8, 8, 8))
    assert options.move_threshold == pytest.approx(0.9)
    assert options.segment_threshold == pytest.approx(0.6)
    assert (options.min_segment_size, options.min_boundary_dist) == (1000, (1, 1, 1))
    assert options.disco_seed_threshold == 0.0
    assert options.seed_policy == "peaks"
    assert options.checkpoint_interval == 1800


def test_axes_are_reversed_and_defaults_are_those_of_google(tmp_path: Path) -> None:
    text = PUBLISHED.replace("x: 1 y: 1 z: 1", "x: 4 y: 3").replace("[33, 33, 33]", "[33, 31, 17]")
    text = text.replace("min_segment_size: 1000", "disco_seed_threshold: -1")
    options = read_request(written(tmp_path, text))
    assert options.fov == (17, 31, 33)
    assert options.min_boundary_dist == (0, 3, 4)
    assert options.min_segment_size == 0
    assert options.disco_seed_threshold == -1.0


def test_seed_policies(tmp_path: Path) -> None:
    grid = PUBLISHED.replace('"PolicyPeaks"', '"PolicyGrid3d" seed_policy_args: "{\\"step\\": 8}"')
    options = read_request(written(tmp_path, grid))
    assert (options.seed_policy, dict(options.seed_values)) == ("grid", {"grid_step": 8})
    inverted = PUBLISHED.replace(
        '"PolicyPeaks"',
        '"PolicyInvertOrigins" seed_policy_args: "{\\"segmentation_dir\\": \\"run1\\"}"',
    )
    assert read_request(written(tmp_path, inverted)).seeds == "run1"


@pytest.mark.parametrize(
    ("policy", "arguments", "ours", "values"),
    [
        ("PolicyPeaks2d", {"min_distance": 5}, "peaks2d", {"peaks2d_min_distance": 5}),
        ("PolicyPeaks2d", {"sort_cmp": "descending"}, "reversed peaks2d", {}),
        ("PolicyGrid2d", {"step": 8}, "grid2d", {"grid2d_step": 8}),
        ("PolicyMax", {}, "max", {}),
        ("PolicyMaxPeaks", {}, "max_peaks", {}),
        ("PolicyFillEmptySpace", {}, "fill_empty", {}),
        (
            "PolicyDenseSeeds",
            {"threshold": 1.5, "num_erosions": 2, "invert": True},
            "dense",
            {"dense_threshold": 1.5, "dense_num_erosions": 2, "dense_invert": True},
        ),
        (
            "PolicyImagePeaks3D2D",
            {"min_distance_2d": -1},
            "image_peaks",
            {"image_peaks_min_distance_2d": -1, "image_peaks_min_distance_3d": 4},
        ),
        ("PolicyImagePeaks2DDisk", {"disk_radius": 2}, "disk_peaks", {"disk_peaks_disk_radius": 2}),
        ("ReverseCoords", {"policy_to_reverse": "PolicyPeaks"}, "reversed peaks", {}),
        (
            "ReverseCoords",
            {"policy_to_reverse": "PolicyPeaks2d", "sort_cmp": "descending", "threshold_abs": 3.5},
            "peaks2d",
            {"peaks2d_threshold_abs": 3.5},
        ),
        (
            "SequentialPolicies",
            {
                "policies": [
                    ["PolicyPeaks", {}],
                    ["ReverseCoords", {"policy_to_reverse": "PolicyGrid3d", "step": 8}],
                    ["PolicyFillEmptySpace", {}],
                ]
            },
            "peaks, reversed grid, fill_empty",
            {"grid_step": 8},
        ),
        (
            "ReverseCoords",
            {
                "policy_to_reverse": "SequentialPolicies",
                "policies": [["PolicyPeaks", {}], ["PolicyPeaks2d", {"sort_cmp": "descending"}]],
            },
            "peaks2d, reversed peaks",
            {},
        ),
    ],
)
def test_other_policies_and_sequences(
    tmp_path: Path,
    policy: str,
    arguments: dict[str, object],
    ours: str,
    values: dict[str, object],
) -> None:
    text = json.dumps(json.dumps(arguments))
    request = PUBLISHED.replace('"PolicyPeaks"', f'"{policy}" seed_policy_args: {text}')
    options = read_request(written(tmp_path, request))
    assert options.seed_policy == ours
    assert values.items() <= dict(options.seed_values).items()


def test_seeds_of_an_earlier_run_inside_a_sequence(tmp_path: Path) -> None:
    arguments = {
        "policies": [
            ["PolicyInvertOrigins", {"segmentation_dir": "run1"}],
            ["PolicyPeaks", {}],
            [
                "ReverseCoords",
                {"policy_to_reverse": "PolicyInvertOrigins", "segmentation_dir": "run1"},
            ],
        ]
    }
    text = json.dumps(json.dumps(arguments))
    request = PUBLISHED.replace('"PolicyPeaks"', f'"SequentialPolicies" seed_policy_args: {text}')
    options = read_request(written(tmp_path, request))
    assert options.seed_policy == "listed, peaks, reversed listed"
    assert options.seeds == "run1"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("image_mean: 128", "image_maen: 128", "no field named \"image_maen\""),
        ("image_mean: 128", "image_mean: 128 image_mean: 129", "image_mean"),
        ("image_mean: 128", "image_mean: dark", "image_mean"),
        ("image_mean: 128", "", "image_mean not set"),
        ("pad_value: 0.05", "", "inference_options.pad_value not set"),
        ("image_stddev: 33", "image_stddev: 33 reference_histogram: \"h\"", "no field named \"reference_histogram\""),
        ("\"PolicyPeaks\"", "\"ReverseCoords\"", "seed_policy '' is not supported"),
        ("\"PolicyPeaks\"", "\"PolicyPeaks\" seed_policy_args: '{\"step\": 1}'", "seed_policy_args.step is not"),
        ("\"PolicyPeaks\"", "\"PolicyPeaks2d\" seed_policy_args: '{\"sort_cmp\": \"up\"}'", "sort_cmp 'up' is not"),
        ("convstack_3d.ConvStack3DFFNModel", "other.Model", "expected ConvStack3DFFNModel"),
        ("hdf5:", "volinfo:", "no field named \"volinfo\""),
        ('\\"depth\\": 12', '\\"width\\": 12', "model_args.width is not supported"),
        ("{\\\"depth", "[{\\\"depth", "expected a JSON object"),
        ("[33, 33, 33]", "[33, 33]", "expected [x, y, z]"),
        ("move_threshold: 0.9", "move_threshold: 1.9", "move_threshold is 1.89"),
        ("inference_options {", "inference_options { consistency_threshold: 0.1", "\"consistency_threshold\""),
        ("}\n", "", "request.pbtxt"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = PUBLISHED.replace(old, new) if old != "}\n" else PUBLISHED.rstrip()[:-1]
    assert text != PUBLISHED
    with pytest.raises(errors.Error) as failure:
        read_request(written(tmp_path, text))
    assert says in str(failure.value)
    assert isinstance(failure.value, errors.InvalidFileError | errors.ConfigurationError)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("masks { image { } }", "masks.0 without channels is not supported"),
        ("masks { invert: true }", "masks.0 without channels is not supported"),
        ("seed_masks { coordinate_expression { } }", 'no field named "coordinate_expression"'),
        ("masks { volume { channels { } mask { volinfo: 'a' } } }", 'no field named "volinfo"'),
        ("masks { volume { channels { } } }", "masks.0.volume.mask is not supported"),
        ("alignment_options { type: NO_ALIGNMENT }", 'no field named "alignment_options"'),
        ("movement_policy_name: 'a.Other'", "expected FaceMaxMovementPolicy"),
        ("movement_policy_args: '{\"deltas\": 1}'", "movement_policy_args.deltas is not supported"),
        ("shift_mask { hdf5: 'a.h5:a' }", "shift_mask_threshold is 0.0, expected above 0"),
        (
            'init_segmentation { tensorstore: \'{"driver": "n5"}\' }',
            "init_segmentation is not supported",
        ),
    ],
)
def test_fields_that_cannot_be_followed_are_refused(tmp_path: Path, field: str, says: str) -> None:
    with pytest.raises((errors.ConfigurationError, errors.InvalidFileError), match=says):
        read_request(written(tmp_path, f"{PUBLISHED}\n{field}"))


@pytest.mark.parametrize(
    ("policy", "arguments", "says"),
    [
        ("PolicyOther", {}, "ReverseCoords or SequentialPolicies"),
        ("SequentialPolicies", {}, "policies None is not supported"),
        (
            "SequentialPolicies",
            {"policies": [["PolicyPeaks"]]},
            "policies .*PolicyPeaks.* is not supported",
        ),
        (
            "SequentialPolicies",
            {
                "policies": [
                    ["PolicyInvertOrigins", {"segmentation_dir": "a"}],
                    ["PolicyInvertOrigins", {"segmentation_dir": "b"}],
                ]
            },
            "segmentation_dir 'a' and 'b' is not supported",
        ),
        (
            "SequentialPolicies",
            {"policies": [["PolicyGrid3d", {}], ["PolicyGrid3d", {"step": 4}]]},
            "PolicyGrid3d with step 16.* and 4 is not supported",
        ),
    ],
)
def test_policies_that_cannot_be_followed_are_refused(
    tmp_path: Path, policy: str, arguments: dict[str, object], says: str
) -> None:
    text = json.dumps(json.dumps(arguments))
    request = PUBLISHED.replace('"PolicyPeaks"', f'"{policy}" seed_policy_args: {text}')
    with pytest.raises(errors.ConfigurationError, match=says):
        read_request(written(tmp_path, request))


def test_volumes_of_tensorstore_and_shift_masks_are_read(tmp_path: Path) -> None:
    more = """
    init_segmentation {
      tensorstore: '{"driver": "zarr", "kvstore": {"driver": "file", "path": "a.zarr/labels/"}}'
    }
    shift_mask { hdf5: "shifts.h5:xy" }
    shift_mask_fov { start { x: -5 y: -4 z: -1 } size { x: 10 y: 8 z: 3 } }
    shift_mask_scale: 4
    shift_mask_threshold: 6
    """
    options = read_request(written(tmp_path, PUBLISHED + more))
    assert options.initial == "a.zarr/labels"
    assert options.shift_mask == "shifts.h5:xy"
    assert options.shift_mask_fov == "-1:2,-4:4,-5:5"
    assert (options.shift_mask_scale, options.shift_mask_threshold) == (4, 6.0)


def test_a_request_is_segmented_and_written_as_google_s_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = bright_network.configuration(tmp_path)
    request = PUBLISHED.replace(
        "third_party/neuroproof_examples/training_sample2/grayscale_maps.h5",
        f"{tmp_path}/volume.h5",
    )
    request = request.replace("models/fib25/model.ckpt-27465036", f"{tmp_path}/bright.h5")
    request = request.replace("[33, 33, 33]", "[9, 9, 9]").replace("[8, 8, 8]", "[2, 2, 2]")
    request = request.replace('\\"depth\\": 12', '\\"depth\\": 2').replace(
        "min_segment_size: 1000", "min_segment_size: 20"
    )
    name = written(tmp_path, request)
    box = ["--box", "2:38,4:40,6:46"]
    plan, out = f"{tmp_path}/plan.toml", f"{tmp_path}/a.h5:labels"
    assert cli.run(["convert", name, plan]) == 0
    capsys.readouterr()
    assert cli.run(["segment", plan, "--out", out, *box, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert cli.run(["convert", out, f"npz://{tmp_path}/npz"]) == 0
    assert cli.run(["segment", str(toml), "--out", f"{tmp_path}/b.h5:labels", *box]) == 0
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        np.testing.assert_array_equal(a["labels"], b["labels"])
        labels, starts = a["labels"][()], a["origins/start_zyx"][()]
    path = path_in(tmp_path / "npz", (2, 4, 6))
    assert path.name == "seg-6_4_2.npz"
    origins = read_origins(path)
    assert len(origins) == report["segments"] >= 3
    assert [origin.start_zyx for origin in origins.values()] == [
        tuple(row) for row in starts.tolist()
    ]
    np.testing.assert_array_equal(read_seeds(str(path)), starts[::-1])
    np.testing.assert_array_equal(read_seeds(f"{tmp_path}/npz", (2, 4, 6)), starts[::-1])
    again = ["--set", f"segment.seeds={tmp_path}/npz"]
    assert cli.run(["segment", plan, "--out", f"{tmp_path}/c.h5:labels", *box, *again]) == 0
    loaded = as_google_loads(path)
    np.testing.assert_array_equal(loaded["segmentation"], labels)
    assert loaded["segmentation"].dtype == np.uint8
    assert loaded["origins"].item()[1].start_zyx == tuple((starts[0] - [2, 4, 6]).tolist())
    assert json.loads(str(loaded["counters"]))["inference-calls"] > 0


def as_google_loads(path: Path) -> dict[str, np.ndarray]:
    """Load a file with the class that google/ffn has."""
    names = ("ffn", "ffn.inference", "ffn.inference.storage")
    modules = {name: types.ModuleType(name) for name in names}
    fields = ["start_zyx", "iters", "walltime_sec"]
    modules[names[2]].OriginInfo = namedtuple("OriginInfo", fields)  # type: ignore[attr-defined,misc]
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(modules)
    try:
        with np.load(path, allow_pickle=True) as data:
            return {name: data[name] for name in data.files}
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def test_options_and_sources_of_other_conversions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bright_network.configuration(tmp_path)
    text = PUBLISHED.replace("models/fib25/model.ckpt-27465036", f"{tmp_path}/bright.h5")
    text = text.replace(
        "third_party/neuroproof_examples/training_sample2/grayscale_maps.h5",
        f"{tmp_path}/volume.h5",
    )
    text = text.replace("[33, 33, 33]", "[9, 9, 9]").replace("[8, 8, 8]", "[2, 2, 2]")
    name = written(tmp_path, text)
    for words, says in (
        ([f"{tmp_path}/a.toml", "--voxel-nm", "8"], "--voxel-nm is for volumes"),
        ([f"npz://{tmp_path}", "--fov", "9"], "--fov is for networks"),
    ):
        assert cli.run(["convert", name, *words]) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "a.toml").exists()
    for source in (f"{tmp_path}/volume.h5:raw", f"{tmp_path}/bright.h5:kind", "a.tif"):
        assert cli.run(["convert", source, f"npz://{tmp_path}/n"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "n").exists()


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("run by a pickle",)


def test_a_pipe_and_a_huge_table_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "seg-0_0_0.npz")
    with pytest.raises(errors.InvalidFileError, match="is not a regular file"):
        read_origins(tmp_path / "seg-0_0_0.npz")
    with (
        zipfile.ZipFile(tmp_path / "seg-1_0_0.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("origins.npy", "w") as file,
    ):
        for _ in range(257):
            file.write(bytes(1 << 20))
    with pytest.raises(errors.InvalidFileError, match="origins of 269484032 bytes"):
        read_origins(tmp_path / "seg-1_0_0.npz")


def test_a_pickle_that_would_run_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "seg-0_0_0.npz"
    np.savez(path, origins=np.array({1: _Evil()}, dtype=object))
    with pytest.raises(errors.InvalidFileError, match="does not belong there"):
        read_origins(path)
    assert "run by a pickle" not in capsys.readouterr().out
    np.savez(path, origins=np.array([1, 2]))
    with pytest.raises(errors.InvalidFileError, match="a segmentation of google/ffn"):
        read_origins(path)
    np.savez(path, origins=np.array([1, 2], dtype=object))
    with pytest.raises(errors.InvalidFileError, match="a segmentation of google/ffn"):
        read_origins(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.npy", b"")
    with pytest.raises(errors.InvalidFileError, match="a segmentation of google/ffn"):
        read_origins(path)
    with pytest.raises(errors.InvalidFileError):
        read_origins(tmp_path / "seg-1_2.npz")


def test_origins_of_the_published_class_are_read(tmp_path: Path) -> None:
    """The published file names a class inside Google."""
    module = types.ModuleType("google3.research.origin")
    fields = ["start_zyx", "iters", "walltime_sec"]
    OriginInfo = namedtuple("OriginInfo", fields)
    OriginInfo.__module__ = module.__name__
    module.OriginInfo = OriginInfo  # type: ignore[attr-defined]
    names = ("google3", "google3.research", module.__name__)
    sys.modules.update(dict.fromkeys(names, module))
    try:
        stored = {
            3: OriginInfo((np.int64(1), 2, 3), np.int32(7), 0.5),
            1: OriginInfo((4, 5, 6), 1, 0.1),
        }
        np.savez(tmp_path / "seg-10_20_30.npz", origins=np.array(stored, dtype=object))
    finally:
        for name in names:
            del sys.modules[name]
    found = read_origins(tmp_path / "seg-10_20_30.npz")
    assert found[3] == ((31, 22, 13), 7, 0.5)
    seeds = read_seeds(str(tmp_path / "seg-10_20_30.npz"))
    assert seeds.tolist() == [[31, 22, 13], [34, 25, 16]]
