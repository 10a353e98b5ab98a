# SPDX-License-Identifier: Apache-2.0
"""Axes, voxel sizes and offsets that files of other libraries state are used, or refused in one line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore
import tifffile

from floodtide import cli, data, errors
from floodtide.data.formats import stores
from floodtide.data.formats.geometry import Geometry

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import other_programs
import zarr

ARRAY = np.arange(4 * 5 * 6, dtype=np.uint32).reshape(4, 5, 6)


def tiff(name: str = "v.tif", **options: Any) -> Callable[[Path], str]:
    """Return a function that writes a TIFF file."""

    def make(folder: Path) -> str:
        tifffile.imwrite(folder / name, other_programs.ARRAY, **options)
        return f"{folder}/{name}"

    return make


def nifti(folder: Path) -> str:
    """Write a file of NIfTI-1 in um."""
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(other_programs.ARRAY.T, np.diag([0.008, 0.004, 0.04, 1.0]))
    image.header.set_xyzt_units("micron")
    nibabel.save(image, folder / "v.nii")
    return f"{folder}/v.nii"


def ome_zarr(
    folder: Path, names: str, array: Any, *, unit: str | None = "nanometer", **image: Any
) -> str:
    """Write an image of OME-Zarr 0.4 with the scale 40, 4, 8 (z, y, x), and return its name."""
    group = zarr.open_group(str(folder), mode="w", zarr_format=2)
    group.create_array("s0", shape=array.shape, chunks=(2,) * array.ndim, dtype=array.dtype)[:] = (
        array
    )
    size = {"z": 40.0, "y": 4.0, "x": 8.0}
    axes = [
        {"name": n, "type": "space", "unit": unit}
        if n in size and unit
        else {"name": n, "type": "channel"}
        for n in names
    ]
    scale = {"type": "scale", "scale": [size.get(n, 1.0) for n in names]}
    level = {"path": "s0", "coordinateTransformations": [scale]}
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [level], **image}]
    return str(folder)


@pytest.mark.parametrize("names", ["xyz", "zyx", "yxz", "cxyz", "xyzc", "tczyx"])
def test_ome_zarr_axes_of_any_order_become_z_y_x(tmp_path: Path, names: str) -> None:
    order = [("zyx").index(n) for n in names if n in "zyx"]
    array = ARRAY.transpose(order)
    for at, name in enumerate(names):
        if name in "tc":
            array = np.expand_dims(array, at)
    volume = data.Volume(ome_zarr(tmp_path / "a.zarr", names, array))
    np.testing.assert_array_equal(volume.read(), ARRAY)
    assert volume.geometry.voxel_size_nm == (40, 4, 8)


def test_a_level_by_its_own_name_has_the_axes_of_its_image(tmp_path: Path) -> None:
    volume = data.Volume(ome_zarr(tmp_path / "a.zarr", "xyz", ARRAY.T) + "/s0")
    np.testing.assert_array_equal(volume.read(), ARRAY)
    assert volume.geometry.voxel_size_nm == (40, 4, 8)


def test_transformations_of_level_and_image_are_combined(tmp_path: Path) -> None:
    changes = [
        {"type": "scale", "scale": [2.0, 2.0, 2.0]},
        {"type": "translation", "translation": [-80.0, 16.0, 0.0]},
    ]
    name = ome_zarr(tmp_path / "a.zarr", "zyx", ARRAY, coordinateTransformations=changes)
    geometry = data.Volume(name).geometry
    assert geometry.voxel_size_nm == (80, 8, 16)
    assert geometry.offset == (-1, 2, 0)
    assert "OME-Zarr" in geometry.size_source


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"_ARRAY_DIMENSIONS": ["x", "y", "z"]}, "name the axes x, y, z, expected z, y, x as its"),
        ({"voxel_size": [80, 8, 8]}, "40 x 4 x 8 nm, attribute voxel_size of 80 x 8 x 8 nm"),
        (
            {"_ARRAY_DIMENSIONS": ["z", "y", "x"], "voxel_size": [40, 4, 8], "offset": [400, 8, 8]},
            "",
        ),
    ],
)
def test_a_level_that_states_its_own_geometry(
    tmp_path: Path, stated: dict[str, Any], said: str
) -> None:
    name = ome_zarr(tmp_path / "v.zarr", "zyx", ARRAY)
    zarr.open_array(f"{name}/s0").attrs.update(stated)
    if said:
        with pytest.raises(errors.InvalidFileError, match=said):
            data.Volume(name)
    else:
        assert data.Volume(name).geometry.offset == (10, 2, 1)


def test_the_transform_of_cellmap_orders_the_axes(tmp_path: Path) -> None:
    transform = {"axes": ["x", "y", "z"], "scale": [4.0, 5.0, 40.0], "translate": [8.0, 5.0, 40.0]}
    array = zarr.create_array(
        f"{tmp_path}/v.zarr", data=ARRAY.T, attributes={"transform": transform}
    )
    volume = data.Volume(f"{tmp_path}/v.zarr")
    np.testing.assert_array_equal(volume.read(), np.asarray(array).T)
    assert volume.geometry == Geometry(voxel_size_nm=(40.0, 5.0, 4.0), offset=(1, 1, 2))


def test_another_transformation_is_refused(tmp_path: Path) -> None:
    changes = [{"type": "affine", "affine": [[1, 0, 0, 0]]}]
    name = ome_zarr(tmp_path / "a.zarr", "zyx", ARRAY, coordinateTransformations=changes)
    with pytest.raises(errors.InvalidFileError, match="expected scale or translation"):
        data.Volume(name)


def test_several_channels_need_a_choice(tmp_path: Path) -> None:
    name = ome_zarr(tmp_path / "a.zarr", "cxyz", np.stack([ARRAY.T, ARRAY.T + 1]))
    with pytest.raises(errors.InvalidFileError, match="expected one time and one channel"):
        data.Volume(name)
    np.testing.assert_array_equal(data.Volume(name, channel=1).read(), ARRAY + 1)


def test_a_scale_without_unit_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = ome_zarr(tmp_path / "a.zarr", "zyx", ARRAY, unit=None)
    assert data.Volume(name).geometry.voxel_size_nm is None
    assert "without a unit" in capsys.readouterr().err


def test_dimension_names_of_zarr_3_order_the_axes(tmp_path: Path) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"),
        shape=(6, 5, 4),
        chunks=(3, 3, 3),
        dtype="u4",
        dimension_names="xyz",
    )
    array[:] = ARRAY.T
    array.attrs["voxel_size"] = [8, 4, 40]
    array.attrs["offset"] = [80, 0, -40]
    volume = data.Volume(tmp_path / "a.zarr")
    np.testing.assert_array_equal(volume.read(), ARRAY)
    assert volume.geometry.voxel_size_nm == (40, 4, 8)
    assert volume.geometry.offset == (-1, 0, 10)


def test_dimension_names_that_are_no_axes_leave_z_y_x(tmp_path: Path) -> None:
    names = ["dim_0", "dim_1", "dim_2"]
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(4, 5, 6), dtype="u4", dimension_names=names)[
        :
    ] = ARRAY
    np.testing.assert_array_equal(data.Volume(tmp_path / "a.zarr").read(), ARRAY)


def test_axes_of_a_time_series_are_refused(tmp_path: Path) -> None:
    zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(4, 5, 6), dtype="u4", dimension_names=["t", "y", "x"]
    )[:] = ARRAY
    with pytest.raises(errors.InvalidFileError, match=r"has axes t, y, x .* expected z, y and x"):
        data.Volume(tmp_path / "a.zarr")


def test_xarray_dimensions_of_zarr_2_order_the_axes(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(6, 5, 4), dtype="u4", zarr_format=2)
    array[:] = ARRAY.T
    array.attrs["_ARRAY_DIMENSIONS"] = ["x", "y", "z"]
    np.testing.assert_array_equal(data.Volume(tmp_path / "a.zarr").read(), ARRAY)


@pytest.mark.parametrize(
    ("attributes", "size", "offset"),
    [
        ({"resolution": [40.0, 4.0, 8.0], "offset": [80.0, -8.0, 0.0]}, (40, 4, 8), (2, -2, 0)),
        ({"voxel_size": [40, 4, 8], "units": ["nm"] * 3}, (40, 4, 8), None),
        ({"voxel_size": [0.04, 0.004, 0.008], "units": ["um"] * 3}, (40, 4, 8), None),
        ({"element_size_um": [0.04, 0.004, 0.008]}, (40, 4, 8), None),
        (
            {"resolution": [40.0, 4.0, 8.0], "box_start": np.int64([-1, 2, 3])},
            (40, 4, 8),
            (-1, 2, 3),
        ),
        (
            {"spacings": [8.0, 4.0, 40.0], "space origin": [16.0, 0.0, -40.0]},
            (40, 4, 8),
            (-1, 0, 2),
        ),
    ],
)
def test_attributes_of_hdf5_datasets(
    tmp_path: Path, attributes: dict[str, Any], size: Any, offset: Any
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("raw", data=ARRAY)
        dataset.attrs.update(attributes)
    geometry = data.Volume(f"{tmp_path}/a.h5:raw").geometry
    assert geometry.voxel_size_nm == pytest.approx(size)
    assert geometry.offset == offset


def test_axistags_and_dimension_labels_order_the_axes_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("tags", "labels"):
            file.create_dataset(name, data=ARRAY.T)
        file["tags"].attrs["axistags"] = json.dumps({"axes": [{"key": k} for k in "xyz"]})
        for at, label in enumerate("xyz"):
            file["labels"].dims[at].label = label
        file["tags"].attrs["element_size_um"] = (0.008, 0.004, 0.04)
    for name in ("tags", "labels"):
        volume = data.Volume(f"{tmp_path}/a.h5:{name}")
        np.testing.assert_array_equal(volume.read(), ARRAY)
        np.testing.assert_array_equal(volume.read("1:3,0:2,4:6"), ARRAY[1:3, 0:2, 4:6])
    assert data.Volume(f"{tmp_path}/a.h5:tags").geometry.voxel_size_nm == pytest.approx((40, 4, 8))


def test_attributes_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("raw", data=ARRAY)
        dataset.attrs.update(
            {"resolution": [40.0, 4.0, 8.0], "element_size_um": [0.03, 0.004, 0.008]}
        )
    with pytest.raises(errors.InvalidFileError, match="expected one voxel size"):
        data.Volume(f"{tmp_path}/a.h5:raw")


def test_an_attribute_that_cannot_be_used_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", data=ARRAY).attrs["resolution"] = 4.0
    assert data.Volume(f"{tmp_path}/a.h5:raw").geometry.voxel_size_nm is None
    assert "attribute resolution is" in capsys.readouterr().err


@pytest.mark.parametrize(
    "attributes",
    [
        {"resolution": [8, 4, 40], "offset": [80, 0, -40]},
        {"pixelResolution": {"dimensions": [0.008, 0.004, 0.04], "unit": "um"}},
        {"transform": {"axes": ["z", "y", "x"], "scale": [40, 4, 8], "units": ["nm"] * 3}},
        {"axis_names": ["z", "y", "x"], "voxel_size": [40, 4, 8], "units": ["nm"] * 3},
    ],
)
def test_attributes_of_n5(tmp_path: Path, attributes: dict[str, Any]) -> None:
    metadata = {"dimensions": [6, 5, 4], "blockSize": [3, 3, 3], "dataType": "uint32"}
    store = tensorstore.open(
        {
            "driver": "n5",
            "kvstore": {"driver": "file", "path": f"{tmp_path}/a.n5/"},
            "metadata": {**metadata, "compression": {"type": "raw"}, **attributes},
        },
        create=True,
    ).result()
    store.write(ARRAY.T).result()
    volume = data.Volume(tmp_path / "a.n5")
    np.testing.assert_array_equal(volume.read(), ARRAY)
    assert volume.geometry.voxel_size_nm == pytest.approx((40, 4, 8))
    if "offset" in attributes:
        assert volume.geometry.offset == (-1, 0, 10)


# Neuroglancer precomputed


def precomputed(folder: Path, offset: list[int], chunk: int = 2, **more: Any) -> str:
    scale = {
        "size": [6, 5, 4], "encoding": "raw", "chunk_size": [chunk] * 3, "resolution": [8, 4, 40],
        "voxel_offset": offset, **more,
    }  # fmt: skip
    store = tensorstore.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{folder}/"},
            "multiscale_metadata": {
                "type": "segmentation",
                "data_type": "uint32",
                "num_channels": 1,
            },
            "scale_metadata": scale,
        },
        create=True,
    ).result()
    store[..., 0].write(ARRAY.T + 1).result()
    return f"precomputed://{folder}"


def test_offsets_of_any_sign_survive_every_format(tmp_path: Path) -> None:
    last = precomputed(tmp_path / "first", [100, -10, 0])
    for name in ("a.zarr", "b.n5", "c.h5:x", "d.tif", "e.zarr"):
        copy = data.convert(last, f"{tmp_path}/{name}")
        assert copy.geometry.offset == (0, -10, 100), name
        last = f"{tmp_path}/{name}"
    copy = data.convert(last, f"precomputed://{tmp_path}/f")
    assert copy.geometry.offset == (0, -10, 100)


@pytest.mark.parametrize("ending", [".gz", ".br"])
def test_chunks_with_another_ending_are_refused(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = precomputed(tmp_path / "v", [0, 0, 0])  # CloudVolume writes chunks under such names
    for path in list((tmp_path / "v/8_4_40").iterdir()):
        path.with_name(path.name + ending).write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert cli.run(["convert", name, f"{tmp_path}/a.zarr"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"ending {ending}" in said


def test_many_absent_chunks_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = precomputed(tmp_path / "v", [3, -3, 0])
    chunks = sorted((tmp_path / "v/8_4_40").iterdir())
    for path in chunks[:7]:
        path.unlink()
    assert data.Volume(name).read().min() == 0
    assert "7 of 18 chunks do not exist" in capsys.readouterr().err


def test_lost_shards_are_noted_and_compressed_ones_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bits = {"preshift_bits": 0, "minishard_bits": 0, "shard_bits": 3, "hash": "identity"}
    name = precomputed(
        tmp_path / "v", [0, 0, 0], 4, sharding={"@type": "neuroglancer_uint64_sharded_v1", **bits}
    )
    assert data.Volume(name).read().min() == 1
    assert not capsys.readouterr().err
    shards = sorted((tmp_path / "v/8_4_40").iterdir())
    for path in shards[1:]:
        path.unlink()
    data.Volume(name)
    assert f"{len(shards) - 1} of {len(shards)} chunks do not exist" in capsys.readouterr().err
    shards[0].rename(f"{shards[0]}.gz")
    with pytest.raises(errors.InvalidFileError, match=r"ending \.gz"):
        data.Volume(name)


def test_absent_chunks_of_hdf5_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        part = file.create_dataset("part", (4, 4, 4), "u1", chunks=(2, 2, 2))
        part[:2, :2, :2] = 1
        file.create_dataset("whole", (4, 4, 4), "u1", chunks=(2, 2, 2))[:] = 0
        file.create_dataset("unwritten", (4, 4, 4), "u1")
    for name, said in (("part", "7 of 8 chunks"), ("whole", ""), ("unwritten", "1 of 1 chunks")):
        data.Volume(f"{tmp_path}/v.h5:{name}")
        assert said in (err := capsys.readouterr().err)
        assert bool(said) == bool(err)


def test_a_damaged_chunk_that_h5py_reads_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        array = file.create_dataset(
            "v", (2, 4, 4, 4), "u1", chunks=(2, 4, 4, 4), compression="gzip"
        )
        array.attrs["axes"] = ["c", "x", "y", "z"]  # another order: read by h5py
        array.id.write_direct_chunk((0, 0, 0, 0), b"short", filter_mask=1)
    volume = data.Volume(f"{tmp_path}/v.h5:v", channel=0)
    with pytest.raises(errors.InvalidFileError, match="has not the size of 128 bytes"):
        volume.read()


@pytest.mark.parametrize("version", [2, 3])
def test_absent_chunks_of_zarr_are_noted(
    tmp_path: Path, version: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(4, 4, 4), chunks=(2, 2, 2), dtype="u1", zarr_format=version
    )
    array[:2] = 1
    data.Volume(tmp_path / "a.zarr")
    assert "4 of 8 chunks do not exist" in capsys.readouterr().err
    array[:] = 1
    data.Volume(tmp_path / "a.zarr")
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.zarr", "b.n5", "precomputed://c"])
def test_we_write_chunks_of_zeros_so_that_an_absent_one_is_lost(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = name.replace("://", f"://{tmp_path}/") if "://" in name else f"{tmp_path}/{name}"
    zeros = data.Volume(np.zeros((65, 65, 65), np.uint8))
    data.convert(zeros, there, voxel_size_nm=(4, 4, 4))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "." not in path.name]
    written = [path for path in files if path.name != "info"]
    assert len(written) == 8
    data.Volume(there)
    assert not capsys.readouterr().err
    written[0].unlink()
    data.Volume(there)
    said = capsys.readouterr().err
    assert "1 of 8 chunks do not exist (floodtide convert wrote all of them)" in said


def test_only_rank_0_lists_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(10, 10, 1), chunks=(1, 1, 1), dtype="u1", zarr_format=2
    )
    array[:] = 1
    listed: list[str] = []
    files = stores._files

    def counted(folder: Path, below: str) -> Any:
        for path in files(folder, below):
            listed.append(path)
            yield path

    monkeypatch.setattr(stores, "_files", counted)
    data.Volume(tmp_path / "a.zarr")
    assert len(listed) == 102  # with the metadata
    listed.clear()
    monkeypatch.setattr(stores.notes, "speaks", lambda: False)  # as on any other rank
    data.Volume(tmp_path / "a.zarr")
    assert len(listed) <= stores._FEW + 1
    for path in (tmp_path / "a.zarr").glob("[0-9]*"):
        path.rename(f"{path}.gz")
    with pytest.raises(errors.InvalidFileError, match="compressed as a whole file"):
        data.Volume(tmp_path / "a.zarr")


def test_a_separator_that_the_metadata_do_not_state_is_refused(tmp_path: Path) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(4, 4, 4), chunks=(2, 2, 2), dtype="u1", zarr_format=2,
        chunk_key_encoding={"name": "v2", "separator": "/"},
    )  # fmt: skip
    array[:] = 1
    path = tmp_path / "a.zarr/.zarray"
    document = json.loads(path.read_text())
    del document["dimension_separator"]
    path.write_text(json.dumps(document))
    with pytest.raises(errors.InvalidFileError, match="expected the separator"):
        data.Volume(tmp_path / "a.zarr")


# bioformats2raw


def test_a_layout_of_bioformats2raw_leads_to_its_image(tmp_path: Path) -> None:
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    root.attrs["bioformats2raw.layout"] = 3
    root.create_group("OME").attrs["series"] = ["0"]
    ome_zarr(tmp_path / "a.zarr/0", "tczyx", ARRAY[None, None])
    for name in ("a.zarr", "a.zarr/0", "a.zarr/0/s0"):
        np.testing.assert_array_equal(data.Volume(tmp_path / name).read(), ARRAY)
    ome_zarr(tmp_path / "a.zarr/1", "tczyx", ARRAY[None, None])
    with pytest.raises(errors.InvalidFileError, match=r"holds 2 images, expected .*/0 or .*/1"):
        data.Volume(tmp_path / "a.zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_a_codec_that_cannot_be_read_is_named(
    tmp_path: Path, version: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(4, 4, 4), dtype="u1", zarr_format=version)
    path = tmp_path / "a.zarr" / ("zarr.json" if version == 3 else ".zarray")
    document = json.loads(path.read_text())
    if version == 3:
        document["codecs"][-1] = {"name": "numcodecs.lzma", "configuration": {}}
    else:
        document["compressor"] = {"id": "lzma", "preset": 1}
    path.write_text(json.dumps(document))
    assert cli.run(["convert", f"{tmp_path}/a.zarr", f"{tmp_path}/b.zarr"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'lzma" is not registered' in said


def test_objects_that_name_other_axes_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    array = zarr.create_array(path, shape=(6, 5, 4), dtype="u4", dimension_names="xyz")
    array[:] = ARRAY.T
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    store = tensorstore.open(spec).result()
    for one in (array, store):
        with pytest.raises(errors.InvalidArgumentError, match="names its axes x, y, z"):
            data.Volume(one)
    np.testing.assert_array_equal(data.Volume(store.T).read(), ARRAY)


@pytest.mark.parametrize(
    "attributes",
    [
        {"spacing": (40.0, 4.0, 4.0)},
        {"space directions": np.eye(3) * 4.0},
        {"resolution": "40 4 4"},
        {"resolution": (float("nan"), 4.0, 4.0)},
        {"voxel_size": (40.0, 4.0, 4.0), "units": ["nm", "nm", "parsec"]},
        {"offset": (40.0, 4.0, 4.0)},
    ],
)
def test_what_is_stated_and_not_used_is_noted(
    tmp_path: Path, attributes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", data=ARRAY).attrs.update(attributes)
    geometry = data.Volume(f"{tmp_path}/a.h5:raw").geometry
    assert (geometry.voxel_size_nm, geometry.offset) == (None, None)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not used" in said


IMAGEJ = {"imagej": True, "resolution": (1 / 8, 1 / 4), "photometric": "minisblack"}
SPACED = {"axes": "ZYX", "spacing": 40.0, "unit": "nm"}
EDGES = {"PhysicalSizeX": 0.008, "PhysicalSizeY": 0.004, "PhysicalSizeZ": 0.04, "axes": "ZYX"}
TAGS = {
    "axistags": json.dumps({"axes": [{"key": n} for n in "zyx"]}),
    "element_size_um": (0.04, 0.004, 0.008),
}
PLACED = {"voxel_size": [40, 4, 8], "offset": [40, 0, -8], "axis_names": ["z", "y", "x"]}
PIXELS = {"unit": "um", "dimensions": [0.008, 0.004, 0.04]}
SOURCES = [
    (other_programs.hdf5(TAGS), "attribute axistags", "attribute element_size_um", None),
    (other_programs.hdf5({"resolution": other_programs.NM}), "", "attribute resolution", None),
    (other_programs.zarr_array(attributes=PLACED), "attribute axis_names", "attribute voxel_size", "attribute offset"),
    (other_programs.ome(), "its OME-Zarr metadata", "its OME-Zarr metadata", None),
    (other_programs.ome(version="0.5"), "its OME-Zarr metadata", "its OME-Zarr metadata", None),
    (other_programs.n5({"resolution": [8, 4, 40]}), "N5 stores x, y, z", "attribute resolution", None),
    (other_programs.n5({"pixelResolution": PIXELS, "axes": ["x", "y", "z"]}), "its attributes",
     "attribute pixelResolution", None),
    (other_programs.precomputed(), "precomputed stores x, y, z", "its info", "its info"),
    (tiff(metadata=SPACED, **IMAGEJ), "its ImageJ metadata", "its ImageJ metadata", None),
    (tiff("v.ome.tif", metadata=EDGES), "its OME metadata", "its OME metadata", None),
    (nifti, "its affine", "its affine", "its affine"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "axes", "size", "offset"), SOURCES)
def test_every_source_is_named(
    make: Callable[[Path], str], axes: str, size: str, offset: str | None, tmp_path: Path
) -> None:
    found = data.Volume(make(tmp_path)).geometry
    assert found.voxel_size_nm == pytest.approx(other_programs.NM)
    words = f"axes z, y, x ({axes or 'as stored'}); voxels of 40 x 4 x 8 nm ({size})"
    assert found.text.startswith(words)
    assert ("first voxel" in found.text) == (offset is not None)
    assert offset is None or found.text.endswith(f" ({offset})")


def test_what_nothing_states_is_said(tmp_path: Path) -> None:
    assert data.Volume(ARRAY).geometry.text == "axes z, y, x (as stored); voxels of unknown size"
    for number, page in enumerate(ARRAY):
        tifffile.imwrite(tmp_path / f"{number}.tif", page)
    found = data.Volume(f"{tmp_path}/*.tif").geometry.text
    assert found == "axes z, y, x (a section in each file); voxels of unknown size"


def test_a_damaged_box_start_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", data=ARRAY).attrs["box_start"] = np.int64([1, 2])
    with pytest.raises(errors.InvalidFileError, match=r"box_start is .* expected three integers"):
        data.Volume(f"{tmp_path}/a.h5:raw")
