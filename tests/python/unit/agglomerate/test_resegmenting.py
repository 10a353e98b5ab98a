# SPDX-License-Identifier: Apache-2.0
"""Pairwise resegmentation: scores against a transcription of the published procedure, merges, and restarts."""

import csv
import dataclasses
import json
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest
from scipy import ndimage

from floodtide import config, errors
from floodtide.agglomerate.resegmenting import (
    DecisionPoint,
    Pairs,
    decision_points,
    merge,
    prepare,
    resegment_on_ranks,
    resegment_pair,
    should_merge,
    write_merged,
)
from floodtide.cli import run
from floodtide.config.segment_options import ResegmentOptions
from floodtide.data import Volume
from floodtide.segment import Segmenter

Whole = tuple[Segmenter, Volume, np.ndarray]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Return a network, an image, and the segmentation of the image by the network."""
    folder = tmp_path_factory.mktemp("resegment")
    options = config.load(bright_network.configuration(folder, (40, 64, 96))).segment
    segmenter = Segmenter.load(options)
    volume = Volume(options.image)
    return segmenter, volume, segmenter.segment(volume).segmentation.astype(np.int64)


def cut_in_three(labels: np.ndarray) -> np.ndarray:
    """Return the segmentation with empty planes at x = 32 and 64 and other ids behind them."""
    out = labels.copy()
    for plane in (32, 64):
        behind = out[:, :, plane + 1 :]
        behind[behind > 0] += 1000
        out[:, :, plane] = 0
    return out


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def box(
    centre: tuple[int, ...], radius: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[slice, ...]:
    return tuple(
        slice(max(0, c - r), min(n, c + r + 1))
        for c, r, n in zip(centre, radius, shape, strict=True)
    )


def transcription(
    whole: Whole, labels: np.ndarray, point: DecisionPoint, options: ResegmentOptions
) -> dict[str, object]:
    """Flood a pair again by google/ffn's procedure, with NumPy and SciPy and one object at a time."""
    segmenter, volume, _ = whole
    fov = segmenter.model.fov
    around = box(
        point.point_zyx, options.radius or tuple(3 * n // 2 + 1 for n in fov), volume.shape
    )
    image = volume.read()[around]
    ids = labels[around]
    corner = tuple(part.start for part in around)
    middle = tuple(p - c for p, c in zip(point.point_zyx, corner, strict=True))
    near = box(middle, options.analysis_radius or fov, ids.shape)
    others = np.where((ids == point.a) | (ids == point.b), 0, ids)
    objects, result = [], {}
    for side, own in (("from_a", point.a), ("from_b", point.b)):
        depth = ndimage.distance_transform_edt(ids == own)
        for axis, size in enumerate(fov):
            edge = np.moveaxis(depth, axis, 0)
            edge[: size // 2] = 0
            edge[len(edge) - size // 2 :] = 0
        tried = 0
        while tried < options.attempts:
            seed = np.unravel_index(np.argmax(depth), depth.shape)
            if depth[seed] == 0:
                break
            tried += 1
            depth[box(seed, segmenter.model.deltas, depth.shape)] = 0
            deleted = []

            def moved(move, deleted=deleted):
                inside = [
                    part.start <= p < part.stop
                    for part, p in zip(near, move.position_zyx, strict=True)
                ]
                deleted.append(move.deleted if all(inside) else 0)

            grown = segmenter.segment_at(image, seed, moved, initial=others).logits
            with np.errstate(invalid="ignore"):
                found = np.nan_to_num(grown, nan=-99.0) >= np.log(0.6 / 0.4)
                mask = (np.nan_to_num(grown, nan=-99.0) >= 0)[near]
            if found[near][ids[near] == own].sum() >= options.recovery * (ids[near] == own).sum():
                break
        objects.append(mask)
        result[side] = {
            "start": [int(s + c) for s, c in zip(seed, corner, strict=True)],
            "attempts": tried,
            "voxels": int(mask.sum()),
            "deleted": sum(deleted),
            "share_of_a": mask[ids[near] == point.a].mean(),
            "share_of_b": mask[ids[near] == point.b].mean(),
            "max_distance": ndimage.distance_transform_edt(mask).max(),
        }
    a, b = objects
    result["iou"] = (a & b).sum() / (a | b).sum()
    return result


def test_scores_equal_those_of_the_transcription(whole: Whole) -> None:
    segmenter, volume, labels = whole
    cut = cut_in_three(labels)
    options = ResegmentOptions(terminate_early=False, attempts=3)
    compared = merged = 0
    for point in decision_points(cut, max_distance=3.0):
        scores = resegment_pair(segmenter, volume, cut, point, options)
        if scores is None or scores["from_a"] is None or scores["from_b"] is None:
            continue
        expected = transcription(whole, cut, point, options)
        assert scores["iou"] == pytest.approx(expected["iou"])
        for side in ("from_a", "from_b"):
            assert scores[side].keys() == expected[side].keys() | {"recovered"}
            for name, value in expected[side].items():
                assert scores[side][name] == pytest.approx(value), (point, side, name)
        compared += 1
        merged += should_merge(scores, options)
    assert compared >= 10
    assert 4 <= merged < compared


def test_objects_that_were_cut_come_back_whole(whole: Whole, tmp_path: Path) -> None:
    segmenter, volume, labels = whole
    cut = cut_in_three(labels)
    with h5py.File(tmp_path / "cut.h5", "w") as file:
        file["labels"] = cut.astype(np.uint32)
    options = ResegmentOptions(max_distance=1.5, analysis_radius=(14, 14, 14))
    segmentation = Volume(str(tmp_path / "cut.h5"), "labels")
    pairs = resegment_on_ranks(tmp_path / "pairs", segmenter, volume, segmentation, options)
    found = merge(pairs, options)
    out = write_merged(segmentation, found, f"{tmp_path}/out.h5:objects").read()
    joined = [(p.a, p.b) for p, yes in zip(pairs.points, found.merged, strict=True) if yes]
    apart = [(p.a, p.b) for p, yes in zip(pairs.points, found.merged, strict=True) if not yes]
    assert len(joined) >= 4
    assert all(a % 1000 == b % 1000 for a, b in joined), "no two objects of the network are merged"
    assert sum(a % 1000 != b % 1000 for a, b in apart) >= 10
    for a, b in joined:
        assert len(np.unique(out[(cut == a) | (cut == b)])) == 1
    gone = len(found.objects) - len(set(found.objects.values()))
    assert len(np.unique(out)) == len(np.unique(cut)) - gone
    np.testing.assert_array_equal(out > 0, cut > 0)
    rows = table(tmp_path / "pairs" / "pairs.csv")
    assert len(rows) == len(pairs.points)
    assert sum(int(row["merged"]) for row in rows) == sum(found.merged) > 0
    same = table(tmp_path / "pairs" / "equivalences.csv")
    assert {int(row["segment"]): int(row["object"]) for row in same} == found.objects
    assert all(int(row["object"]) <= int(row["segment"]) for row in same)


def test_a_restart_floods_what_is_missing_only(whole: Whole, tmp_path: Path) -> None:
    segmenter, volume, labels = whole
    with h5py.File(tmp_path / "cut.h5", "w") as file:
        file["labels"] = cut_in_three(labels).astype(np.uint32)
    segmentation = Volume(str(tmp_path / "cut.h5"), "labels")
    options = ResegmentOptions()
    calls: list[tuple[int, int]] = []
    calls_before = segmenter.network_calls
    pairs = resegment_on_ranks(
        tmp_path / "pairs", segmenter, volume, segmentation, options, lambda *c: calls.append(c)
    )
    before = pairs.read_scores()
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (len(pairs.points), len(pairs.points))
    assert len({done for done, _ in calls}) == len(pairs.points), "each pair counts"
    flooded = sum(row["network_calls"] for row in before if row is not None)
    assert segmenter.network_calls - calls_before == flooded > 0
    assert len(pairs) >= 2
    times = [pairs.path(n).stat().st_mtime_ns for n in range(len(pairs))]
    pairs.path(1).unlink()
    with pytest.raises(errors.InvalidFileError, match=r"scores_000001.json"):
        pairs.read_scores()
    again = resegment_on_ranks(tmp_path / "pairs", segmenter, volume, segmentation, options)
    assert again.read_scores() == before
    changed = [n for n in range(len(pairs)) if pairs.path(n).stat().st_mtime_ns != times[n]]
    assert changed == [1]
    strict = dataclasses.replace(options, min_iou=0.99)
    again = resegment_on_ranks(tmp_path / "pairs", segmenter, volume, segmentation, strict)
    assert sum(merge(again, strict).merged) < sum(merge(pairs, options).merged)
    other = dataclasses.replace(options, attempts=2)
    with pytest.raises(errors.InvalidArgumentError, match="attempts = 8, now it is 2"):
        resegment_on_ranks(tmp_path / "pairs", segmenter, volume, segmentation, other)


def test_merge_rule() -> None:
    grown = {"voxels": 1000, "deleted": 10, "share_of_a": 0.9, "share_of_b": 0.8}
    scores = {"from_a": grown, "from_b": grown, "iou": 0.95}
    options = ResegmentOptions()
    assert should_merge(scores, options)
    assert not should_merge(scores | {"iou": 0.8}, options)
    assert not should_merge(scores | {"from_b": None, "iou": None}, options)
    assert not should_merge(scores | {"from_a": grown | {"share_of_b": 0.6}}, options)
    undone = grown | {"deleted": 20}
    assert should_merge(scores | {"from_a": undone}, options), "one of both is enough"
    assert not should_merge(scores | {"from_a": undone, "from_b": undone}, options)


def test_a_segmentation_of_a_box_is_placed_by_its_offset(whole: Whole, tmp_path: Path) -> None:
    segmenter, volume, _ = whole
    result = segmenter.segment(volume, ((4, 3, 2), (34, 58, 90)))
    result.save(f"{tmp_path}/box.h5:labels")
    placed = Volume(str(tmp_path / "box.h5"), "labels")
    full = np.zeros(volume.shape, np.int64)
    full[4:38, 3:61, 2:92] = result.segmentation
    checked = 0
    for point in decision_points(placed, max_distance=4.0):
        z, y, x = point.point_zyx
        moved = point._replace(point_zyx=(z + 4, y + 3, x + 2))
        radius = ResegmentOptions(radius=(5, 5, 5))
        inside = all(
            5 <= p - a < n - 5
            for p, a, n in zip(moved.point_zyx, (4, 3, 2), (34, 58, 90), strict=True)
        )
        here = resegment_pair(segmenter, volume, placed, point, radius)
        if inside:
            assert here == resegment_pair(segmenter, volume, full, moved, radius)
            checked += here is not None
    assert checked >= 2


def test_command_from_an_image_to_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = bright_network.configuration(tmp_path)
    segments, out = f"{tmp_path}/out.h5:labels", f"{tmp_path}/objects.h5:labels"
    line = ["segment", str(toml), "--out", segments, "--set", "segment.consensus=reverse"]
    assert run([*line, "--set", "segment.consensus_min_size=20"]) == 0
    line = ["agglomerate", str(toml), segments]
    capsys.readouterr()
    assert run([*line, out, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    base, objects = Volume(segments).read(), Volume(out).read()
    np.testing.assert_array_equal(base > 0, objects > 0)
    assert report["pairs"] == len(table(tmp_path / "out.pairs/pairs.csv")) > 0
    merged = len(np.unique(base)) - len(np.unique(objects))
    assert merged == report["merged_segments"] - report["objects_of_them"]
    assert run([*line, "--pairs", f"{tmp_path}/other", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["merged_pairs"] == report["merged_pairs"]
    assert again["out"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{toml}", "{folder}/none.h5:labels"], "none.h5"),
        (
            ["{toml}", "{folder}/volume.h5:raw", "--pairs", "{folder}"],
            "has files but no pairs.json",
        ),
        (["{toml}", "{folder}/small.h5:labels"], "expected a segmentation inside"),
        (["{toml}", "{folder}/float.h5:labels"], "holds float32, expected integers"),
        (
            ["{toml}", "{folder}/volume.h5:raw", "--set", "resegment.min_iou=1.5"],
            "min_iou is 1.5",
        ),
        (["{toml}", "{folder}/volume.h5:raw", "--method", "mean"], "--method is for affinities"),
        (["{toml}", "{folder}/volume.h5:raw", "a.zarr", "b.zarr"], "expected SEGMENTATION and OUT"),
        (["a.h5:affinities", "{folder}/a.zarr", "--set", "a.b=1"], "--set is for a configuration"),
        (["a.h5:affinities", "a.zarr", "b.zarr"], "b.zarr: more than one volume"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    toml = bright_network.configuration(tmp_path)
    with h5py.File(tmp_path / "small.h5", "w") as file:
        file["labels"] = np.zeros((60, 50, 50), np.uint32)
    with h5py.File(tmp_path / "float.h5", "w") as file:
        file["labels"] = np.zeros((40, 44, 48), np.float32)
    filled = [word.format(toml=toml, folder=tmp_path) for word in arguments]
    assert run(["agglomerate", *filled]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("pairs.json", "{}", "pairs.json"),
        ("pairs.json", '{"format": "other"}', "expected 'floodtide pairs 1'"),
        ("scores_000000.json", "[", "scores_000000.json"),
        ("scores_000000.json", "[]", "scores of other pairs"),
    ],
)
def test_damaged_files_are_refused(
    whole: Whole, tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / "pairs").mkdir()
    prepare(tmp_path / "pairs", {"a": 1})
    pairs = Pairs(tmp_path / "pairs", [DecisionPoint(1, 2, (3, 4, 5), 1.0)])
    pairs.write_scores(0, [None])
    prepare(tmp_path / "pairs", {"a": 1})
    assert merge(pairs, ResegmentOptions()).merged == [False]
    (tmp_path / "pairs" / name).write_text(text)

    def again() -> None:
        prepare(tmp_path / "pairs", {"a": 1})
        merge(pairs, ResegmentOptions())

    with pytest.raises(errors.InvalidFileError, match=says):
        again()
