# SPDX-License-Identifier: Apache-2.0
"""From coarse to fine: image and labels between the levels against plain loops, and which objects are kept."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import cli, config, data, errors
from floodtide.segment import Segmenter, SegmentOptions, coarse, in_subvolumes

SHAPES = st.tuples(*[st.integers(1, 9)] * 3)
FACTORS = st.tuples(*[st.integers(1, 4)] * 3)
SEEDS = st.integers(0, 2**32 - 1)


def blocks_of(shape: tuple[int, ...], factors: tuple[int, ...]):
    counts = (math.ceil(n / f) for n, f in zip(shape, factors, strict=True))
    return itertools.product(*map(range, counts))


@settings(deadline=None, max_examples=40)
@given(SHAPES, FACTORS, SEEDS)
def test_downsampling_takes_means_of_blocks(shape, factors, seed):
    image = np.random.default_rng(seed).uniform(0, 255, shape).astype(np.float32)
    found = coarse.downsampled(image, factors)
    assert found.shape == coarse.coarse_shape(shape, factors)
    for block in blocks_of(shape, factors):
        places = itertools.product(
            *(
                [min(b * f + i, n - 1) for i in range(f)]
                for b, f, n in zip(block, factors, shape, strict=True)
            )
        )
        expected = np.mean([float(image[place]) for place in places])
        assert found[block] == pytest.approx(expected, rel=1e-5)


def slow_upsampled(labels, factors, size):
    """One voxel after the other: sum the weights of linear interpolation of each label."""
    out = np.zeros(size, labels.dtype)
    for voxel in itertools.product(*map(range, size)):
        weights: dict[int, float] = {}
        places = [(i + 0.5) / f - 0.5 for i, f in zip(voxel, factors, strict=True)]
        for corner in itertools.product((0, 1), repeat=3):
            weight, block = 1.0, []
            for place, step, n in zip(places, corner, labels.shape, strict=True):
                below = math.floor(place)
                weight *= (place - below) if step else 1 - (place - below)
                block.append(min(max(below + step, 0), n - 1))
            name = int(labels[tuple(block)])
            weights[name] = weights.get(name, 0.0) + weight
        most = max(weights.values())
        out[voxel] = min(name for name, weight in weights.items() if weight >= most - 1e-5)
    return out


@settings(deadline=None, max_examples=25)
@given(st.tuples(*[st.integers(1, 7)] * 3), st.tuples(*[st.sampled_from([1, 2, 4])] * 3), SEEDS)
def test_upsampling_is_that_of_a_plain_loop(shape, factors, seed):
    """With powers of two all weights are exact, so that ties are ties."""
    size = coarse.coarse_shape(shape, factors)
    labels = np.random.default_rng(seed).integers(0, 4, size).astype(np.int32)
    found = coarse.upsampled(labels, factors, shape)
    np.testing.assert_array_equal(found, slow_upsampled(labels, factors, shape))


def test_the_surface_of_an_upsampled_ball_is_smoother_than_blocks():
    z, y, x = np.ogrid[:48, :48, :48]
    ball = ((z - 24) ** 2 + (y - 23) ** 2 + (x - 22) ** 2 < 300).astype(np.float32)
    small = (coarse.downsampled(ball, (3, 3, 3)) >= 0.5).astype(np.int32)
    smooth = coarse.upsampled(small, (3, 3, 3), ball.shape)
    blocky = small.repeat(3, 0).repeat(3, 1).repeat(3, 2)
    wrong, wrong_in_blocks = (np.count_nonzero(found != ball) for found in (smooth, blocky))
    assert 0 < wrong < 0.75 * wrong_in_blocks


@settings(deadline=None, max_examples=30)
@given(SHAPES, st.tuples(*[st.integers(0, 3)] * 3), SEEDS)
def test_places_far_from_labels_are_those_of_a_plain_loop(shape, distance, seed):
    rng = np.random.default_rng(seed)
    labels = (rng.uniform(size=shape) < 0.05).astype(np.int64)
    places = np.argwhere(np.ones(shape, bool))
    expected = [
        not labels[
            tuple(slice(max(0, p - d), p + d + 1) for p, d in zip(place, distance, strict=True))
        ].any()
        for place in places
    ]
    np.testing.assert_array_equal(coarse.far_from(labels, places, distance), expected)


class Bright:
    """A network for which bright voxels are object, and of which each call is noted."""

    fov, deltas = (9, 9, 9), (3, 3, 3)

    def __init__(self) -> None:
        self.calls = 0
        place = np.meshgrid(*[np.arange(n) - n // 2 for n in self.fov], indexing="ij")
        self.nearness = np.float32(10) - 0.1 * sum(abs(a) for a in place).astype(np.float32)

    def forward(self, image, logits):
        self.calls += 1
        return np.where(image > 0, self.nearness, np.float32(-10))


def assert_segmented(labels: np.ndarray, expected: np.ndarray, missing: float = 0.002) -> None:
    """Assert that segments have no other voxels, and miss few: upsampling rounds the corners of boxes.

    Where fields of view move on a grid of three voxels, they may not reach the last ones.
    """
    assert not (labels > 0)[~expected].any()
    assert np.count_nonzero(labels[expected]) >= (1 - missing) * np.count_nonzero(expected)


OPTIONS = SegmentOptions(
    mean=128.0,
    std=33.0,
    min_segment_size=20,
    seed_policy="grid",
    disco_seed_threshold=-1.0,
    coarse=(2, 2, 2),
    coarse_min_size=500,
)
FINE = dataclasses.replace(OPTIONS, coarse=(1, 1, 1))


def image_with(*boxes) -> np.ndarray:
    """Return an image of 40 x 44 x 48 dark voxels, with bright boxes (z0, z1, y0, y1, x0, x1)."""
    image = np.full((40, 44, 48), 60, np.uint8)
    for z0, z1, y0, y1, x0, x1 in boxes:
        image[z0:z1, y0:y1, x0:x1] = 200
    return image


LARGE = (4, 36, 4, 20, 4, 44)
OTHER = (4, 36, 24, 40, 4, 44)
THIN = (19, 21, 22, 23, 2, 46)


def test_large_objects_need_fewer_calls_and_are_the_same():
    image = image_with(LARGE, OTHER)
    network = Bright()
    fine = Segmenter(network, FINE).segment(image)
    fine_calls, network.calls = network.calls, 0
    segmenter = Segmenter(network, OPTIONS)
    seen: list[tuple[int, int]] = []
    result = segmenter.segment(image, progress=lambda done, total: seen.append((done, total)))
    assert_segmented(result.segmentation, image == 200)
    np.testing.assert_array_equal(np.unique(result.segmentation), [0, 1, 2])
    assert_segmented(fine.segmentation, image == 200)
    assert (result.coarse.objects, result.coarse.kept, result.segments) == (2, 2, 2)
    assert network.calls == result.network_calls == segmenter.network_calls
    assert segmenter.coarse_calls == result.coarse.network_calls + result.coarse.check_calls
    assert result.coarse.network_calls < fine_calls / 4
    assert seen == sorted(seen)
    total = image.size + image.size // 8
    assert seen[-1] == (total, total)


def test_a_thin_object_is_left_to_full_resolution():
    """Its blocks are half dark, so that they are not bright enough at the coarse level."""
    image = image_with(LARGE, THIN)
    result = Segmenter(Bright(), OPTIONS).segment(image, seeds=[(20, 12, 20), (20, 22, 24)])
    assert result.coarse.kept == 1
    thin = result.segmentation[19:21, 22:23, 2:46]
    assert set(np.unique(thin)) == {2}
    assert [origin.id for origin in result.origins] == [2]


def test_an_object_that_full_resolution_disputes_is_flooded_again():
    """Dark planes of one voxel vanish in the means of blocks."""
    image = image_with((4, 36, 4, 40, 4, 44))
    image[:, 21] = 120
    result = Segmenter(Bright(), OPTIONS).segment(image)
    assert (result.coarse.objects, result.coarse.kept) == (1, 1)  # one plane: too little to see
    image[:, ::2] = np.where(image[:, ::2] == 200, 120, image[:, ::2])
    result = Segmenter(Bright(), OPTIONS).segment(image, seeds=[(20, 23, 20)])
    assert (result.coarse.objects, result.coarse.kept) == (1, 0)
    assert result.coarse.check_calls >= 8
    assert not result.segmentation[image < 200].any()
    sheets = Segmenter(Bright(), FINE).segment(image, seeds=[(20, 23, 20)])
    np.testing.assert_array_equal(result.segmentation, sheets.segmentation)
    assert sheets.coverage > 0


def test_small_objects_are_not_checked():
    image = image_with(LARGE, OTHER)
    options = dataclasses.replace(OPTIONS, coarse_min_size=10**6)
    result = Segmenter(Bright(), options).segment(image)
    assert (result.coarse.objects, result.coarse.kept, result.coarse.check_calls) == (2, 0, 0)
    expected = Segmenter(Bright(), FINE).segment(image)
    np.testing.assert_array_equal(result.segmentation, expected.segmentation)


def test_initial_segments_keep_their_voxels_and_ids():
    image = image_with(LARGE, OTHER)
    initial = np.zeros(image.shape, np.int64)
    initial[10:20, 6:15, 10:20] = 7
    initial[4, 24, 4] = 9  # too small for the coarse level
    result = Segmenter(Bright(), OPTIONS).segment(image, initial=initial)
    np.testing.assert_array_equal(result.segmentation[initial == 7], 7)
    assert set(np.unique(result.segmentation)) >= {0, 7, 9, 10, 11}
    np.testing.assert_array_equal(result.segmentation == 7, initial == 7)
    assert result.coarse.kept == 2


def test_coarse_objects_end_at_the_mask(tmp_path: Path):
    image = image_with(LARGE, OTHER)
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        file["mask"] = np.zeros(image.shape, np.uint8)
        file["mask"][:, 22:] = 1
    options = dataclasses.replace(OPTIONS, mask=f"{tmp_path}/mask.h5:mask")
    result = Segmenter(Bright(), options).segment(image)
    assert (result.coarse.objects, result.coarse.kept) == (1, 1)
    assert_segmented(result.segmentation, (image == 200) & (np.arange(44) < 22)[:, None])


def test_seeds_of_a_file_among_policies_are_those_of_both_levels(tmp_path):
    image = image_with(LARGE, OTHER)
    (tmp_path / "seeds.txt").write_text("20 12 20\n")
    file = f"{tmp_path}/seeds.txt"
    options = dataclasses.replace(OPTIONS, seed_policy="listed", seed_values={}, seeds=file)
    expected = Segmenter(Bright(), OPTIONS).segment(image, seeds=[(20, 12, 20)])
    found = Segmenter(Bright(), options).segment(image)
    np.testing.assert_array_equal(found.segmentation, expected.segmentation)
    assert found.coarse == expected.coarse
    assert found.coarse.objects == 1


def test_given_seeds_are_those_of_both_levels():
    image = image_with(LARGE, OTHER)
    result = Segmenter(Bright(), OPTIONS).segment(image, seeds=[(20, 12, 20)])
    assert (result.coarse.objects, result.segments) == (1, 1)
    box = ((2, 0, 2), (38, 44, 46))
    image = image_with(OTHER)
    result = Segmenter(Bright(), OPTIONS).segment(image, box, seeds=[(20, 32, 20)])
    assert result.coarse.kept == 1
    assert_segmented(result.segmentation, image[2:40, :, 2:48] == 200, 0.25)


@pytest.mark.parametrize("consensus", ["none", "reverse"])
def test_reflected_faces_make_thin_boxes_possible(consensus):
    image = image_with(LARGE, OTHER)[14:26]
    options = dataclasses.replace(OPTIONS, reflect=True, consensus=consensus, consensus_min_size=20)
    result = Segmenter(Bright(), options).segment(image)
    assert result.coarse.kept == 2
    assert_segmented(result.segmentation, image == 200, 0.1)
    with pytest.raises(errors.ShapeError, match=r"coarse = \[2, 2, 2\] the box has 6 x 22 x 24"):
        Segmenter(Bright(), OPTIONS).segment(image)


def test_subvolumes_overlap_by_the_field_of_view_of_the_coarse_level(tmp_path: Path):
    options = config.load(bright_network.configuration(tmp_path)).segment
    segmenter = Segmenter.load(dataclasses.replace(options, coarse=(1, 2, 2)))
    volume = data.Volume(options.image)
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=(24, 40, 40))
    assert pieces.cut.overlap == (9, 18, 18)
    with pytest.raises(errors.ShapeError, match="the box has 24 x 8 x 8 voxels"):
        in_subvolumes(tmp_path / "other", segmenter, volume, subvolume=(24, 16, 16))
    assert not (tmp_path / "other").exists()


def run(capsys, file: Path, out: str, *arguments: str) -> dict:
    assert cli.run(["segment", str(file), "--out", out, "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_tells_the_calls_of_both_levels(tmp_path: Path, capsys):
    file = bright_network.configuration(tmp_path, coarse_min_size=100)
    plain = run(capsys, file, f"{tmp_path}/plain.h5:ids")
    assert plain["coarse"] is None
    report = run(capsys, file, f"{tmp_path}/out.h5:ids", "--set", "segment.coarse=[2,2,2]")
    assert report["network_calls"] > report["coarse"]["network_calls"] > 0
    with h5py.File(tmp_path / "out.h5") as stored:
        assert json.loads(stored["ids"].attrs["coarse"]) == report["coarse"]
        assert json.loads(stored["ids"].attrs["options"])["coarse"] == [2, 2, 2]
        assert len(np.unique(stored["ids"])) == report["segments"] + 1
    assert (
        cli.run(
            [
                "segment",
                str(file),
                "--out",
                f"{tmp_path}/out.h5:ids",
                "--set",
                "segment.coarse=[2,2,2]",
            ]
        )
        == 0
    )
    assert "coarse network calls: " in capsys.readouterr().out


def test_subvolumes_and_their_estimate_tell_the_calls_of_both_levels(tmp_path: Path, capsys):
    file = bright_network.configuration(tmp_path, coarse_min_size=100)
    words = ["--set", "segment.coarse=[1,2,2]", "--set", "segment.subvolume=[24,40,40]"]
    estimate = run(capsys, file, str(tmp_path / "pieces"), *words, "--estimate")
    assert 0 < estimate["coarse_network_calls"] < estimate["network_calls"]
    report = run(capsys, file, str(tmp_path / "pieces"), *words)
    assert report["segmented"] == report["subvolumes"] > 1
    assert 0 < report["coarse_network_calls"] < report["network_calls"]
    again = run(capsys, file, str(tmp_path / "pieces"), *words)
    assert (again["segmented"], again["network_calls"]) == (0, 0)
    assert cli.run(["segment", str(file), "--out", str(tmp_path / "pieces"), *words[2:]]) == 2
    assert "overlap = [9, 18, 18]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "segment.coarse=[0,2,2]"], "segment.coarse.0 is 0, expected 1 to 64"),
        (
            ["--set", "segment.coarse=[8,8,8]"],
            "the box has 5 x 6 x 6 voxels, the field of view 9 x 9 x 9",
        ),
        (["--set", "segment.coarse=[2,2,0]"], "segment.coarse"),
        (["--set", "segment.coarse_agreement=1.5"], "segment.coarse_agreement is 1.5"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, capsys, words, message):
    file = bright_network.configuration(tmp_path)
    assert cli.run(["segment", str(file), "--out", f"{tmp_path}/out.h5:ids", *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not list(tmp_path.glob("out.h5*"))
