# SPDX-License-Identifier: Apache-2.0
"""Scores against scikit-image, and voxel metrics against their definitions."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage import metrics

from floodtide import _core, errors, evaluate
from floodtide.cli import evaluate as evaluate_cli
from floodtide.data import Volume
from floodtide.report import planes

EPSILON = np.finfo(np.float64).eps


def tolerance(voxels: int) -> float:
    """Rounding of a sum of at most `voxels` terms p log p, each at most 1, in either program."""
    return 4 * EPSILON * max(voxels, 2) * np.log2(max(voxels, 2))


@st.composite
def labelled_pairs(draw):
    shape = draw(hnp.array_shapes(min_dims=3, max_dims=3, max_side=6))
    types = [np.uint8, np.int16, np.uint32, np.int64, np.uint64]
    pair = [
        draw(hnp.arrays(draw(st.sampled_from(types)), shape, elements=st.integers(0, 4)))
        for _ in range(2)
    ]
    return tuple(pair)


def oracle(segmentation, truth):
    """scikit-image names its pair ratios the other way round and counts truth in the rows."""
    with np.errstate(invalid="ignore", divide="ignore"):
        error, of_truth, of_segmentation = metrics.adapted_rand_error(
            truth.astype(int), segmentation.astype(int), ignore_labels=(0,)
        )
        split, merge = metrics.variation_of_information(
            truth.astype(int), segmentation.astype(int), ignore_labels=(0,)
        )
    return {
        "adapted_rand_error": error,
        "rand_precision": of_segmentation,
        "rand_recall": of_truth,
        "voi_split": split,
        "voi_merge": merge,
    }


@settings(deadline=None)
@given(labelled_pairs())
def test_scores_equal_scikit_image(pair):
    segmentation, truth = pair
    ours = evaluate.scores(segmentation, truth)
    masked_truth = np.where(segmentation > 0, truth, 0)
    for prefix, reference_truth in (("", masked_truth), ("all_", truth)):
        voxels = np.count_nonzero(reference_truth)
        assert ours[prefix + "voxels"] == voxels
        if voxels == 0:
            assert np.isnan(ours[prefix + "adapted_rand_error"])
            continue
        for name, expected in oracle(segmentation, reference_truth).items():
            if np.isfinite(expected):  # scikit-image leaves 0/0 undefined
                assert abs(ours[prefix + name] - expected) <= tolerance(voxels), name
    if np.any(truth > 0):
        assert ours["coverage"] == np.mean(segmentation[truth > 0] > 0)


@settings(deadline=None)
@given(labelled_pairs(), st.integers(0, 6))
def test_tables_of_parts_add_up(pair, cut):
    segmentation, truth = pair
    whole, upper, lower = (evaluate.ContingencyTable() for _ in range(3))
    whole.add(segmentation, truth)
    upper.add(segmentation[:cut], truth[:cut])
    lower.add(segmentation[cut:], truth[cut:])
    lower.add_rows(upper.rows())
    np.testing.assert_array_equal(lower.rows(), whole.rows())


def test_ids_above_the_signed_range_are_objects_and_negative_ones_are_not():
    truth = np.array([[[1, 1, 2]]])
    large = np.array([[[2**64 - 4, 2**64 - 4, 2**63]]], np.uint64)
    assert evaluate.scores(large, truth)["segments"] == 2
    assert evaluate.scores(np.array([[[-1, -1, 3]]]), truth)["coverage"] == 1 / 3


@pytest.mark.parametrize(
    ("segmentation", "truth", "message"),
    [
        (np.zeros((2, 2, 2), int), np.zeros((2, 2, 3), int), "truth has shape"),
        (
            np.zeros((2, 2, 2)),
            np.zeros((2, 2, 2), int),
            "got dtype float64: write the ids as uint32",
        ),
    ],
)
def test_unfit_arrays_are_errors(segmentation, truth, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        evaluate.scores(segmentation, truth)


def naive_average_precision(binned, positive):
    area, recall = 0.0, 0.0
    for threshold in np.unique(binned)[::-1]:
        called = binned >= threshold
        found = np.count_nonzero(called & positive)
        step = found / np.count_nonzero(positive)
        area += (step - recall) * found / np.count_nonzero(called)
        recall = step
    return area


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_voxel_counts_follow_their_definitions(seed, voxels):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 8, (1, 1, voxels)).astype(np.float32)
    labels = np.where(rng.random((1, 1, voxels)) < 0.4, 0.95, 0.05).astype(np.float32)
    counts = _core.evaluate.VoxelCounts()
    cross_entropy = counts.add(logits, labels)

    x, y = logits.astype(np.float64), labels.astype(np.float64)
    expected = np.sum(np.logaddexp(0, x) - x * y)
    assert abs(cross_entropy - expected) <= EPSILON * voxels * np.sum(np.abs(x) + 1)
    positive = labels > 0.5
    for probability, row in counts.scores().items():
        called = logits >= np.float32(np.log(probability / (1 - probability)))
        predicted = row["predicted"]
        assert predicted["true_positive"] == np.count_nonzero(called & positive)
        assert predicted["false_positive"] == np.count_nonzero(called & ~positive)
        assert predicted["false_negative"] == np.count_nonzero(~called & positive)
        assert predicted["true_negative"] == np.count_nonzero(~called & ~positive)
        assert row["everything_is_object"]["true_positive"] == np.count_nonzero(positive)
    if positive.any():
        binned = np.clip(np.floor((logits + np.float32(16)) * np.float32(128)), 0, 4095)
        area = naive_average_precision(binned.ravel(), positive.ravel())
        assert abs(counts.average_precision() - area) <= 8 * EPSILON * voxels
    else:
        assert counts.average_precision() == 0


def test_voxel_counts_of_ranks_sum_exactly():
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(3):
        counts = _core.evaluate.VoxelCounts()
        counts.add(
            rng.normal(size=(3, 4, 5)).astype(np.float32),
            rng.random((3, 4, 5)).astype(np.float32),
        )
        parts.append(counts)
    whole = _core.evaluate.VoxelCounts()
    whole.assign(parts[0].values() + parts[1].values() + parts[2].values())
    assert whole.voxels() == 180
    assert whole.object_voxels() == sum(part.object_voxels() for part in parts)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_matching_is_greedy_by_common_voxels(seed, ids):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, ids + 1, (2, 4, 5, 6))
    pairs = [
        (int(((a == i) & (b == j)).sum()), -i, -j)
        for i in range(1, ids + 1)
        for j in range(1, ids + 1)
    ]
    matched, same, identical = {}, int(((a == 0) & (b == 0)).sum()), 0
    for voxels, i, j in sorted(pairs, reverse=True):
        if voxels and -i not in matched and -j not in matched.values():
            matched[-i] = -j
            same += voxels
            identical += bool(((a == -i) == (b == -j)).all())
    table = evaluate.ContingencyTable()
    table.add(a, b)
    assert table.matching() == {
        "voxels": 120,
        "same_voxels": same,
        "segments": len(np.unique(a[a > 0])),
        "objects": len(np.unique(b[b > 0])),
        "identical": identical,
    }


def test_renumbered_segmentations_are_the_same():
    a = np.random.default_rng(1).integers(0, 6, (5, 6, 7))
    b = np.array([0, 9, 4, 7, 1, 2])[a]
    table = evaluate.ContingencyTable()
    table.add(b, a)
    found = table.matching()
    assert found["same_voxels"] == found["voxels"] == 210
    assert found["identical"] == found["objects"] == 5


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([None, ((3, 2, 1), (3, 4, 5))])
)
def test_the_worst_mistakes_are_those_of_a_slow_twin(tmp_path_factory, seed, ids, box):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, ids + 1, (2, 6, 7, 8)).astype(np.uint16)
    path = tmp_path_factory.mktemp("worst") / "in.h5"
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = a, b
        file["a"].attrs["box_start"] = np.array([2, 1, 0])
        file["b"].attrs["box_start"] = np.array([2, 1, 0])
    pair = evaluate.Pair(Volume(f"{path}:a"), Volume(f"{path}:b"), box)
    found = evaluate.worst_mistakes(pair, count=3)
    if box is not None:
        (z, y, x), (nz, ny, nx) = box
        here = np.s_[z - 2 : z - 2 + nz, y - 1 : y - 1 + ny, x : x + nx]
        a, b = a[here], b[here]
        start = box[0]
    else:
        start = (2, 1, 0)
    expected = []
    for kind, whole, others in (("split", b, a), ("merge", a, b)):
        losses = []
        for name in range(1, ids + 1):
            sizes = np.bincount(others[whole == name], minlength=ids + 1)[1:]
            if (sizes > 0).sum() > 1:
                losses.append((int(sizes.sum() - sizes.max()), -name))
        expected += [(kind, -name, lost) for lost, name in sorted(losses, reverse=True)[:3]]
    assert [(m.kind, m.id, m.voxels) for m in found] == expected
    for mistake in found:
        assert len(mistake.parts) in (2, 3)
        sizes = [part.voxels for part in mistake.parts]
        assert sizes == sorted(sizes, reverse=True)
        for part in mistake.parts:
            place = tuple(n - first for n, first in zip(part.zyx, start, strict=True))
            assert (a[place], b[place]) == (part.segment, part.object)
            assert ((a == part.segment) & (b == part.object)).sum() == part.voxels


def test_the_command_lists_the_worst_mistakes(tmp_path):
    truth = np.repeat([1, 1, 2, 2], 4)[None, None, :].astype(np.uint8)
    segmentation = np.array([5] * 6 + [6] * 2 + [7] * 8, np.uint8)[None, None, :]
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["a"], file["b"] = segmentation, truth
    arguments = [f"{tmp_path}/in.h5:a", f"{tmp_path}/in.h5:b", "--worst", "5"]
    result = CliRunner().invoke(evaluate_cli.command, arguments, catch_exceptions=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith("worst: ")]
    assert lines == [
        "worst: kind split, id 1, voxels 2, parts segment 5, object 1, voxels 6, zyx 0,0,3;"
        " segment 6, object 1, voxels 2, zyx 0,0,7"
    ]
    result = CliRunner().invoke(
        evaluate_cli.command, [arguments[1], arguments[0], "--worst", "5", "--json"]
    )
    (found,) = json.loads(result.stdout)["worst"]
    assert (found["kind"], found["id"], found["voxels"]) == ("merge", 1, 2)
    assert found["parts"][1] == {"segment": 1, "object": 6, "voxels": 2, "zyx": [0, 0, 7]}


def test_the_surroundings_of_the_worst_mistakes_are_drawn(tmp_path):
    rng = np.random.default_rng(3)
    truth = np.zeros((30, 200, 180), np.uint8)
    truth[:, :100], truth[:, 100:] = 1, 2
    segmentation = np.ones(truth.shape, np.uint8)
    segmentation[:, :, 170:] = 2
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["a"], file["b"] = segmentation, truth
        file["raw"] = rng.integers(0, 255, truth.shape).astype(np.uint8)
    names = [f"{tmp_path}/in.h5:{name}" for name in ("a", "b", "raw")]
    folder = tmp_path / "pictures"
    folder.mkdir()
    result = CliRunner().invoke(
        evaluate_cli.command,
        [*names[:2], "--worst", "1", "--picture", f"{folder}/out.png", "--image", names[2]],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.iterdir()) == [
        "out-01-split-1.png",
        "out-02-merge-1.png",
        "out.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    read = planes.read_segmentation(Volume(names[0]), names[2], names[1], None, (3, 150, 175))
    assert [plane.title for plane in read] == ["z = 3", "y = 150", "x = 175"]
    np.testing.assert_array_equal(read[0].truth, truth[3, 40:200, 20:180])
    np.testing.assert_array_equal(read[2].segmentation, segmentation[:, 40:200, 175])
