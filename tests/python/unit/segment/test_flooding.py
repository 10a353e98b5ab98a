# SPDX-License-Identifier: Apache-2.0
"""Flooding against a plain NumPy twin, and what `Segmenter` and its file promise."""

from __future__ import annotations

import dataclasses
import json

import flood_twin
import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import _core, data, errors
from floodtide.cli import evaluate as evaluate_cli
from floodtide.config.segment_options import MaskOptions, seed_policies
from floodtide.data import Volume
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.canvas import read_image, seeds_of


class FakeNetwork:
    """A deterministic stand-in that looks at the image, the logits and the place in the view."""

    def __init__(self, fov, deltas, gain=1.0, bias=0.5):
        self.fov, self.deltas, self.gain = tuple(fov), tuple(deltas), np.float32(gain)
        grid = np.meshgrid(*[np.arange(n) - n // 2 for n in fov], indexing="ij")
        ripple = bias + np.sin(sum(a * (i + 1.7) for i, a in enumerate(grid)))
        self.ripple = ripple.astype(np.float32)
        self.positions = 0

    def forward(self, image, logits):
        self.positions += 1
        return self.gain * image + np.float32(0.5) * logits + self.ripple


def cells(shape, seed, smooth=1.0):
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.normal(size=shape), smooth)
    return (128 + 80 * noise / max(noise.std(), 1e-9)).clip(0, 255).astype(np.uint8)


def normalised(raw, options):
    return (raw.astype(np.float32) - np.float32(options.mean)) / np.float32(options.std)


def twin_of(raw, model, options):
    return flood_twin.Twin(normalised(raw, options), model, options)


@st.composite
def cases(draw):
    fov = [draw(st.sampled_from([3, 5, 7])) for _ in range(3)]
    deltas = [draw(st.integers(0, n // 2)) for n in fov]
    shape = [draw(st.integers(n + 3, n + 12)) for n in fov]
    options = SegmentOptions(
        mean=128.0,
        std=33.0,
        disco_seed_threshold=draw(st.sampled_from([-1.0, 0.0, 0.2])),
        min_segment_size=draw(st.integers(0, 60)),
        min_boundary_dist=tuple(draw(st.integers(0, 1)) for _ in range(3)),
        move_threshold=draw(st.sampled_from([0.6, 0.9])),
        segment_threshold=draw(st.sampled_from([0.5, 0.6, 0.95])),
    )
    gain, bias = draw(st.sampled_from([0.7, 1.0, 3.0])), draw(st.sampled_from([-0.5, 0.5, 1.5]))
    model = FakeNetwork(fov, deltas, gain, bias)
    return shape, draw(st.integers(0, 2**32 - 1)), model, options


@settings(deadline=None, max_examples=60)
@given(cases())
def test_one_object_grows_move_by_move_as_the_twin(case):
    shape, seed, model, options = case
    raw = cells(shape, seed)
    twin = twin_of(raw, model, options)
    centre = tuple(n // 2 for n in shape)
    expected = twin.segment_at(centre)
    seen = []
    result = Segmenter(model, options).segment_at(raw, centre, seen.append)
    assert result.moves == expected
    assert [move.step for move in seen] == list(range(len(expected)))
    assert [move.position_zyx for move in seen] == expected
    np.testing.assert_array_equal(result.logits, twin.seed)


@settings(deadline=None, max_examples=35)
@given(cases(), st.booleans())
def test_whole_volumes_are_segmented_as_by_the_twin(case, reverse):
    shape, seed, model, options = case
    options = dataclasses.replace(options, seed_policy="reversed peaks" if reverse else "peaks")
    raw = cells(shape, seed)
    margin = [n // 2 for n in model.fov]
    seeds = _core.segment.find_seeds(
        raw.astype(np.float32), options.mean, options.std, "peaks", {}, margin, None
    )
    twin = twin_of(raw, model, options)
    order = seeds[::-1] if reverse else seeds
    expected = twin.segment_all([tuple(map(int, seed)) for seed in order])
    result = Segmenter(model, options).segment(raw)
    np.testing.assert_array_equal(result.segmentation, expected)
    assert [(o.id, o.start_zyx, o.iterations, o.voxels) for o in result.origins] == twin.origins
    assert [tuple(overlap) for overlap in result.overlaps] == twin.overlaps


@settings(deadline=None, max_examples=15)
@given(cases())
def test_reflected_faces_give_what_the_twin_finds_in_a_reflected_image(case):
    shape, seed, model, options = case
    raw = cells(shape, seed)
    margin = [n // 2 for n in model.fov]
    padded = np.pad(raw, [(n, n) for n in margin], mode="reflect")
    seeds = _core.segment.find_seeds(
        padded.astype(np.float32), options.mean, options.std, "peaks", {}, margin, None
    )
    twin = flood_twin.Twin(normalised(padded, options), model, options, margin)
    whole = twin.segment_all([tuple(map(int, seed)) for seed in seeds])
    expected = whole[tuple(slice(n, n + size) for n, size in zip(margin, shape, strict=True))]
    result = Segmenter(model, dataclasses.replace(options, reflect=True)).segment(raw)
    np.testing.assert_array_equal(result.segmentation, expected)
    assert [(o.id, o.voxels) for o in result.origins] == [(o[0], o[3]) for o in twin.origins]
    starts = [tuple(int(a) - n for a, n in zip(o[1], margin, strict=True)) for o in twin.origins]
    assert [o.start_zyx for o in result.origins] == starts


@settings(deadline=None, max_examples=15)
@given(cases(), st.integers(0, 2**32 - 1))
def test_an_initial_segmentation_is_kept_as_by_the_twin(case, layout):
    shape, seed, model, options = case
    raw = cells(shape, seed)
    blobs, _ = ndimage.label(cells(shape, layout, 2.0) > 170)
    initial = 3 * blobs  # ids with gaps
    margin = [n // 2 for n in model.fov]
    closed = np.where(initial > 0, _core.segment.closed_bits()["segment"], 0).astype(np.uint8)
    seeds = _core.segment.find_seeds(
        raw.astype(np.float32), options.mean, options.std, "peaks", {}, margin, None, closed
    )
    assert not initial[tuple(seeds.T)].any()
    twin = twin_of(raw, model, options)
    twin.set_initial(initial)
    expected = twin.segment_all([tuple(map(int, seed)) for seed in seeds])
    result = Segmenter(model, options).segment(raw, initial=initial)
    np.testing.assert_array_equal(result.segmentation, expected)
    assert [(o.id, o.voxels) for o in result.origins] == [(o[0], o[3]) for o in twin.origins]
    assert [tuple(overlap) for overlap in result.overlaps] == twin.overlaps


def test_an_initial_segmentation_may_cover_more_than_the_box(tmp_path):
    raw = cells((30, 31, 32), 1, 1.5)
    initial = np.zeros(raw.shape, np.uint16)
    initial[5:8, 6:9, 7:10] = 700
    box = ((4, 5, 6), (24, 25, 26))
    with h5py.File(tmp_path / "initial.h5", "w") as file:
        file["labels"] = initial[2:, 3:, 4:]
        file["labels"].attrs["box_start"] = np.array([2, 3, 4])
    options = SegmentOptions(
        mean=128.0, std=33.0, min_segment_size=20, initial=f"{tmp_path}/initial.h5:labels"
    )
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    named = Segmenter(model, options).segment(raw, box)
    given = Segmenter(model, dataclasses.replace(options, initial="")).segment(
        raw, box, initial=initial
    )
    np.testing.assert_array_equal(named.segmentation, given.segmentation)
    assert (named.segmentation[1:4, 1:4, 1:4] == 700).all()
    assert named.segmentation.max() == 700 + len(named.origins) > 700


def test_an_object_ends_at_segments_of_the_initial_segmentation():
    raw = cells((24, 25, 26), 1, 1.5)
    segmenter = Segmenter(FakeNetwork((7, 7, 7), (3, 3, 3)), SegmentOptions(mean=128.0, std=33.0))
    centre = (12, 12, 12)
    free = segmenter.segment_at(raw, centre).moves
    assert len(free) > 2
    initial = np.zeros(raw.shape, np.uint8)
    initial[free[1]] = 1
    ended = segmenter.segment_at(raw, centre, initial=initial).moves
    assert ended[0] == centre
    assert free[1] not in ended


@pytest.mark.parametrize(
    ("initial", "error", "says"),
    [
        (np.zeros((9, 9, 9), np.uint8), errors.ShapeError, "expected one that covers"),
        (
            np.zeros((24, 25, 26), np.float32),
            errors.InvalidArgumentError,
            "float32, expected integers",
        ),
        (np.full((24, 25, 26), 2**31, np.int64), errors.UnsupportedError, "expected at most"),
    ],
)
def test_initial_segmentations_that_do_not_fit_are_refused(initial, error, says):
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    segmenter = Segmenter(model, SegmentOptions(mean=128.0, std=33.0))
    with pytest.raises(error, match=says):
        segmenter.segment(cells((24, 25, 26), 1), initial=initial)


@settings(deadline=None, max_examples=15)
@given(cases(), st.integers(0, 2**32 - 1), st.booleans())
def test_masked_voxels_are_left_out_as_by_the_twin(tmp_path_factory, case, layout, invert):
    shape, seed, model, options = case
    raw = cells(shape, seed)
    mask = cells(shape, layout, 2.0) > 150
    folder = tmp_path_factory.mktemp("mask")
    with h5py.File(folder / "mask.h5", "w") as file:
        file["mask"] = (~mask if invert else mask).astype(np.uint8) * 7
    masks = (MaskOptions(volume=f"{folder}/mask.h5:mask", invert=invert),)
    options = dataclasses.replace(options, masks=masks, seed_policy="grid")
    margin = [n // 2 for n in model.fov]
    seeds = _core.segment.find_seeds(
        raw.astype(np.float32), options.mean, options.std, "grid", {}, margin, None
    )
    twin = twin_of(raw, model, options)
    twin.mask = mask
    expected = twin.segment_all([tuple(map(int, seed)) for seed in seeds])
    result = Segmenter(model, options).segment(raw)
    np.testing.assert_array_equal(result.segmentation, expected)
    assert [(o.id, o.voxels) for o in result.origins] == [(o[0], o[3]) for o in twin.origins]
    assert not any(mask[o.start_zyx] for o in result.origins)


def test_a_mask_of_everything_leaves_nothing(tmp_path):
    raw = cells((24, 25, 26), 1, 1.5)
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        file["mask"] = np.ones(raw.shape, np.uint8)
        file["small"] = np.ones((3, 3, 3), np.uint8)
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20)
    for reflect in (False, True):
        whole = (MaskOptions(volume=f"{tmp_path}/mask.h5:mask"),)
        masked = dataclasses.replace(options, masks=whole, reflect=reflect)
        assert Segmenter(model, masked).segment(raw).coverage == 0
        assert Segmenter(model, masked).segment_at(raw, (12, 12, 12)).moves == []
    small = dataclasses.replace(options, masks=(MaskOptions(volume=f"{tmp_path}/mask.h5:small"),))
    with pytest.raises(errors.ShapeError, match=r"the mask .*:small has"):
        Segmenter(model, small).segment(raw)


def test_only_faces_of_the_volume_are_reflected():
    raw = cells((24, 25, 26), 1, 1.5)
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20, reflect=True)
    inside = ((3, 4, 5), (15, 16, 17))
    plain = Segmenter(model, dataclasses.replace(options, reflect=False))
    np.testing.assert_array_equal(
        Segmenter(model, options).segment(raw, inside).segmentation,
        plain.segment(raw, inside).segmentation,
    )
    seen = Segmenter(model, options).segment_at(raw, (0, 24, 0))
    assert seen.moves[0] == (0, 24, 0)
    assert seen.logits.shape == raw.shape
    assert np.isfinite(
        seen.logits[:4, 21:, :4]
    ).all()  # the field of view at the corner, without what is reflected
    with pytest.raises(errors.OutOfRangeError, match="no field of view"):
        plain.segment_at(raw, (0, 24, 0))


def test_a_volume_thinner_than_the_field_of_view_is_segmented_with_reflected_faces():
    raw = cells((5, 40, 40), 1, 1.5)
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20, reflect=True)
    assert Segmenter(model, options).segment(raw).coverage > 0.2


def test_the_twin_is_put_to_use():
    """The cases above prove something only if there are many moves and several segments."""
    raw = cells((24, 25, 26), 1, 1.5)
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20)
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    result = Segmenter(model, options).segment(raw)
    assert len(result.origins) >= 3
    assert max(origin.iterations for origin in result.origins) >= 10
    assert result.overlaps
    assert result.counters["inference-calls"] == model.positions
    assert result.counters["seed_got_too_weak"] > 0
    assert result.counters["skip_invalid_pos"] > 0


@pytest.mark.parametrize("given", [{}, {"mean": 128.0}, {"std": 33.0}])
def test_options_without_normalisation_are_refused(given):
    model = FakeNetwork((7, 7, 7), (3, 3, 3))
    with pytest.raises(errors.InvalidArgumentError, match=r"is None.*, expected the numbers"):
        Segmenter(model, SegmentOptions(**given))


@pytest.fixture
def small():
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20)
    return Segmenter(FakeNetwork((7, 7, 7), (3, 3, 3), 3.0, 1.5), options)


@pytest.fixture
def raw():
    return cells((24, 25, 26), 1, 1.5)


def test_a_box_of_a_volume_is_segmented_as_its_crop(small, raw, tmp_path):
    data.write_volume(tmp_path / "image.h5", {"raw": raw})
    volume = data.Volume(tmp_path / "image.h5", "raw")
    box = ((2, 3, 4), (20, 19, 18))
    crop = small.segment(np.ascontiguousarray(raw[2:22, 3:22, 4:22]))
    assert crop.origins
    for source in (volume, raw):
        part = small.segment(source, box)
        np.testing.assert_array_equal(part.segmentation, crop.segmentation)
        assert part.start_zyx == (2, 3, 4)
        assert part.origins[0].start_zyx == tuple(
            a + b for a, b in zip(crop.origins[0].start_zyx, box[0], strict=True)
        )
    centre = (12, 12, 13)
    moves = small.segment_at(volume, centre, box=box).moves
    assert moves[0] == centre


def test_the_file_holds_the_result_and_evaluate_finds_its_place(small, raw, tmp_path):
    box = ((2, 3, 4), (20, 19, 18))
    result = small.segment(raw, box)
    out = f"{tmp_path}/out.h5:segmentation"
    result.save(out, {"image": "image.h5:raw"})
    with h5py.File(tmp_path / "out.h5") as file:
        dataset = file["segmentation"]
        np.testing.assert_array_equal(dataset[:], result.segmentation)
        assert dataset.dtype == np.uint8
        assert tuple(dataset.attrs["box_start"]) == box[0]
        assert tuple(dataset.attrs["box_size"]) == box[1]
        assert tuple(dataset.attrs["volume_shape"]) == raw.shape
        assert dataset.attrs["image"] in ("image.h5:raw", b"image.h5:raw")
        starts = [origin.start_zyx for origin in result.origins]
        np.testing.assert_array_equal(file["origins/start_zyx"][:], starts)
        assert file["counters"].attrs["inference-calls"] == result.counters["inference-calls"]

    truth = np.full(raw.shape, 9, np.uint64)
    inside = tuple(slice(a, a + n) for a, n in zip(*box, strict=True))
    truth[inside] = result.segmentation
    data.write_volume(tmp_path / "truth.h5", {"whole": truth, "part": truth[inside].copy()})
    for name in ("whole", "part"):
        arguments = [out, f"{tmp_path}/truth.h5:{name}", "--json"]
        answer = CliRunner().invoke(evaluate_cli.command, arguments, catch_exceptions=False)
        scores = json.loads(answer.stdout)
        assert scores["adapted_rand_error"] == 0.0
        assert scores["coverage"] == 1.0
        assert scores["voxels"] == np.count_nonzero(result.segmentation)
    answer = CliRunner().invoke(
        evaluate_cli.command, [out, f"{tmp_path}/truth.h5:whole", "--box", "3:5,4:9,5:7"]
    )
    assert "coverage" in answer.stdout
    with pytest.raises(errors.OutOfRangeError, match="0:5,4:9,5:7"):
        CliRunner().invoke(
            evaluate_cli.command,
            [out, f"{tmp_path}/truth.h5:whole", "--box", "0:5,4:9,5:7"],
            catch_exceptions=False,
        )


def test_evaluate_refuses_a_truth_that_does_not_cover_the_segmentation(tmp_path):
    path = tmp_path / "volumes.h5"
    data.write_volume(path, {"a": np.ones((4, 5, 6), np.uint8), "b": np.ones((4, 5, 5), np.uint8)})
    with pytest.raises(errors.ShapeError, match="covers 0:4,0:5,0:6"):
        CliRunner().invoke(evaluate_cli.command, [f"{path}:a", f"{path}:b"], catch_exceptions=False)


def test_network_calls_are_counted_while_they_are_made(small, raw):
    seen = []
    result = small.segment(raw, progress=lambda *_: seen.append(small.network_calls))
    calls = result.counters["inference-calls"]
    assert small.network_calls == seen[-1] == calls > 3
    assert set(seen) == set(range(calls + 1))
    small.segment(raw)
    assert small.network_calls == 2 * calls


def test_progress_reaches_the_end_and_may_stop_the_work(small, raw):
    calls = []
    small.segment(raw, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1]
    assert calls == sorted(calls)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small.segment(raw, progress=stop)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"fov": (7, 27, 7)}, errors.ShapeError, "larger than the volume"),
        ({"fov": (7, 6, 7)}, errors.InvalidArgumentError, "even size"),
        ({"deltas": (3, 4, 3)}, errors.InvalidArgumentError, "at most half"),
    ],
)
def test_networks_that_do_not_fit_are_errors(raw, change, error, message):
    arguments = {"fov": (7, 7, 7), "deltas": (3, 3, 3)} | change
    with pytest.raises(error, match=message):
        Segmenter(FakeNetwork(**arguments), SegmentOptions(mean=128.0, std=33.0)).segment(raw)


