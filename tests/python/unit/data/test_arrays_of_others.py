# SPDX-License-Identifier: Apache-2.0
"""Chunked arrays as other programs write them: used as stated, refused in one line, or noted.

The matrix (the rows of the tables below), format: conventions x values.

* OME-Zarr 0.3, 0.4, 0.5: axes, units, scale of level and image, translation, levels, several images x order of the
  axes; nm, um, µm, angstrom, pixel, no unit; 0, NaN, 1e300, texts, other lengths.
* Zarr 2, 3: dimension_names, _ARRAY_DIMENSIONS, funlib, Cellmap, separators, codecs, sharding, order, fill value x
  types that are read or not; fill values that are not 0; groups, zip files, consolidated metadata.
* N5: resolution, pixelResolution, axes, Paintera, BigDataViewer, n5-viewer x levels with factors; the size of the
  level, of s0, of either; label multisets.
* precomputed: scales, voxel_offset, sharding, encodings, channels x negative offset; uint64 above 2^63; a coarse scale
  first.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

from other_programs import (
    ARRAY,
    LARGE,
    NM,
    UM,
    Case,
    n5,
    ome,
    ordered,
    parametrized,
    precomputed,
    tags,
    zarr_array,
)


def first_images(attributes: dict[str, Any]) -> None:
    attributes["multiscales"] *= 2


def plain_axes(attributes: dict[str, Any]) -> None:
    attributes["multiscales"][0]["axes"] = ["z", "y", "x"]


def dotted(attributes: dict[str, Any]) -> None:
    attributes["multiscales"][0]["datasets"][0]["path"] = "./s0/"


def systems(attributes: dict[str, Any]) -> None:
    """Name the axes as OME-Zarr 0.6 does, whose image may also lie in the space of an atlas."""
    image = attributes["multiscales"][0]
    atlas = [{"name": axis, "type": "space"} for axis in "zxy"]
    image["coordinateSystems"] = [
        {"name": "atlas", "axes": atlas},
        {"name": "physical", "axes": image.pop("axes")},
    ]
    image["datasets"][0]["coordinateTransformations"][-1]["output"] = "physical"
    image["coordinateTransformations"] = [
        {"type": "affine", "input": "physical", "output": "atlas"}
    ]


def coarse_first(folder: Path) -> str:
    """Write an image whose list of levels begins with the coarsest, which OME-Zarr forbids."""
    name = ome()(folder)
    path = Path(name, ".zattrs")
    document = json.loads(path.read_text())
    levels = document["multiscales"][0]["datasets"]
    coarse = {"type": "scale", "scale": [80.0, 8.0, 16.0]}
    levels.insert(0, {"path": "s1", "coordinateTransformations": [coarse]})
    path.write_text(json.dumps(document))
    return name


def scaled(*values: Any) -> dict[str, Any]:
    return {"type": "scale", "scale": list(values)}


def moved(*values: Any) -> dict[str, Any]:
    return {"type": "translation", "translation": list(values)}


OME = [
    Case("0.4", ome(), NM),
    Case("0.5-tczyx", ome("tczyx", version="0.5"), NM),
    Case("0.5-xyz", ome("xyz", version="0.5"), NM),
    Case("xyzct", ome("xyzct"), NM),
    Case("level-by-name", ome("xyz", opened="/s0"), NM),
    Case("level-with-dots", ome(edit=dotted, opened="/s0"), NM),
    Case("micrometer", ome(unit="micrometer", scale=UM), NM),
    Case("um", ome(unit="um", scale=UM), NM),
    Case("micro-sign", ome(unit="\u00b5m", scale=UM), NM),
    Case("greek-mu", ome(unit="\u03bcm", scale=UM), NM),
    Case("angstrom", ome(unit="angstrom", scale=(400, 40, 80)), NM),
    Case("no-unit", ome(unit=None), note="without a unit"),
    Case("pixel", ome(unit="pixel"), note="in 'pixel', as stated by"),
    Case("pixel-of-1", ome(unit="pixel", scale=(1, 1, 1))),
    Case("strange-unit", ome(unit="furlong"), note="in 'furlong', as stated by"),
    Case("axes-of-0.3", ome(edit=plain_axes), note="without a unit"),
    Case("both-scale", ome(image=[scaled(2, 2, 2)]), (80, 8, 16)),
    Case("translation", ome(changes=[moved(-80.0, 8.0, 0)]), NM, (-2, 2, 0)),
    Case("between-voxels", ome(changes=[moved(0, 2.0, 0)]), NM, (0, 1, 0), note="at 0, 0.5, 0"),
    Case("at-0", ome(changes=[moved(0, 0, 0)]), NM, (0, 0, 0)),
    Case("image-moves", ome(image=[scaled(1, 1, 1), moved(40, 0, -16)]), NM, (1, 0, -2)),
    Case("identity", ome(image=[{"type": "identity"}]), NM),
    Case("coarse-first", coarse_first, NM),
    Case("several-images", ome(edit=first_images), NM, note="describes 2 images"),
    Case("two-channels", ome("czyx", array=np.stack([ARRAY, ARRAY])), refused="one channel"),
    Case("two-times", ome("tzyx", array=np.stack([ARRAY, ARRAY])), refused="expected one time"),
    Case("zero", ome(scale=(0, 4, 8)), refused="expected numbers above 0"),
    Case("negative", ome(scale=(40, -4, 8)), refused="expected numbers above 0"),
    Case("nan", ome(scale=(float("nan"), 4, 8)), refused="with 3 numbers"),
    Case("infinite", ome(scale=(float("inf"), 4, 8)), refused="with 3 numbers"),
    Case("huge", ome(scale=(1e300, 4, 8)), note="not used"),
    Case("texts", ome(scale=("40", "4", "8")), refused="with 3 numbers"),
    Case("0.6", ome("xyz", version="0.5", edit=systems), NM),
    Case("0.6-five-axes", ome("xyzct", version="0.5", edit=systems), NM),
    Case("0.6-sequence", ome(changes=[{"type": "sequence", "transformations": [moved(40, 0, 0)]}], edit=systems),
         NM, (1, 0, 0)),
    Case("0.6-affine", ome(changes=[{"type": "affine", "affine": []}], edit=systems), refused="expected scale or"),
    Case("other-length", ome(image=[scaled(2, 2)]), refused="with 3 numbers"),
]  # fmt: skip


@parametrized(OME)
def test_ome_zarr(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


# Zarr


def edited(make: Any, file: str, **changes: Any) -> Any:
    """Return a function that writes an array and changes its metadata."""

    def made(folder: Path) -> str:
        name: str = make(folder)
        path = Path(name, file)
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return name

    return made


def in_group(folder: Path) -> str:
    name = Path(zarr_array(version=2)(folder))
    name.rename(folder / "array")
    name.mkdir()
    (name / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / "array").rename(name / "raw")
    return str(name)


def consolidated(folder: Path) -> str:
    name = zarr_array(version=2)(folder)
    (Path(name) / ".zarray").rename(Path(name) / ".zmetadata")
    return name


def zipped(folder: Path) -> str:
    name = Path(zarr_array()(folder))
    with zipfile.ZipFile(f"{name}.zip", "w") as file:
        for path in name.rglob("*"):
            file.write(path, path.relative_to(name))
    return f"{name}.zip"


def hole(fill: Any, dtype: str, version: int) -> Any:
    """Return a function that writes an array whose upper half was not written, and what it holds."""
    array = ARRAY.astype(dtype)
    array[2:] = fill

    def make(folder: Path) -> str:
        written = ARRAY.astype(dtype)
        name = zarr_array(written, version, fill_value=fill)(folder)
        for path in [p for p in Path(name).rglob("*") if p.is_file()]:
            if path.relative_to(name).as_posix().removeprefix("c/").startswith("1"):
                path.unlink()
        return name

    return {"make": make, "voxels": array, "note": "do not exist"}


def below_a_group(folder: Path) -> str:
    name = in_group(folder)
    Path(name, ".zattrs").write_text(json.dumps({"resolution": NM}))
    return f"{name}/raw"


def beside_the_levels(folder: Path) -> str:
    name = in_group(folder)
    scale = [{"type": "scale", "scale": NM}]
    level = {"path": "0", "coordinateTransformations": scale}
    axes = [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "zyx"]
    image = {"version": "0.4", "axes": axes, "datasets": [level]}
    Path(name, ".zattrs").write_text(json.dumps({"multiscales": [image]}))
    return f"{name}/raw"


def with_coordinates(folder: Path) -> str:
    """Write what xarray does: an array, and the position of each section."""
    name = f"{in_group(folder)}/raw"
    Path(name, ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["z", "y", "x"]}))
    (folder / "other").mkdir()
    Path(zarr_array(np.arange(4) * 40.0, 2)(folder / "other")).rename(folder / "v.zarr/z")
    return name


def webknossos(folder: Path) -> str:
    zarr_array(ordered("cxyz"), dimension_names="cxyz")(folder)
    (folder / "v").mkdir()
    (folder / "v.zarr").rename(folder / "v/1")
    scale = {"factor": [8, 4, 40], "unit": "nanometer"}
    (folder / "datasource-properties.json").write_text(json.dumps({"scale": scale}))
    return f"{folder}/v/1"


def typed(dtype: Any, version: int = 2) -> Any:
    return zarr_array(np.zeros((4, 5, 6), dtype), version)


FUNLIB = {"axis_names": ["z", "y", "x"], "units": ["nm"] * 3, "offset": [-40, 0, 80]}
CELLMAP = {
    "transform": {"axes": ["x", "y", "z"], "order": "F", "scale": [8, 4, 40], "units": ["nm"] * 3}
}
ZARR = [
    Case("plain-2", zarr_array(version=2)),
    Case("plain-3", zarr_array()),
    Case("xyz-3", zarr_array(ordered("xyz"), dimension_names="xyz")),
    Case("names-and-size", zarr_array(ordered("xyz"), attributes={"voxel_size": [8, 4, 40]},
         dimension_names="xyz"), NM),
    Case("xarray", zarr_array(ordered("yxz"), 2, {"_ARRAY_DIMENSIONS": ["y", "x", "z"]})),
    Case("funlib", zarr_array(attributes={**FUNLIB, "voxel_size": NM}), NM, (-1, 0, 10)),
    Case("funlib-2", zarr_array(version=2, attributes={"resolution": NM, "offset": [0, 0, 8]}), NM, (0, 0, 1)),
    Case("funlib-channel", zarr_array(ARRAY[None],
         attributes={"axis_names": ["c^", "z", "y", "x"], "voxel_size": NM}), NM),
    Case("mixed-units", zarr_array(attributes={"units": ["um", "nm", "nm"], "voxel_size": [0.04, 4, 8]}), NM),
    Case("cellmap", zarr_array(attributes=CELLMAP), NM),
    Case("contradiction", zarr_array(attributes={"resolution": NM, "voxel_size": [30, 4, 8]}),
         refused="expected one voxel size"),
    Case("other-names", zarr_array(attributes={"axis_names": ["z", "y"]}), refused="expected 3 axes"),
    Case("pixel-resolution", zarr_array(attributes={"pixelResolution": [8, 4, 40]}), note="pixelResolution"),
    Case("translate", zarr_array(attributes={"translate": [8, 4, 40]}), note="translate"),
    Case("slash-2", zarr_array(version=2, chunk_key_encoding={"name": "v2", "separator": "/"})),
    Case("dot-3", zarr_array(chunk_key_encoding={"name": "default", "separator": "."})),
    Case("keys-of-2", zarr_array(chunk_key_encoding={"name": "v2", "separator": "."})),
    Case("sharded", zarr_array(chunks=(2, 1, 2), shards=(2, 2, 2))),
    Case("fortran", zarr_array(version=2, order="F")),
    Case("big-endian", zarr_array(ARRAY.astype(">u4"), 2), voxels=ARRAY.astype("u4")),
    Case("big-endian-3", zarr_array(ARRAY.astype(">i2")), voxels=ARRAY.astype("i2")),
    Case("no-compressor", zarr_array(compressors=None)),
    Case("uint64", zarr_array(LARGE), voxels=LARGE),
    Case("uint64-2", zarr_array(LARGE, 2), voxels=LARGE),
    Case("bool-2", zarr_array(ARRAY > 60, 2), voxels=(ARRAY > 60).astype("u1")),
    Case("bool", zarr_array(ARRAY > 60), voxels=(ARRAY > 60).astype("u1")),
    Case("fill-7", size=None, **hole(7, "u1", 3)),
    Case("fill-7-of-2", size=None, **hole(7, "u1", 2)),
    Case("fill-nan", size=None, **hole(float("nan"), "f4", 2)),
    Case("float16", typed("f2"), refused="elements are float16"),
    Case("float16-3", typed("f2", 3), refused="elements are float16"),
    Case("complex", typed("c8"), refused="expected (u)int8"),
    Case("record", typed([("a", "u1"), ("b", "u2")]), refused="v.zarr"),
    Case("date", typed("M8[s]"), refused="v.zarr"),
    Case("two-axes", zarr_array(ARRAY[0]), refused="has 2 axes, shape (5, 6); expected three (z, y, x)"),
    Case("no-voxels", zarr_array(np.zeros((0, 5, 6), "u1"), chunks=(1, 1, 1)), refused="has no voxels"),
    Case("lzma-2", edited(zarr_array(version=2), ".zarray", compressor={"id": "lzma"}),
         refused='"lzma" is not registered'),
    Case("filters", edited(zarr_array(version=2), ".zarray", filters=[{"id": "delta", "dtype": "|u1"}]),
         refused="filters"),
    Case("unknown-codec", edited(zarr_array(), "zarr.json", codecs=[{"name": "bytes"}, {"name": "pcodec"}]),
         refused='"pcodec" is not registered'),
    Case("axistags", zarr_array(ordered("xyz"), attributes=tags("xyz"))),
    Case("axistags-with-size", zarr_array(attributes=tags("zyx", resolution=8)), note="axistags state a resolution"),
    Case("size-of-a-group", below_a_group, note="has an attribute resolution: not used"),
    Case("no-level-of-the-group", beside_the_levels, note="has an attribute multiscales: not used"),
    Case("coordinates", with_coordinates, note="v.zarr/z may state a voxel size"),
    Case("webknossos", webknossos, note="datasource-properties.json may state a voxel size"),
    Case("group", in_group, refused="expected"),
    Case("consolidated-only", consolidated, refused="no zarr.json or .zarray"),
    Case("zip", zipped, refused="expected file:dataset"),
]  # fmt: skip


@parametrized(ZARR)
def test_zarr(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


# N5. Numbers in attributes are x, y, z.


XYZ = [8, 4, 40]
TWICE = [2, 2, 1]
UM_PIXELS = {"pixelResolution": {"unit": "um", "dimensions": [0.008, 0.004, 0.04]}}
PAINTERA = {
    "labels": {"painteraData": {"type": "label"}},
    "labels/data": {"multiScale": True, "resolution": XYZ, "offset": [80, -40, 0]},
}
BDV = {
    "setup0": {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]]},
    "setup0/timepoint0": {"multiScale": True, "resolution": XYZ},
}
S0 = {
    "dimensions": [6, 5, 4],
    "blockSize": [3, 3, 3],
    "dataType": "uint8",
    "compression": {"type": "raw"},
}
N5 = [
    Case("plain", n5()),
    Case("uint64", n5(array=LARGE), voxels=LARGE),
    Case("resolution", n5({"resolution": XYZ, "offset": [80, 0, -40]}), NM, (-1, 0, 10)),
    Case("units", n5({"resolution": [0.008, 0.004, 0.04], "units": ["um"] * 3}), NM),
    Case("pixel-resolution", n5(UM_PIXELS), NM),
    Case("pixel-resolution-without-unit", n5({"pixelResolution": XYZ}), note="attribute pixelResolution is"),
    Case("both", n5({**UM_PIXELS, "resolution": XYZ}), NM),
    Case("both-contradict", n5({**UM_PIXELS, "resolution": [8, 4, 30]}), refused="expected one voxel size"),
    Case("axes", n5({"axes": ["z", "y", "x"]}, array=ARRAY.T), voxels=ARRAY),
    Case("axes-of-the-group", n5(groups={"g": {"axes": ["z", "y", "x"]}}, path="g/s0", array=ARRAY.T), voxels=ARRAY),
    Case("two-pixels", n5({"pixelResolution": {"unit": "um", "dimensions": [1, 1]}}), note="pixelResolution"),
    Case("cellmap", n5({"transform": {"axes": ["z", "y", "x"], "scale": NM, "translate": [40, 0, 0],
         "units": ["nm"] * 3}}), NM, (1, 0, 0)),
    Case("texts", n5({"resolution": ["8", "4", "40"]}), refused='"resolution"'),
    Case("two-numbers", n5({"resolution": [8, 4]}), refused='"resolution"'),
    Case("nan", n5({"resolution": [8, float("nan"), 4]}), refused="v.n5"),
    Case("zero", n5({"resolution": [0, 4, 40]}), note="not used"),
    Case("affine", n5({"affineTransform": [[1, 0, 0, 0]]}), note="affineTransform is not used"),
    Case("multiset", n5({"isLabelMultiset": True}), refused="label multisets"),
    Case("paintera", n5(groups=PAINTERA, path="labels/data/s0"), NM, (0, -10, 10)),
    Case("paintera-s1", n5({"downsamplingFactors": TWICE}, PAINTERA, "labels/data/s1"), (40, 8, 16), (0, -5, 5)),
    Case("paintera-s1-unknown", n5(groups=PAINTERA, path="labels/data/s1"), note="nothing says how many"),
    Case("viewer-root", n5(groups={"": {"n5": "2.0.0", "scales": [[1, 1, 1], TWICE], **UM_PIXELS}}, path="c0/s0"),
         NM),
    Case("viewer-root-s1", n5(groups={"": {"n5": "2.0.0", "scales": [[1, 1, 1], TWICE], **UM_PIXELS}},
         path="c0/s1"), (40, 8, 16)),
    Case("size-of-the-level", n5({"resolution": [16, 8, 40], "downsamplingFactors": TWICE},
         {"g": {"resolution": XYZ}}, "g/s1"), (40, 8, 16)),
    Case("size-of-s0", n5({"resolution": XYZ, "downsamplingFactors": TWICE},
         {"g/s0": {**S0, "resolution": XYZ}}, "g/s1"), (40, 8, 16)),
    Case("size-of-either", n5({"resolution": XYZ, "downsamplingFactors": TWICE}, path="g/s1"),
         note="nothing says how many"),
    Case("size-of-neither", n5({"resolution": [9, 9, 9], "downsamplingFactors": TWICE},
         {"g": {"resolution": XYZ}}, "g/s1"), refused="expected 40 x 8 x 16 nm"),
    Case("group-contradicts", n5({"resolution": [9, 9, 9]}, {"g": {"resolution": XYZ}}, "g/s0"),
         refused="expected 40 x 4 x 8 nm"),
    Case("array-dimensions", n5({"_ARRAY_DIMENSIONS": ["z", "y", "x"], "axes": ["x", "y", "z"]})),
    Case("translate-of-the-group", n5(groups={"g": {"translate": XYZ, **UM_PIXELS}}, path="g/s0"), NM,
         note="attribute translate is"),
    Case("multiscales", n5(groups={"g": {"multiscales": []}}, path="g/s0"), note="multiscales of a group above"),
    Case("no-level", n5(groups={"g": {"resolution": XYZ}}, path="g/raw"), note="a group above states a voxel size"),
    Case("bigdataviewer", n5(groups=BDV, path="setup0/timepoint0/s1"), note=".xml file of BigDataViewer"),
    Case("wrong-factors", n5({"downsamplingFactors": [0, 1, 1]}, PAINTERA, "labels/data/s1"),
         refused="three numbers above 0"),
    Case("a-group", n5(groups=PAINTERA, path="labels/data/s0", opened="labels/data"), refused="labels/data/s0"),
]  # fmt: skip


@parametrized(N5)
def test_n5(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)


# Neuroglancer precomputed. Numbers are x, y, z.


def untyped(info: dict[str, Any]) -> None:
    info.pop("@type")


def unknown_encoding(info: dict[str, Any]) -> None:
    info["scales"][0]["encoding"] = "vtx"


def encoded(encoding: str) -> Any:
    return lambda info: info["scales"][0].update(encoding=encoding)


def chunked(info: dict[str, Any]) -> None:
    info["scales"][0]["chunk_sizes"] = [[4, 4, 4]]


def sized(*size: Any) -> Any:
    """Return a function that changes the voxel size in an info."""
    return lambda info: info["scales"][0].update(resolution=list(size))


def channels_as_text(info: dict[str, Any]) -> None:
    info["num_channels"] = "1"


SHARDS = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 1, "minishard_bits": 1, "shard_bits": 1,
    "hash": "identity", "minishard_index_encoding": "gzip", "data_encoding": "gzip",
}  # fmt: skip
SEGMENTED = {"encoding": "compressed_segmentation", "compressed_segmentation_block_size": [8, 8, 8]}
GREY = np.full((4, 5, 6), 120, np.uint8)
PRECOMPUTED = [
    Case("image", precomputed(), NM),
    Case("negative-offset", precomputed(voxel_offset=[100, -10, 0]), NM, (0, -10, 100)),
    Case("uint64", precomputed(LARGE), NM, voxels=LARGE),
    Case("segmentation", precomputed(LARGE, **SEGMENTED), NM, voxels=LARGE),
    Case(
        "sharded", precomputed(ARRAY.astype("u4"), sharding=SHARDS), NM, voxels=ARRAY.astype("u4")
    ),
    Case("jpeg", precomputed(GREY, encoding="jpeg"), NM, voxels=GREY),
    Case("coarse-first", precomputed(coarse=True), NM),
    Case("untyped", precomputed(edit=untyped), NM),
    Case(
        "three-channels",
        precomputed(channels=3),
        refused="of (6, 5, 4, 3), expected one time and one channel; ft.data.convert(",
    ),
    Case("crackle", precomputed(edit=encoded("crackle")), refused='but received: "crackle'),
    Case(
        "other-chunk-size",
        precomputed(edit=chunked),
        refused="has another name than its metadata state",
    ),
    Case("unknown-encoding", precomputed(edit=unknown_encoding), refused="precomputed://"),
    Case("zero", precomputed(edit=sized(0, 0, 0)), note="not used"),
    Case("negative", precomputed(edit=sized(8, 4, -40)), note="not used"),
    Case("huge", precomputed(edit=sized(8, 4, 1e300)), note="not used"),
    Case("texts", precomputed(edit=sized("8", "4", "40")), note="voxels of '40' x '4' x '8' nm"),
    Case("channels-as-text", precomputed(edit=channels_as_text), refused='"num_channels"'),
]


@parametrized(PRECOMPUTED)
def test_precomputed(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.check(tmp_path, capsys)
