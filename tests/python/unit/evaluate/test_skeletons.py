# SPDX-License-Identifier: Apache-2.0
"""Expected run lengths against a slow twin, and skeletons of volumes."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from floodtide import cli, errors
from floodtide.data.skeletons import Skeleton
from floodtide.evaluate import run_lengths
from floodtide.shapes.arrays import skeletons_of

SIZE = (40.0, 4.0, 4.0)


def random_skeletons(seed: int, count: int) -> list[Skeleton]:
    """Return random trees with nodes in a volume of (8, 9, 10) voxels."""
    rng = np.random.default_rng(seed)
    found = []
    for name in range(1, count + 1):
        nodes = rng.integers(0, (8, 9, 10), size=(int(rng.integers(2, 12)), 3)).astype(float)
        edges = [(int(rng.integers(0, child)), child) for child in range(1, len(nodes))]
        found.append(Skeleton(name * 10, nodes, np.array(edges)))
    return found


def slow(skeletons: list[Skeleton], labels: np.ndarray, least: int) -> tuple[float, ...]:
    """Januszewski et al., 2018, edge by edge: expected run length, and shares of the length."""
    owners: dict[int, dict[int, int]] = {}
    for skeleton in skeletons:
        for node in skeleton.nodes.astype(int):
            of = owners.setdefault(int(labels[tuple(node)]), {})
            of[skeleton.id] = of.get(skeleton.id, 0) + 1
    merging = {s for s, of in owners.items() if s and sum(n >= least for n in of.values()) > 1}
    runs: dict[tuple[int, int], float] = {}
    shares = dict.fromkeys(("correct", "split", "merged", "omitted"), 0.0)
    for skeleton in skeletons:
        for a, b in skeleton.edges:
            length = float(np.linalg.norm((skeleton.nodes[a] - skeleton.nodes[b]) * SIZE))
            first, second = (int(labels[tuple(skeleton.nodes[n].astype(int))]) for n in (a, b))
            if 0 in (first, second):
                shares["omitted"] += length
            elif first in merging or second in merging:
                shares["merged"] += length
            elif first != second:
                shares["split"] += length
            else:
                shares["correct"] += length
                runs[skeleton.id, first] = runs.get((skeleton.id, first), 0.0) + length
    total = sum(shares.values())
    return sum(run**2 for run in runs.values()) / total, *(s / total for s in shares.values())


@settings(max_examples=60, deadline=None)
@example(seed=9763477, count=1, segments=1, least=1)  # a skeleton of two equal nodes
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 12), st.integers(1, 3))
def test_run_lengths_equal_those_of_the_slow_twin(
    seed: int, count: int, segments: int, least: int
) -> None:
    skeletons = random_skeletons(seed, count)
    blocks = np.random.default_rng(seed + 1).integers(0, segments, size=(4, 3, 5))
    labels = np.repeat(np.repeat(np.repeat(blocks, 2, axis=0), 3, axis=1), 2, axis=2)
    if all(len(np.unique(skeleton.nodes, axis=0)) == 1 for skeleton in skeletons):
        with pytest.raises(errors.InvalidArgumentError, match="all edges have length 0"):
            run_lengths(skeletons, labels, voxel_size=SIZE, merge_nodes=least)
        return
    found = run_lengths(skeletons, labels, voxel_size=SIZE, merge_nodes=least)
    shares = (found.correct, found.split, found.merged, found.omitted)
    assert (found.expected, *shares) == pytest.approx(slow(skeletons, labels, least))
    assert sum(shares) == pytest.approx(1.0)
    assert found.skeletons == count


def test_perfect_and_trivial_segmentations() -> None:
    skeletons = [
        Skeleton(1, np.array([[0.0, 0, 0], [0, 0, 9]]), np.array([[0, 1]])),
        Skeleton(2, np.array([[4.0, 0, 0], [4, 0, 3]]), np.array([[0, 1]])),
    ]
    truth = np.zeros((8, 9, 10), np.int64)
    truth[:4], truth[4:] = 1, 2
    perfect = run_lengths(skeletons, truth)
    assert perfect.expected == perfect.best == pytest.approx((81 + 9) / 12)
    assert perfect.normalised == 1.0
    everything = run_lengths(skeletons, np.ones_like(truth))
    assert (everything.expected, everything.merged) == (0.0, 1.0)
    nothing = run_lengths(skeletons, np.zeros_like(truth))
    assert (nothing.expected, nothing.omitted) == (0.0, 1.0)


def test_run_lengths_are_those_of_funlib_evaluate() -> None:
    # 13.333334 and 36.0 (float32) are what expected_run_length of github.com/funkelab/funlib.evaluate at commit d2852b3
    # returns for these segments, and for one segment per skeleton.
    edges = np.stack([np.arange(9), np.arange(1, 10)], axis=1)
    lines = [Skeleton(i, np.array([(i, i, x) for x in range(10)], float), edges) for i in (1, 4, 7)]
    labels = np.zeros((8, 9, 10), np.int64)
    labels[1, 1, :6], labels[1, 1, 6:] = 1, 2
    labels[4, 4], labels[4, 4, 4] = 3, 0
    labels[7, 7, :5], labels[7, 7, 5:] = 2, 4  # segment 2 merges two skeletons
    found = run_lengths(lines, labels, voxel_size=SIZE)
    assert (found.expected, found.best) == pytest.approx((13.333334, 36.0))
    assert found.normalised == pytest.approx(13.333334 / 36.0)


def tubes() -> np.ndarray:
    """Return two tubes along x and a speck."""
    labels = np.zeros((24, 24, 120), np.int64)
    labels[2:10, 2:10] = 7
    labels[14:22, 14:22] = 3_000_000_000
    labels[0, 0, 0] = 9
    return labels


def test_skeletons_follow_the_objects() -> None:
    found = skeletons_of(tubes(), voxel_size=(8.0, 8.0, 8.0))
    assert [skeleton.id for skeleton in found] == [7, 3_000_000_000]
    for skeleton, middle in zip(found, (5.5, 17.5), strict=True):
        assert np.ptp(skeleton.nodes[:, 2]) > 100
        inner = skeleton.nodes[(skeleton.nodes[:, 2] > 20) & (skeleton.nodes[:, 2] < 100)]
        assert np.abs(inner[:, :2] - middle).max() < 2
    lengths = run_lengths(found, tubes(), voxel_size=(8.0, 8.0, 8.0))
    assert lengths.normalised == 1.0
    assert 1600 < lengths.length < 2200
    assert len(skeletons_of(np.maximum(tubes(), 1))) == 3, "no voxel without object"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    halves = tubes()
    halves[:, :, 60:][halves[:, :, 60:] > 0] += 1
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["truth"], file["halves"] = tubes(), halves
    names = [f"{tmp_path}/a.h5:halves", f"{tmp_path}/a.h5:truth"]
    assert cli.run(["evaluate", *names, "--skeletons", "--voxel-nm", "8,8,8", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    lengths = report["run_lengths"]
    assert lengths["skeletons"] == 2
    assert 0.4 < lengths["normalised"] < 0.6
    assert 0 < lengths["split"] < 0.05
    assert report["cremi"] == pytest.approx(
        np.sqrt(report["adapted_rand_error"] * (report["voi_split"] + report["voi_merge"]))
    )
    whole = report["trivial"]["everything one object"]
    assert whole["normalised_run_length"] == 0
    assert cli.run(["evaluate", *names, "--skeletons"]) == 0
    text = capsys.readouterr().out
    assert "run lengths unit: voxels\n" in text
    assert text.splitlines()[2].split()[-1] == "NERL"


@pytest.mark.parametrize(("nodes", "merged"), [("20", True), ("30", False)])
def test_small_mergers_do_not_count_if_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str, merged: bool
) -> None:
    truth, segments, image = tubes(), tubes(), np.zeros(tubes().shape, np.uint8)
    segments[:, :, :26][truth[:, :, :26] > 0] = 7
    image[truth > 0] = 200
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["truth"], file["segments"], file["raw"] = truth, segments, image
    words = [f"{tmp_path}/a.h5:{name}" for name in ("segments", "truth", "raw")]
    words.insert(2, "--image")
    assert cli.run(["evaluate", *words, "--skeletons", nodes, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["run_lengths"]["merged"] > 0) is merged
    assert report["trivial"]["best grey level"]["normalised_run_length"] == 1


def test_wrong_arguments_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["evaluate", "a.h5:a", "b.h5:b", "--voxel-nm", "8"]) == 2
    assert "no effect without --skeletons" in capsys.readouterr().err
    with pytest.raises(errors.InvalidArgumentError, match="no skeleton with an edge"):
        run_lengths([], np.zeros((2, 2, 2), np.int64))
    outside = Skeleton(1, np.array([[0.0, 0, 0], [0, 0, 9]]), np.array([[0, 1]]))
    with pytest.raises(errors.OutOfRangeError, match="outside of the segmentation"):
        run_lengths([outside], np.zeros((2, 2, 2), np.int64))
    with pytest.raises(errors.ShapeError, match="expected integers"):
        skeletons_of(np.zeros((2, 2, 2)))
    monkeypatch.setitem(__import__("sys").modules, "kimimaro", None)
    with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[skeletons\]'"):
        skeletons_of(tubes())


def test_ids_from_2_63_on_are_segments() -> None:
    labels = np.random.default_rng(3).integers(0, 4, (8, 9, 10)).astype(np.uint64)
    high = np.where(labels > 0, labels + np.uint64(2**63), np.uint64(0))
    known = random_skeletons(1, 4)
    assert run_lengths(known, high, voxel_size=SIZE) == run_lengths(known, labels, voxel_size=SIZE)
