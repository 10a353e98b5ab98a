# SPDX-License-Identifier: Apache-2.0
"""Positions and voxel sizes that other libraries state are used, and copies state them as their originals do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore

from floodtide import data, errors
from floodtide.base import notes
from floodtide.data.formats.geometry import Geometry

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import zarr
from other_programs import ARRAY, NM, Case, hdf5, n5, ordered, parametrized, precomputed, zarr_array

COPIES = ("c.zarr", "c.n5", "c.h5:x", "c.tif", "precomputed://c")
ZERO = [0.0, 0.0, 0.0]


def stated_in(name: str) -> Any:
    """Return the position that a copy states, as another library reads it."""
    if ":" in name and not name.startswith("precomputed"):
        path, dataset = name.split(":")
        with h5py.File(path) as file:
            found = file[dataset].attrs.get("box_start")
            return None if found is None else [*map(float, found)]
    if name.endswith(".zarr"):
        return zarr.open_array(name).attrs.get("offset")
    if name.endswith(".n5"):
        return json.loads(Path(name, "attributes.json").read_text()).get("offset")
    return ...


@pytest.mark.parametrize("kind", ["u1", "u4", "u8"])
@pytest.mark.parametrize("place", [None, ZERO])
@pytest.mark.parametrize("size", [None, NM])
def test_copies_state_a_position_only_if_their_original_does(
    tmp_path: Path, place: Any, size: Any, kind: str
) -> None:
    stated = {"resolution": size, "offset": place, "units": ["voxel"] * 3 if size is None else None}
    original = f"{tmp_path}/v.h5:raw"
    with h5py.File(tmp_path / "v.h5", "w") as file:
        attributes = file.create_dataset("raw", data=ARRAY.astype(kind)).attrs
        attributes.update({key: value for key, value in stated.items() if value is not None})
    expected = None if place is None else (0, 0, 0)
    for copy in COPIES:
        prefix = "precomputed://" if copy.startswith("precomputed") else ""
        name = f"{prefix}{tmp_path}/{copy.removeprefix(prefix)}"
        found = data.convert(original, name).geometry
        assert (found.voxel_size_nm, found.offset) == (size, expected), copy
        assert stated_in(name) in (place, ...), copy
        original = name  # the next is a copy of the copy
    assert data.convert(original, f"{tmp_path}/last.zarr").geometry.offset == expected


def by_tensorstore(driver: str, names: str, units: Any, array: Any = ARRAY, **more: Any) -> Any:
    """Return a function that writes an array with labels and units of its axes through tensorstore."""

    def make(folder: Path) -> str:
        path = f"{folder}/v.{driver.removesuffix('3')}"
        stored = ordered(names, array)
        domain = {"labels": list(names), "shape": list(stored.shape)}
        spec = {
            "driver": driver,
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "schema": {"dtype": array.dtype.name, "domain": domain, "dimension_units": units},
        }
        tensorstore.open(spec, create=True).result().write(stored).result()
        file = Path(path, "attributes.json" if driver == "n5" else "zarr.json")
        document = json.loads(file.read_text())
        (document if driver == "n5" else document["attributes"]).update(more)
        file.write_text(json.dumps(document))
        return path

    return make


ZYX = ["40 nm", "4 nm", "8 nm"]
XYZ = {"axes": ["x", "y", "z"]}
GROUP = {"g": {"resolution": [40, 4, 8], "offset": [80, 4, 0], "axes": ["z", "y", "x"]}}
N5_AXES = [
    Case("n5-zyx", by_tensorstore("n5", "zyx", ZYX), NM),
    Case("n5-xyz", by_tensorstore("n5", "xyz", ZYX[::-1], offset=[8, 4, 0]), NM, (0, 1, 1)),
    Case("n5-yxz", by_tensorstore("n5", "yxz", [ZYX[1], ZYX[2], ZYX[0]], offset=[4, -8, 80]), NM, (2, 1, -1)),
    Case("n5-um", by_tensorstore("n5", "zyx", ["0.04 um", "4 nm", "8 nm"]), NM),
    Case("n5-czyx", by_tensorstore("n5", "czyx", [None, *ZYX], offset=[0, 80, 4, 8]), NM, (2, 1, 1)),
    Case("n5-no-unit", by_tensorstore("n5", "zyx", [None, *ZYX[1:]]), note="are no length"),
    Case("n5-pixels", n5({"axes": ["z", "y", "x"], "pixelResolution": {"dimensions": NM, "unit": "nm"}},
         array=ARRAY.T), NM, voxels=ARRAY),
    Case("n5-plantseg", n5({"element_size_um": [0.04, 0.004, 0.008]}), NM),
    Case("n5-group", n5(groups=GROUP, path="g/s0", array=ARRAY.T), NM, (2, 1, 0), voxels=ARRAY),
    Case("n5-group-s1", n5({"downsamplingFactors": [1, 2, 4]}, GROUP, "g/s1", array=ARRAY.T), (40, 8, 32), (2, 1, 0),
         voxels=ARRAY, note="puts the first voxel at 2, 0.5, 0"),
    Case("n5-other-group", n5(XYZ, GROUP, "g/s0"), refused="its group names the axes z, y, x, expected x, y, z as"),
]  # fmt: skip


@parametrized(N5_AXES)
def test_numbers_of_n5_are_in_the_order_of_its_axes(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


TRANSFORM = {
    "axes": ["z", "y", "x"], "units": ["nm"] * 3, "scale": [40, 4, 8], "translate": [80, -8, 8],
}  # fmt: skip
PLACE = (2, -2, 1)
PIXELS = {"unit": "um", "dimensions": [0.008, 0.004, 0.04]}


def moved(**more: Any) -> Any:
    return zarr_array(attributes={"transform": TRANSFORM, **more})


CELLMAP = [
    Case("alone", moved(), NM, PLACE),
    Case("same-size", moved(voxel_size=NM), NM, PLACE),
    Case("same-place", moved(resolution=NM, offset=[80, -8, 8]), NM, PLACE),
    Case("resolution", moved(resolution=[30, 4, 8]), refused="transform states voxels of 40 x 4 x 8 nm, attribute"),
    Case("element-size", moved(element_size_um=[0.03, 0.004, 0.008]), refused="expected one voxel size"),
    Case("offset", moved(offset=[0, 0, 0]), refused="expected one position"),
    Case("other-axes", moved(axis_names=["x", "y", "z"]), refused="names the axes z, y, x, expected x, y, z"),
    Case("matrix", zarr_array(attributes={"transform": [[1, 0], [0, 1]]}), note="expected axes, scale and trans"),
    Case("text", hdf5({"transform": json.dumps({**TRANSFORM, "axes": ["x", "y", "z"], "scale": [8, 4, 40],
         "translate": [8, -8, 80]})}, ordered("xyz")), NM, PLACE),
    Case("n5", n5({"transform": TRANSFORM, "pixelResolution": PIXELS}), NM, PLACE),
    Case("n5-resolution", n5({"transform": TRANSFORM, "resolution": [8, 4, 40]}), NM, PLACE),
    Case("n5-contradicts", n5({"transform": {**TRANSFORM, "scale": [30, 4, 8]}, "pixelResolution": PIXELS}),
         refused="expected one voxel size"),
]  # fmt: skip


@parametrized(CELLMAP)
def test_a_transform_agrees_with_other_attributes_or_is_refused(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


UNITS = [
    Case("zyx", by_tensorstore("zarr3", "zyx", ZYX), NM),
    Case("xyz", by_tensorstore("zarr3", "xyz", ZYX[::-1]), NM),
    Case("czyx", by_tensorstore("zarr3", "czyx", [None, *ZYX]), NM),
    Case("m", by_tensorstore("zarr3", "zyx", ["4e-8 m", [0.004, "um"], "8nm"]), NM),
    Case("one-nm", by_tensorstore("zarr3", "zyx", ["40 nm", "nm", "nm"]), (40, 1, 1)),
    Case("none", by_tensorstore("zarr3", "zyx", [None, "", "1"])),
    Case("some", by_tensorstore("zarr3", "zyx", [None, *ZYX[1:]]), note="are no length"),
    Case("pixels", by_tensorstore("zarr3", "zyx", ["2 px", "px", "px"]), note="are no length"),
    Case("same", by_tensorstore("zarr3", "zyx", ZYX, voxel_size=NM, offset=[80, -8, 8]), NM, PLACE),
    Case("other", by_tensorstore("zarr3", "zyx", ZYX, voxel_size=[30, 4, 8]), refused="expected one voxel size"),
    Case("two", hdf5({"dimension_units": ["4 nm"] * 2}), note="expected three numbers"),
    Case("hdf5", hdf5({"dimension_units": ZYX}), NM),
]  # fmt: skip


@parametrized(UNITS)
def test_units_of_dimensions_of_tensorstore(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


def dimension(at: int, label: str, array: Any = ARRAY) -> Any:
    """Return a function that writes an HDF5 dataset with a label at one of its axes."""

    def write(file: h5py.File) -> None:
        file.create_dataset("raw", data=array).dims[at].label = label

    return hdf5(write=write)


RECORD = np.array([(40, 4, 8)], [("z", "f4"), ("y", "f4"), ("x", "f4")])
UNUSUAL = [
    Case("bytes", hdf5({"resolution": np.array([b"40", b"4", b"8"])}),
         note="attribute resolution is ['40', '4', '8'], expected three numbers: not used"),
    Case("record", hdf5({"resolution": RECORD}),
         note="is unreadable (elements are compound records of 12 bytes), expected three numbers: not used"),
    Case("empty", hdf5({"resolution": h5py.Empty("f4")}),
         note="attribute resolution is empty, expected three numbers: not used"),
    Case("empty-units", hdf5({"resolution": NM, "units": h5py.Empty("f4")}), NM),
    Case("empty-box-start", hdf5({"box_start": h5py.Empty("i8")}),
         refused="box_start is empty, expected three integers"),
    Case("numbers-as-units", hdf5({"resolution": NM, "units": [1, 2, 3]}), note="(z, y, x) in '1, 2, 3', as stated"),
    Case("many", hdf5({"resolution": np.arange(5000.0)}), note="..., expected three numbers: not used"),
    Case("label-z", dimension(0, "z")),
    Case("label-x", dimension(2, "x")),
    Case("label-x-first", dimension(0, "x"), refused="names the axes x, ?, ?, expected z, y, x"),
    Case("label-of-no-axis", dimension(1, "row number"), note="names the axes ?, row number, ?, which are not known"),
    Case("one-name", zarr_array(dimension_names=[None, None, "x"])),
    Case("one-name-of-four", zarr_array(ARRAY[None], dimension_names=["c", None, None, None])),
]  # fmt: skip


@parametrized(UNUSUAL)
def test_attributes_of_unusual_types_are_named_in_a_whole_sentence(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


def store_of(driver: str, path: str) -> Any:
    kvstore = {"driver": "file", "path": f"{path.removeprefix('precomputed://')}/"}
    return tensorstore.open({"driver": driver, "kvstore": kvstore}).result()


def test_units_and_domain_of_a_tensorstore_object_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of("zarr3", by_tensorstore("zarr3", "zyx", ZYX)(tmp_path))
    found = {
        "whole": data.Volume(store).geometry,
        "part": data.Volume(store[1:, 2:, :]).geometry,
        "thin": data.Volume(store[:, ::2, 3:6:3]).geometry,
        "turned": data.Volume(store.T[tensorstore.d["z", "y", "x"].transpose[:]]).geometry,
        "memory": data.Volume(tensorstore.array(ARRAY)).geometry,
    }
    assert found == {
        "whole": Geometry(voxel_size_nm=NM),
        "part": Geometry(voxel_size_nm=NM, offset=(1, 2, 0)),
        "thin": Geometry(voxel_size_nm=(40, 8, 24), offset=(0, 0, 1)),
        "turned": Geometry(voxel_size_nm=NM),
        "memory": Geometry(),
    }
    placed = store_of("neuroglancer_precomputed", precomputed(voxel_offset=[6, -4, 2])(tmp_path))
    volume = data.Volume(placed[..., 0].T)
    assert volume.geometry == Geometry(voxel_size_nm=NM, offset=(2, -4, 6))
    np.testing.assert_array_equal(volume.read(), ARRAY)
    assert capsys.readouterr().err == ""
    with pytest.raises(errors.InvalidFileError, match="has 4 axes"):
        data.Volume(tensorstore.array(ARRAY[None])[:, 2:])


def test_attributes_behind_a_tensorstore_object_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of("zarr3", moved(voxel_size=NM)(tmp_path))
    wide = tensorstore.cast(store, tensorstore.float32)
    for one in (store[1:], wide, tensorstore.downsample(wide, [1, 2, 2], "mean")):
        notes._shown.clear()
        assert data.Volume(one).geometry == Geometry()
        assert "has the attributes transform, voxel_size: not used" in capsys.readouterr().err


def test_a_transform_of_a_zarr_object_is_used(tmp_path: Path) -> None:
    array = zarr.open_array(moved()(tmp_path))
    assert data.Volume(array).geometry == Geometry(voxel_size_nm=NM, offset=PLACE)
    array.attrs["transform"] = {**TRANSFORM, "axes": ["x", "y", "z"]}
    with pytest.raises(errors.InvalidArgumentError, match="names its axes x, y, z"):
        data.Volume(array)


def webknossos(names: str, order: Any, path: str | None = "./color/1", **more: Any) -> Any:
    """Return a function that writes a mag of WEBKNOSSOS, with its `axisOrder`."""

    def make(folder: Path) -> str:
        name = Path(zarr_array(ordered(names), **more)(folder))
        (folder / "set/color").mkdir(parents=True)
        name.rename(folder / "set/color/1")
        where = {} if path is None else {"path": path.format(folder=folder)}
        mag = {"mag": [1, 1, 1], "axisOrder": order, **where}
        layer = {"name": "color", "dataFormat": "zarr", "mags": [{"mag": [2, 2, 1]}, mag]}
        stated = {"dataLayers": [layer], "scale": {"factor": [8, 4, 40], "unit": "nanometer"}}
        (folder / "set/datasource-properties.json").write_text(json.dumps(stated))
        return f"{folder}/set/color/1"

    return make


CXYZ = {"z": 3, "c": 0, "x": 1, "y": 2}
NOTE = "datasource-properties.json may state a voxel size"
WEBKNOSSOS = [
    Case("cxyz-2", webknossos("cxyz", CXYZ, version=2), note=NOTE),
    Case("cxyz-3", webknossos("cxyz", CXYZ, dimension_names="cxyz"), note=NOTE),
    Case("xyz", webknossos("xyz", {"x": 0, "y": 1, "z": 2}, None, version=2), note=NOTE),
    Case("url", webknossos("xyz", {"x": 0, "y": 1, "z": 2}, "file://{folder}/set/color/1", version=2), note=NOTE),
    Case("numbered", webknossos("cxyz", CXYZ, dimension_names=["dim_0", "dim_1", "dim_2", "dim_3"]), note=NOTE),
    Case("other", webknossos("cxyz", CXYZ, dimension_names="czyx"),
         refused="axisOrder names the axes c, x, y, z, expected c, z, y, x as dimension_names does"),
    Case("three-of-four", webknossos("cxyz", {"x": 0, "y": 1, "z": 2}, version=2), refused="expected 4 axes"),
    Case("texts", webknossos("cxyz", {"x": "a", "y": 1, "z": None}, version=2), refused="axisOrder"),
    Case("elsewhere", webknossos("zyx", CXYZ, "./color/2", version=2), note=NOTE),
]  # fmt: skip


@parametrized(WEBKNOSSOS)
def test_the_axis_order_of_webknossos_is_used(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


def test_a_channel_of_webknossos_has_the_stated_order(tmp_path: Path) -> None:
    volume = data.Volume(webknossos("cxyz", CXYZ, version=2)(tmp_path), channel=0)
    np.testing.assert_array_equal(volume.read(), ARRAY)