def test_bad_images_and_places_are_errors(small, raw):
    broken = raw.astype(np.float32)
    broken[3, 4, 5] = np.nan
    with pytest.raises(errors.InvalidArgumentError, match=r"\(3, 4, 5\)"):
        small.segment(broken)
    with pytest.raises(errors.InvalidFileError, match="2 axes"):
        small.segment(raw[0])
    with pytest.raises(errors.OutOfRangeError, match="not inside"):
        small.segment(raw, ((0, 0, 0), (99, 9, 9)))
    for start in ((0, 0, 0), (-(2**63), 5, 5), (5, 5, 2**63 - 1)):
        with pytest.raises(errors.OutOfRangeError, match="no field of view"):
            small.segment_at(raw, start)
    with pytest.raises(errors.StorageError):
        small.segment(raw).save("/nowhere/out.h5:segmentation")


def test_wrong_answers_of_a_network_are_errors(small, raw):
    small.model.forward = lambda image, logits: np.zeros((3, 3, 3), np.float32)
    with pytest.raises(errors.ShapeError, match="answer has shape"):
        small.segment(raw)
    small.model.forward = lambda image, logits: np.full_like(logits, np.nan)
    with pytest.raises(errors.NumericalError, match="not numbers"):
        small.segment(raw)


def test_a_grid_of_seeds_finds_the_objects_that_its_voxels_are_in(small, raw):
    options = dataclasses.replace(small.options, seed_policy="grid", seed_values={"grid_step": 4})
    result = Segmenter(small.model, options).segment(raw)
    starts = {origin.start_zyx for origin in result.origins}
    shifts = (0, 2, 1, 3)  # in voxels, of a step of 4
    assert all(len({c % 4 for c in start}) == 1 and start[0] % 4 in shifts for start in starts)


