# SPDX-License-Identifier: Apache-2.0
"""Places to look at first: planted mistakes come first, with coordinates in voxels of the image."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import affinity_network
import h5py
import numpy as np
import pytest

from floodtide import cli, evaluate
from floodtide.base.tasks.affinities import NEAREST
from floodtide.data import Volume
from floodtide.data.places import END, MERGE, SPLIT, Place, read_places, table_of
from floodtide.evaluate.mistakes import looked_at
from floodtide.segment.doubts import _Contacts, segments_with_places
from floodtide.segment.linking import AffinityOptions, segments_of
from floodtide.view.viewer import layers_of, places_of

pytest.importorskip("waterz")
Array = np.ndarray[Any, Any]
START = (3, 50, 7)


def planted() -> tuple[Array, Array]:
    """Return affinities and truth: slabs along x, of which two are falsely merged, and one is falsely split along y.

    A small cube lies inside the last slab, and is falsely cut off.
    """
    truth = np.ones((24, 40, 80), np.int32)
    for number, begin in enumerate((20, 40, 60), start=2):
        truth[:, :, begin:] = number
    pieces = truth.copy()
    pieces[:, 20:, 40:60] = 5
    pieces[8:14, 8:14, 68:74] = 6
    between = {(1, 2): 0.55, (3, 5): 0.46, (4, 6): 0.1}
    found = np.random.default_rng(0).uniform(0.9, 0.99, (3, *truth.shape)).astype(np.float32)
    for axis in range(3):
        before = np.roll(pieces, 1, axis)
        for a in range(1, 7):
            for b in range(a + 1, 7):
                at = ((pieces == a) & (before == b)) | ((pieces == b) & (before == a))
                noise = np.random.default_rng(a).uniform(-0.02, 0.02, int(at.sum()))
                found[axis][at] = between.get((a, b), 0.05) + noise
        found[axis][tuple(slice(0, 1) if axis == k else slice(None) for k in range(3))] = 0
    return found, truth


def written(folder: Path) -> tuple[str, str]:
    """Write affinities of a box of an image, and the truth of all of it."""
    affinities, truth = planted()
    whole = np.zeros((30, 100, 100), np.int32)
    whole[3:27, 50:90, 7:87] = truth
    with h5py.File(folder / "a.h5", "w") as file:
        file["affinities"] = affinities
        file["affinities"].attrs["offsets"] = json.dumps(NEAREST)
        file["affinities"].attrs["box_start"] = START
        file["truth"] = whole
    return f"{folder}/a.h5:affinities", f"{folder}/a.h5:truth"


def check(places: list[Place], labels: Array, first: tuple[int, ...] = (0, 0, 0)) -> None:
    """Check that the sides of all places lie in their segments."""
    for place in places:
        for side, segment in zip(place.sides, place.segments, strict=True):
            if segment:
                assert labels[tuple(np.subtract(side, first))] == segment


@pytest.mark.parametrize("method", ["mean", "median", "quantile75"])
def test_planted_mistakes_are_the_first_places(method: str) -> None:
    affinities, truth = planted()
    options = AffinityOptions(method=method, threshold=0.5, min_size=20)
    labels, places = segments_with_places(affinities, NEAREST, options)
    assert places is not None
    np.testing.assert_array_equal(labels, segments_of(affinities, NEAREST, options))
    assert len(np.unique(labels)) == 5
    check(places, labels)
    merge, end, split = sorted(
        places[:3], key=lambda place: ["merge", "end", "split"].index(place.kind)
    )
    assert (merge.kind, merge.voxels, merge.segments[0]) == (MERGE, (19200, 19200), labels[0, 0, 0])
    assert merge.zyx[2] in (19, 20)
    assert np.abs(np.subtract(merge.zyx, (12, 20, 20))).max() <= 1
    assert [truth[side] for side in merge.sides] in ([1, 2], [2, 1])
    assert merge.score == pytest.approx(0.55, abs=0.03)
    assert (end.kind, end.voxels[0], end.segments[0]) == (END, 216, labels[10, 10, 70])
    assert end.segments[1] == labels[0, 0, 70]
    assert (split.kind, sorted(split.segments)) == (
        SPLIT,
        sorted([labels[0, 0, 50], labels[0, 30, 50]]),
    )
    assert np.abs(np.subtract(split.zyx, (12, 20, 50))).max() <= 1
    assert split.score == pytest.approx(0.46, abs=0.03)


def test_contacts_do_not_depend_on_the_order_in_memory() -> None:
    rng = np.random.default_rng(0)
    numbers, values = rng.integers(0, 4, (4, 5, 6)), rng.random((3, 4, 5, 6), np.float32)
    one, other = (_Contacts(n, values) for n in (numbers, np.asfortranarray(numbers)))
    assert len(one.voxels) > 0
    for name in ("first", "second", "begins", "counts", "affinities", "voxels"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_a_piece_that_touches_nothing_ends() -> None:
    affinities, _ = planted()
    for axis in range(3):
        affinities[axis][7:15, 7:15, 67:75] = 0
        affinities[axis][9:13, 9:13, 69:73] = 0.95
    options = AffinityOptions(min_size=10)
    labels, places = segments_with_places(affinities, NEAREST, options)
    assert places is not None
    (alone,) = [place for place in places if place.segments[1] == 0]
    assert (alone.kind, alone.score, alone.voxels[1]) == (END, 0.0, 0)
    check(places, labels)


SETTINGS = ["--threshold", "0.5", "--small-size", "0", "--min-size", "20"]


def test_the_commands_write_read_and_judge_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, truth = written(tmp_path)
    for out in (f"{tmp_path}/out.h5:first/s", f"{tmp_path}/out.zarr"):
        line = ["agglomerate", source, out, *SETTINGS, "--json"]
        assert cli.run(line) == 0
        report = json.loads(capsys.readouterr().out)
        name = "out.h5.first.s.places.csv" if ":" in out else "out.zarr.places.csv"
        assert report["places"] == f"{tmp_path}/{name}"
        labels = Volume(out).read()
        places = read_places(out, START)
        assert places is not None
        check(places, labels, START)
        table = list(csv.DictReader((tmp_path / name).read_text().splitlines()[1:]))
        (merge,) = [row for row in table[:3] if row["kind"] == "merge"]
        assert abs(int(merge["x"]) - 27) <= 1
        assert abs(int(merge["y"]) - 70) <= 1
        assert cli.run(["evaluate", out, truth, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["places"]
        assert (found["table"], found["mistakes"]) == (f"{tmp_path}/{name}", 3)
        first = found["first"]["20"]
        assert first["mistakes"] == 3
        assert first["random_order"] == pytest.approx(
            3 * min(20, found["judged"]) / found["judged"]
        )
        assert cli.run(["evaluate", out, truth]) == 0
        assert f"{name}: 3 mistakes among {found['judged']} places" in capsys.readouterr().out
        shown = places_of(layers_of(out, truth=truth)[0])
        assert shown == places
    evaluate.report(Volume(labels), Volume(labels))  # an array has no table


def test_subvolumes_have_places_of_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, truth = written(tmp_path)
    folder = f"{tmp_path}/pieces"
    line = ["agglomerate", source, folder, *SETTINGS, "--subvolume", "24,40,44"]
    assert cli.run(line) == 0
    for out in (f"{tmp_path}/out.h5:s", f"{tmp_path}/out.zarr"):
        capsys.readouterr()
        assert cli.run(["reconcile", folder, out, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["places"] == str(table_of(out))
        places = read_places(out, START)
        assert places is not None
        check(places, Volume(out).read(), START)
        assert {place.kind for place in places[:3]} == {MERGE, SPLIT, END}
        merge = next(place for place in places if place.kind == MERGE)
        assert np.abs(np.subtract(merge.zyx, np.add(START, (12, 20, 20)))).max() <= 1
        assert cli.run(["evaluate", out, truth, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["places"]["mistakes"] == 3
    damaged, *others = Path(folder).glob("*.csv")
    text = damaged.read_text()
    damaged.write_text(re.sub(r"\n\d+(,.*)\n", r"\n9999\1\n", text, count=1))
    assert cli.run(["reconcile", folder, f"{tmp_path}/new.h5:s"]) == 2
    assert "its table has a place at (9999, " in capsys.readouterr().err
    damaged.write_text("my notes")
    assert cli.run(["reconcile", folder, f"{tmp_path}/new.h5:s"]) == 2
    assert f"{damaged}: cannot be read" in capsys.readouterr().err
    assert not Path(tmp_path, "new.h5").exists()
    damaged.unlink()
    assert cli.run(["reconcile", folder, f"{tmp_path}/out.h5:s"]) == 0
    for table in others:
        table.unlink()
    assert cli.run(["reconcile", folder, f"{tmp_path}/out.h5:s", "--json"]) == 0
    assert not table_of(f"{tmp_path}/out.h5:s").exists()  # the older one told of other segments


def test_what_is_no_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, truth = written(tmp_path)
    out = f"{tmp_path}/out.h5:s"
    file = table_of(out)
    file.write_text("mine")
    assert cli.run(["agglomerate", source, out]) == 2
    assert "exists and is not a table of places" in capsys.readouterr().err
    assert file.read_text() == "mine"
    file.unlink()
    assert cli.run(["agglomerate", source, out, "--min-size", "20"]) == 0
    text = file.read_text()
    for damaged in (
        text.replace("merge", "merger"),
        text.replace("z,y,x", "x,y,z"),
        text[:-4],
        "\n",
    ):
        file.write_text(damaged)
        capsys.readouterr()
        assert cli.run(["evaluate", out, truth]) == 2
        assert "expected a table of places" in capsys.readouterr().err
    file.write_text(re.sub(r"(merge,[0-9.]+),\d+", r"\1,77", text))
    assert cli.run(["evaluate", out, truth]) == 0
    assert "lists places of another segmentation" in capsys.readouterr().err
    assert places_of(layers_of(out)[0]) == []


def test_pieces_without_a_voxel_of_the_image_are_judged(tmp_path: Path) -> None:
    ones = np.ones((3, 3, 3), np.int64)
    # Of a small piece at finer voxels, no whole voxel of the image may be left.
    places = [Place((1, 1, 1), SPLIT, 0.5, (1, 1), (0, 0), ((1, 1, 1), (1, 1, 1)))]
    found = looked_at(tmp_path / "out.csv", places, ones, ones, evaluate.ContingencyTable())
    assert (found.judged, found.mistakes) == (1, 1)


def test_names_of_tables() -> None:
    names = {
        "a/b.h5:s": "a/b.h5.s.places.csv",
        "b.h5:x/s": "b.h5.x.s.places.csv",
        "a/v.zarr": "a/v.zarr.places.csv",
        "a/v.zarr/x/0": "a/v.zarr.x.0.places.csv",
        "precomputed://a/v": "a/v.places.csv",
        "a/b.tif": "a/b.tif.places.csv",
    }
    assert {name: str(table_of(name)) for name in names} == names


def test_a_resampled_image_has_its_own_voxels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    affinity_network.train(tmp_path)
    raw = Volume(f"{tmp_path}/volume.h5:raw").read().repeat(2, 1).repeat(2, 2)
    with h5py.File(tmp_path / "fine.h5", "w") as file:
        file["raw"] = raw
        file["raw"].attrs["resolution"] = [16.0, 8.0, 8.0]
        file["raw"].attrs["offset"] = [1600.0, 0.0, 0.0]  # 100 voxels
    line = [f"{tmp_path}/fine.h5:raw", "--model", f"{tmp_path}/run", "--box", "3:60,5:120,7:121"]
    for out in (f"{tmp_path}/out.h5:s", f"{tmp_path}/out.tif"):
        assert cli.run(["segment", *line, "--out", out, "--set", "segment.min_size=1"]) == 0
        places = read_places(out, (3, 5, 7))
        assert places
        check(places, Volume(out).read(), (3, 5, 7))
        ends = [place for place in places if place.kind == END]
        labels = Volume(out).read()
        for place in ends:
            assert place.voxels[0] == pytest.approx((labels == place.segments[0]).sum(), rel=0.1)
    shown = places_of(layers_of(f"{tmp_path}/out.h5:s")[0])
    assert shown[0].zyx == tuple(np.add(places[0].zyx, (100, 0, 0)))
