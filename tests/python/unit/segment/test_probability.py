# SPDX-License-Identifier: Apache-2.0
"""Object probabilities as bytes: google/ffn's quantisation, its file seg-X_Y_Z.prob, and our dataset."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import bright_network
import flood_twin
import h5py
import numpy as np
import pytest
from scipy import ndimage
from scipy.special import expit

from floodtide import cli
from floodtide.data import Volume
from floodtide.segment import Pieces, Segmenter, SegmentOptions

FOV, DELTAS = (5, 5, 5), (2, 2, 2)


class Network:
    """A network whose logits have many values."""

    fov, deltas = FOV, DELTAS

    def forward(self, image: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return np.float32(0.6) * logits + 3 * image


def quantised(logits: np.ndarray) -> np.ndarray:
    """google/ffn's quantize_probability of float32 probabilities."""
    probability = expit(logits)
    assert probability.dtype == np.float32
    with np.errstate(invalid="ignore"):
        found = np.digitize(probability, np.linspace(0.0, 1.0, 255))
    found[np.isnan(probability)] = 0
    return found.astype(np.uint8)


def image(seed: int) -> np.ndarray:
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(22, 23, 24)), 1.5)
    return (noise / noise.std()).astype(np.float32)


@pytest.mark.parametrize("reflect", [False, True])
def test_bytes_are_those_of_google(reflect: bool) -> None:
    raw = image(1)
    options = SegmentOptions(
        mean=0.0, std=1.0, min_segment_size=20, probability=True, reflect=reflect
    )
    result = Segmenter(Network(), options).segment(raw)
    assert len(result.origins) >= 2
    assert result.probability is not None
    inside = np.pad(raw, 2, mode="reflect") if reflect else raw
    twin = flood_twin.Twin(inside, Network(), options, (2, 2, 2) if reflect else (0, 0, 0))
    expected = np.zeros(inside.shape, np.uint8)
    for origin in result.origins:
        start = tuple(a + 2 * reflect for a in origin.start_zyx)
        before = twin.segmentation > 0
        twin.segment_all([start])
        new = (twin.segmentation > 0) & ~before
        expected[new] = quantised(twin.seed)[new]
    if reflect:
        expected = expected[2:-2, 2:-2, 2:-2]
    found = result.probability.astype(int)
    assert np.abs(found - expected).max() <= 1  # the last bit of exp() may decide between two bytes
    assert np.mean(found != expected) < 1e-3
    assert len(np.unique(found)) > 50
    np.testing.assert_array_equal(found == 0, result.segmentation == 0)
    stored = (found[found > 0] - 0.5) / 255
    assert stored.min() > options.segment_threshold - 0.006


def test_other_results_do_not_change_and_have_no_probabilities() -> None:
    raw = image(2)
    options = SegmentOptions(mean=0.0, std=1.0, min_segment_size=20)
    without = Segmenter(Network(), options).segment(raw)
    with_it = Segmenter(Network(), dataclasses.replace(options, probability=True)).segment(raw)
    assert without.probability is None
    np.testing.assert_array_equal(without.segmentation, with_it.segmentation)


def test_initial_segments_are_certain_and_a_consensus_keeps_what_is_left() -> None:
    raw = image(3)
    initial = np.zeros(raw.shape, np.int64)
    initial[3:6, 3:6, 3:6] = 9
    options = SegmentOptions(mean=0.0, std=1.0, min_segment_size=20, probability=True)
    one = Segmenter(Network(), options).segment(raw, initial=initial)
    assert one.probability is not None
    assert (one.probability[initial > 0] == 255).all()
    both = Segmenter(
        Network(), dataclasses.replace(options, consensus="reverse", consensus_min_size=5)
    ).segment(raw, initial=initial)
    kept = np.where(both.segmentation > 0, one.probability, 0)
    np.testing.assert_array_equal(both.probability, kept)


def test_the_command_writes_a_dataset_and_google_s_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = bright_network.configuration(tmp_path)
    arguments = [
        "segment",
        str(toml),
        "--out",
        f"{tmp_path}/a.h5:labels",
        "--box",
        "2:38,4:40,6:46",
    ]
    assert cli.run([*arguments, "--set", "segment.probability=true"]) == 0
    assert cli.run(["convert", f"{tmp_path}/a.h5:labels", f"npz://{tmp_path}/npz"]) == 0
    with h5py.File(tmp_path / "a.h5") as file:
        stored, labels = file["probability"][()], file["labels"][()]
        assert file["probability"].attrs["box_start"].tolist() == [2, 4, 6]
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored > 0, labels > 0)
    with np.load(tmp_path / "npz/6/4/seg-6_4_2.prob") as archive:
        assert archive.files == ["qprob"]
        np.testing.assert_array_equal(archive["qprob"], stored)
    assert cli.run(arguments) == 0  # a result without probabilities replaces them, too
    with h5py.File(tmp_path / "a.h5") as file:
        assert "probability" not in file
    capsys.readouterr()


def test_subvolumes_give_one_volume_of_probabilities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = bright_network.configuration(tmp_path, probability="true")
    size = ["--set", "segment.subvolume=[24,24,24]"]
    assert cli.run(["segment", str(file), "--out", f"{tmp_path}/pieces", *size]) == 0
    out, bytes_ = f"{tmp_path}/out.h5:labels", f"{tmp_path}/probability.zarr"
    assert cli.run(["reconcile", f"{tmp_path}/pieces", out, "--probability", bytes_]) == 0
    assert bytes_ in capsys.readouterr().out
    pieces = Pieces.open(tmp_path / "pieces")
    expected = np.zeros(pieces.cut.box[1], np.uint8)
    for number in range(len(pieces.cut)):
        (start, size_), first = pieces.cut.core(number), pieces.cut.subvolume(number)[0]
        inside = tuple(slice(a, a + n) for a, n in zip(start, size_, strict=True))
        local = tuple(slice(a - b, a - b + n) for a, b, n in zip(start, first, size_, strict=True))
        with h5py.File(pieces.path(number)) as stored:
            expected[inside] = stored["probability"][local]
    found, labels = Volume(bytes_).read(), Volume(out).read()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found > 0, labels > 0)
    assert len(np.unique(found)) > 2
    assert cli.run(["reconcile", f"{tmp_path}/pieces", out, "--probability", bytes_]) == 2
    assert "exists and is not replaced" in capsys.readouterr().err
    assert cli.run(["reconcile", f"{tmp_path}/pieces", out, "--probability", out]) == 2
    assert "is OUT" in capsys.readouterr().err


def test_subvolumes_without_probabilities_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = bright_network.configuration(tmp_path, (40, 24, 24), subvolume=[24, 24, 24])
    assert cli.run(["segment", str(file), "--out", f"{tmp_path}/pieces"]) == 0
    capsys.readouterr()
    command = ["reconcile", f"{tmp_path}/pieces", f"{tmp_path}/out.h5:labels"]
    assert cli.run([*command, "--probability", f"{tmp_path}/p.h5:p"]) == 2
    printed = capsys.readouterr().err
    assert "have no probabilities" in printed
    assert len(printed.splitlines()) == 1
    assert not (tmp_path / "out.h5").exists()