def test_policies_in_sequence(tmp_path):
    raw = cells((20, 21, 22), 3, 1.5)
    margin, box = [2, 2, 2], ((4, 0, 0), (16, 21, 22))
    image = read_image(Volume(np.concatenate([raw[:4], raw])), box, [0, 0, 0])
    options = SegmentOptions(seed_policy="grid, reversed peaks, max", seed_values={"grid_step": 7})

    def of(voxels, name, values, mean, std):
        return _core.segment.find_seeds(voxels, mean, std, name, values, margin, None)

    def found(options):
        known = dataclasses.replace(options, mean=100.0, std=50.0)
        return seeds_of(image, known, (5, 5, 5), None)

    voxels = image.voxels
    expected = [
        of(voxels, "grid", {"grid_step": 7}, 100.0, 50.0),
        of(voxels, "peaks", {}, 100.0, 50.0)[::-1],
        of(voxels, "max", {}, 100.0, 50.0),
    ]
    np.testing.assert_array_equal(found(options), np.concatenate(expected))
    (tmp_path / "seeds.txt").write_text("6 5 4\n0 5 4\n12 11 10\n")
    mine = SegmentOptions(
        seed_policy="listed, peaks, reversed listed", seeds=f"{tmp_path}/seeds.txt"
    )
    rows = np.array(
        [[2, 5, 4], [8, 11, 10]]
    )  # of the canvas; no field of view fits at the second seed
    expected = [rows, of(voxels, "peaks", {}, 100.0, 50.0), rows[::-1]]
    np.testing.assert_array_equal(found(mine), np.concatenate(expected))
    with pytest.raises(errors.InvalidArgumentError, match=r"segment\.seeds is empty"):
        found(SegmentOptions(seed_policy="listed, peaks"))


def test_options_take_every_registered_seed_policy_and_lists_of_them():
    names = [row["name"] for row in seed_policies()]
    options = SegmentOptions(seed_policy=", reversed ".join(names), seed_values={"grid_step": 8})
    assert options.seed_values["grid_step"] == 8
    assert options.seed_values["peaks2d_min_distance"] == 7
    for wrong in ("", "peaks,", "peaks reversed", "reversed", "other", "peaks, reversed other"):
        with pytest.raises(errors.ConfigurationError, match="seed_policy is"):
            SegmentOptions(seed_policy=wrong)
    with pytest.raises(
        errors.ConfigurationError, match="no parameter of 'peaks, max', expected none"
    ):
        SegmentOptions(seed_policy="peaks, max", seed_values={"grid_step": 8})


def test_a_voxel_beyond_float32_is_named_without_warnings():
    image = cells((12, 12, 12), 1).astype(np.float64)
    image[3, 4, 5] = 1e300
    segmenter = Segmenter(FakeNetwork((5, 5, 5), (1, 1, 1)), SegmentOptions(mean=128.0, std=33.0))
    with pytest.raises(errors.InvalidArgumentError, match=r"inf at voxel \(3, 4, 5\)"):
        segmenter.segment(image)
