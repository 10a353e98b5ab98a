# SPDX-License-Identifier: Apache-2.0
"""Segments of affinities: of known objects, in subvolumes, and with wrong input."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import ndimage
from skimage import measure, metrics

from floodtide import cli, errors
from floodtide.base.tasks.affinities import NEAREST
from floodtide.data import Volume
from floodtide.data.formats.geometry import Geometry
from floodtide.segment import linking, reconcile
from floodtide.segment.affinities import AffinityFile, agglomerate
from floodtide.segment.linking import AffinityOptions, segments_of
from floodtide.segment.pieces import Pieces
from floodtide.segment.reconciling import read_reconciled

FAR = (*NEAREST, (-3, 0, 0), (0, -3, 0), (0, 0, -3), (-2, 2, 0))


def blobs(shape: tuple[int, int, int], seed: int, size: float = 2.0) -> np.ndarray:
    """Return random cells without space between them."""
    seeds = np.random.default_rng(seed).normal(size=shape)
    smooth = ndimage.gaussian_filter(seeds, size)
    peaks = smooth == ndimage.maximum_filter(smooth, 5)
    markers, _ = ndimage.label(peaks)
    nearest = ndimage.distance_transform_edt(
        markers == 0, return_distances=False, return_indices=True
    )
    return markers[tuple(nearest)]


def affinities_of(labels: np.ndarray, offsets: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """Return 1 where the voxel at an offset has the same label; 0 elsewhere and outside."""
    out = np.zeros((len(offsets), *labels.shape), np.float32)
    for channel, step in enumerate(offsets):
        for place in np.ndindex(labels.shape):
            other = tuple(p + s for p, s in zip(place, step, strict=True))
            if all(0 <= p < n for p, n in zip(other, labels.shape, strict=True)):
                out[(channel, *place)] = labels[place] == labels[other] != 0
    return out


def write(path: Path, affinities: np.ndarray, offsets: object = None, **attributes: object) -> str:
    with h5py.File(path, "w") as file:
        file["affinities"] = affinities
        if offsets is not None:
            file["affinities"].attrs["offsets"] = json.dumps(offsets)
        for name, value in attributes.items():
            file["affinities"].attrs[name] = value
    return f"{path}:affinities"


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = np.unique(np.stack([a.ravel(), b.ravel()], axis=1), axis=0)
    return len(pairs) == len(np.unique(a)) == len(np.unique(b))


@pytest.mark.parametrize("offsets", [NEAREST, FAR])
def test_true_affinities_give_the_objects_back(offsets: tuple[tuple[int, int, int], ...]) -> None:
    labels = blobs((12, 14, 16), 0)
    whole = measure.label(labels, connectivity=1)
    affinities = affinities_of(labels, offsets)
    found = segments_of(affinities, offsets, AffinityOptions(min_size=5))
    np.testing.assert_array_equal(affinities, affinities_of(labels, offsets))
    affinities.flags.writeable = False  # as of a file in memory
    np.testing.assert_array_equal(
        found, segments_of(affinities, offsets, AffinityOptions(min_size=5))
    )
    sizes = np.bincount(whole.ravel())
    kept = sizes[whole] >= 5
    assert kept.mean() > 0.9
    assert same_partition(found[kept], whole[kept])
    assert (found[~kept] == 0).all()
    firsts = [np.flatnonzero(found == name)[0] for name in range(1, int(found.max()) + 1)]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("method", ["median", "quantile75"])
def test_quantiles_from_surely_joined_pieces_are_those_of_the_watershed(method: str) -> None:
    labels = blobs((24, 40, 40), 3)
    noise = ndimage.gaussian_filter(np.random.default_rng(4).normal(size=(3, *labels.shape)), 1)
    known = affinities_of(labels, NEAREST)
    values = np.clip(0.4 + 0.6 * known + noise, 0, 1).astype(np.float32)
    waterz = pytest.importorskip("waterz")
    scoring = linking._SCORING[method]
    with linking._silent():
        slow = next(waterz.agglomerate(values.copy(), [0.3], scoring_function=scoring)).copy()
    _, fast = next(linking.linked(values, NEAREST, method, [0.7]))
    assert len(np.unique(slow)) > 20
    assert metrics.adapted_rand_error(slow, fast)[0] < 0.01


def test_an_unknown_place_stays_unknown(tmp_path: Path) -> None:
    name = write(tmp_path / "a.h5", affinities_of(blobs((12, 14, 16), 1), NEAREST), NEAREST)
    folder, copy = f"{tmp_path}/pieces", f"{tmp_path}/whole.zarr"
    agglomerate(AffinityFile(name), folder, AffinityOptions(min_size=1), subvolume=(8, 8, 8))
    assert cli.run(["reconcile", folder, copy]) == 0
    assert Volume(copy).geometry.offset is None


def test_subvolumes_reconcile_to_the_whole(tmp_path: Path) -> None:
    labels = blobs((40, 44, 48), 1, size=3.0)
    name = write(tmp_path / "a.h5", affinities_of(labels, NEAREST), NEAREST, box_start=[7, 8, 9])
    source = AffinityFile(name)
    assert source.box == ((7, 8, 9), (40, 44, 48))
    options = AffinityOptions(min_size=1)
    folder, sizes = f"{tmp_path}/pieces", {"subvolume": (24, 24, 24)}
    assert agglomerate(source, folder, options, **sizes)["subvolumes"] == 18
    pieces = Pieces.open(folder)
    found = read_reconciled(pieces, reconcile(pieces), source.box)
    whole = segments_of(source.read(source.box), NEAREST, options)
    assert same_partition(found, whole)
    pieces.path(3).unlink()
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "pieces").glob("*.h5")}
    agglomerate(source, folder, options, **sizes)
    assert not pieces.missing()
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    with pytest.raises(errors.InvalidArgumentError, match=r"threshold = 0\.5, now it is 0\.4"):
        agglomerate(source, folder, AffinityOptions(min_size=1, threshold=0.4), **sizes)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], dtype: type) -> None:
    labels = blobs((12, 14, 16), 2)
    affinities = affinities_of(labels, FAR)
    if dtype is np.uint8:
        affinities = (affinities * 255).astype(np.uint8)
    name = write(
        tmp_path / "a.h5", affinities, FAR, box_start=[100, 0, 0], resolution=[40.0, 8.0, 8.0]
    )
    out = f"{tmp_path}/out.h5:segments"
    arguments = ["agglomerate", name, out, "--method", "mean", "--min-size", "5", "--json"]
    assert cli.run([*arguments, "--box", "102:110,0:14,0:16"]) == 0
    report = json.loads(capfd.readouterr().out)
    stored = Volume(out)
    assert stored.shape == (8, 14, 16)
    assert stored.geometry.offset == (102, 0, 0)
    assert stored.geometry.voxel_size_nm == (40, 8, 8)
    assert report["segments"] == int(stored.read().max())
    assert report["coverage"] == pytest.approx(np.mean(stored.read() > 0))
    pieces = f"{tmp_path}/pieces"
    assert cli.run(["agglomerate", name, pieces, "--subvolume", "8,8,8"]) == 0
    assert cli.run(["reconcile", pieces, f"{tmp_path}/whole.zarr"]) == 0
    assert Volume(f"{tmp_path}/whole.zarr").shape == (12, 14, 16)
    assert Volume(f"{tmp_path}/whole.zarr").geometry.voxel_size_nm == (40, 8, 8)


@pytest.mark.parametrize(
    ("make", "arguments", "says"),
    [
        (lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32)), [], "has no attribute `offsets`"),
        (
            lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32), NEAREST[:2]),
            [],
            "3 channels and offsets",
        ),
        (lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32), "no list"), [], "cannot be read"),
        (
            lambda p: write(p, np.zeros((4, 4, 4), np.float32), NEAREST),
            [],
            "has 3 axes, expected 4",
        ),
        (lambda p: write(p, np.zeros((3, 4, 4, 4), np.int16), NEAREST), [], "holds int16"),
        (
            lambda p: write(p, np.full((3, 4, 4, 4), np.nan, np.float32), NEAREST),
            [],
            "affinities reach from nan to nan",
        ),
        (
            lambda p: write(p, np.zeros((1, 4, 4, 4), np.float32), [[0, 0, -2]]),
            ["--method", "mean"],
            "the method mean needs the offsets",
        ),
        (
            lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32), NEAREST),
            ["--box", "0:5,0:4,0:4"],
            "is not inside the affinities",
        ),
        (
            lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32)),
            ["--offsets", "[[1,2]]"],
            r"expected [[z, y, x], ...]",
        ),
        (
            lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32)),
            ["--offsets", "[[-1.9,0,0],[0,-1,0],[0,0,-1]]"],
            r"expected [[z, y, x], ...]",
        ),
        (
            lambda p: write(p, np.zeros((3, 4, 4, 4), np.float32), NEAREST),
            ["--threshold", "2"],
            "expected 0 to 1",
        ),
        (lambda p: str(p), [], "expected file:dataset"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    make: object,
    arguments: list[str],
    says: str,
) -> None:
    name = make(tmp_path / "a.h5")  # type: ignore[operator]
    assert cli.run(["agglomerate", name, f"{tmp_path}/out.h5:segments", *arguments]) == 2
    printed = capfd.readouterr()
    lines = printed.err.splitlines()
    assert len(lines) == 1, lines
    assert says in lines[0]
    assert not (tmp_path / "out.h5").exists()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "waterz", None)
    with pytest.raises(errors.UnsupportedError, match=r"pip install '\.\[affinities\]'"):
        segments_of(np.zeros((3, 2, 2, 2), np.float32), NEAREST)


def test_affinities_without_voxels_are_refused() -> None:
    with pytest.raises(errors.ShapeError, match=r"\(3, 2, 0, 2\) .* of at least one voxel"):
        segments_of(np.zeros((3, 2, 0, 2), np.float32), NEAREST)


@pytest.mark.parametrize(("scale", "shift"), [(255, 0), (8, -4), (1.04, -0.11)])
def test_affinities_of_another_range_are_refused(
    tmp_path: Path, scale: float, shift: float, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.ones((3, 6, 6, 6), np.float32)
    values[0, 3] = 0.1
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["affinities"] = values * scale + shift
        file["bytes"] = np.uint8(values * 255)
    offsets = ["--offsets", "[[-1,0,0],[0,-1,0],[0,0,-1]]", "--min-size", "1"]
    assert (
        cli.run(["agglomerate", f"{tmp_path}/a.h5:affinities", f"{tmp_path}/b.zarr", *offsets]) == 2
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "expected 0 to 1: apply the sigmoid to logits, divide numbers of 8 bits by 255" in said
    assert cli.run(["agglomerate", f"{tmp_path}/a.h5:bytes", f"{tmp_path}/c.zarr", *offsets]) == 0


def test_affinities_to_the_next_voxel_are_those_of_the_voxel_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.ones((3, 6, 6, 6), np.float32)
    values[0, 3] = 0.1  # of z = 3 and the section before it
    wanted = segments_of(values, NEAREST)
    later = values.copy()
    later[0] = np.roll(values[0], -1, 0)  # of each section and the next one
    np.testing.assert_array_equal(segments_of(later, [(1, 0, 0), *NEAREST[1:]]), wanted)
    assert len(np.unique(wanted)) == 2
    capsys.readouterr()
    far = write(tmp_path / "a.h5", values, [(-3, 0, 0), *NEAREST[1:]])
    assert cli.run(["agglomerate", far, f"{tmp_path}/b.h5:s"]) == 0
    assert (
        "no channel has those along z: each section is segmented apart" in capsys.readouterr().err
    )


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint16"])
def test_types_of_affinities_are_named(
    dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write(tmp_path / "a.h5", np.ones((3, 4, 4, 4), dtype), NEAREST)
    assert cli.run(["agglomerate", name, f"{tmp_path}/b.h5:s"]) == 2
    assert capsys.readouterr().err.endswith("expected float32 or uint8\n")


def test_affinities_of_gunpowder_state_where_they_lie(tmp_path: Path) -> None:
    values = np.ones((3, 4, 5, 6), np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
        file["x"].attrs.update({"resolution": (40.0, 4.0, 4.0), "offset": (80.0, -8.0, 0.0)})
    found = AffinityFile(f"{tmp_path}/a.h5:x", NEAREST)
    assert found.box == ((2, -2, 0), (4, 5, 6))
    assert found.voxel_size_nm == (40, 4, 4)
    agglomerate(found, f"{tmp_path}/b.zarr", AffinityOptions(min_size=1))
    assert Volume(f"{tmp_path}/b.zarr").geometry == Geometry(
        voxel_size_nm=(40, 4, 4), offset=(2, -2, 0)
    )


@pytest.mark.parametrize("names", ["zyxc", "cxyz"])
def test_affinities_with_other_axes_are_refused(
    names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = json.dumps({"axes": [{"key": name} for name in names]})
    name = write(tmp_path / "a.h5", np.full((3, 3, 3, 3), 0.9, np.float32), NEAREST, axistags=tags)
    assert cli.run(["agglomerate", name, f"{tmp_path}/o.h5:x"]) == 2
    assert "names its axes in another order, expected offsets, z, y, x" in capsys.readouterr().err


def test_the_file_of_the_affinities_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write(tmp_path / "a.h5", affinities_of(blobs((8, 8, 8), 1), NEAREST), NEAREST)
    monkeypatch.setattr(linking, "linked", None)
    assert cli.run(["agglomerate", name, f"{tmp_path}/a.h5:segments"]) == 2
    assert "is also the input" in capsys.readouterr().err
