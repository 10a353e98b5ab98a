# SPDX-License-Identifier: Apache-2.0
"""What files of other programs state in rare places or spellings: axes, sizes, levels, chunks and pages."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import tensorstore
import tifffile

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import zarr
from other_programs import ARRAY, NM, Case, parametrized
from PIL import Image

from floodtide import cli, data
from floodtide.errors import InvalidArgumentError

Make = Callable[[Path], str]
XYZ = np.ascontiguousarray(ARRAY.T)
AXES = [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "xyz"]
SCALE = [{"type": "scale", "scale": NM[::-1]}]


def hdf5(array: Any, name: str = "raw", **attributes: Any) -> Make:
    def make(folder: Path) -> str:
        with h5py.File(folder / "v.h5", "w") as file:
            file.create_dataset(name, data=array).attrs.update(attributes)
        return f"{folder}/v.h5:{name}"

    return make


def scaled(*names: str, array: Any = ARRAY, coordinates: bool = False, paths: str = "") -> Make:
    """Write a dimension scale for each axis: as netCDF does, or with a name beside another path."""

    def make(folder: Path) -> str:
        with h5py.File(folder / "v.nc", "w") as file:
            volume = file.create_dataset("raw", data=array)
            for axis, (name, size) in enumerate(zip(names, array.shape, strict=True)):
                path = f"{paths}{axis}" if paths else name
                file[path] = np.arange(size) * 4.0
                of_netcdf = "This is a netCDF dimension but not a netCDF variable.         4"
                file[path].make_scale(name if coordinates or paths else of_netcdf)
                volume.dims[axis].attach_scale(file[path])
        return f"{folder}/v.nc:raw"

    return make


def beside(name: str, other: str = "", **attributes: Any) -> Make:
    """Write an array, and attributes of its group or another dataset beside it."""

    def make(folder: Path) -> str:
        with h5py.File(folder / "v.h5", "w") as file:
            array = file.create_dataset(name, data=ARRAY)
            array.parent.attrs.update(attributes)
            if other:
                array.parent[other] = np.arange(4)
        return f"{folder}/v.h5:{name}"

    return make


def level(path: str, *, read: str = "", link: str = "") -> Make:
    """Write an OME-Zarr image of x, y, z with a level below folders without metadata, or behind a link."""

    def make(folder: Path) -> str:
        root = folder / "v.zarr"
        group = zarr.open_group(root, mode="w", zarr_format=2)
        datasets = [{"path": path, "coordinateTransformations": SCALE}]
        group.attrs["multiscales"] = [{"version": "0.4", "axes": AXES, "datasets": datasets}]
        store = {"driver": "file", "path": f"{root}/{path}"}
        metadata = {"shape": XYZ.shape, "chunks": XYZ.shape, "dtype": "|u1"}
        spec = {"driver": "zarr", "kvstore": store, "metadata": metadata}
        tensorstore.open(spec, create=True).result().write(XYZ).result()
        if link:
            (folder / link).symlink_to(root / path)
        return f"{folder}/{read or 'v.zarr'}"

    return make


def zarr_array(**attributes: Any) -> Make:
    def make(folder: Path) -> str:
        group = zarr.open_group(folder / "v.zarr", mode="w", zarr_format=2)
        group.attrs.update(attributes)
        array = group.create_array("raw", shape=ARRAY.shape, chunks=(1, 5, 6), dtype="u1")
        array[...] = ARRAY
        return f"{folder}/v.zarr/raw"

    return make


def separated(folder: Path) -> str:
    """Write an array of which one chunk has the other separator in its name."""
    name = zarr_array()(folder)
    Path(name, "2/0").mkdir(parents=True)
    Path(name, "2.0.0").rename(Path(name, "2/0/0"))
    return name


def shortened(folder: Path) -> str:
    """Write an array whose chunks lie outside of its grid."""
    array = zarr.create_array(
        folder / "v.zarr", shape=(8, 5, 6), chunks=(1, 5, 6), dtype="u1", zarr_format=2
    )
    array[4:] = ARRAY
    path = folder / "v.zarr/.zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "shape": [4, 5, 6]}))
    return f"{folder}/v.zarr"


def coarse_alone(folder: Path) -> str:
    """Write a precomputed volume with chunks of its second scale alone."""
    scales = [
        {"key": key, "resolution": size, "size": [6, 5, 4], "chunk_sizes": [[6, 5, 4]], "encoding": "raw"}
        for key, size in (("fine", [4, 4, 40]), ("coarse", [8, 8, 40]))
    ]  # fmt: skip
    info = {"type": "image", "data_type": "uint8", "num_channels": 1, "scales": scales}
    (folder / "v/coarse").mkdir(parents=True)
    (folder / "v/info").write_text(json.dumps(info))
    (folder / "v/coarse/0-6_0-5_0-4").write_bytes(ARRAY.tobytes())
    return f"precomputed://{folder}/v"


def of_a_set(folder: Path) -> str:
    """Write the second file of an OME-TIFF of two images in two files."""

    def image(number: int, edge: int) -> str:
        uuid = f'<UUID FileName="p{number}.ome.tif">urn:uuid:p{number}</UUID>'
        planes = "".join(
            f'<TiffData IFD="{z}" FirstZ="{z}" PlaneCount="1">{uuid}</TiffData>' for z in range(4)
        )
        sizes = 'SizeX="6" SizeY="5" SizeZ="4" SizeC="1" SizeT="1"'
        edges = "".join(
            f'PhysicalSize{axis}="{edge}" PhysicalSize{axis}Unit="nm" ' for axis in "XYZ"
        )
        return (
            f'<Image ID="Image:{number}"><Pixels ID="Pixels:{number}" DimensionOrder="XYZCT" Type="uint8" {sizes}'
            f' {edges}><Channel ID="Channel:{number}:0" SamplesPerPixel="1"/>{planes}</Pixels></Image>'
        )

    head = '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:p1">'
    text = f'<?xml version="1.0" encoding="UTF-8"?>{head}{image(0, 8)}{image(1, 40)}</OME>'
    with tifffile.TiffWriter(folder / "p1.ome.tif", ome=False) as file:
        file.write(ARRAY, photometric="minisblack", metadata=None, description=text.encode())
    return f"{folder}/p1.ome.tif"


def pages(name: str = "v.tif", **of_third: Any) -> Make:
    """Write a page for each section, the third one with other options."""

    def make(folder: Path) -> str:
        with tifffile.TiffWriter(folder / "v.tif") as file:
            for z, section in enumerate(ARRAY):
                options = {"photometric": "minisblack", "metadata": None}
                file.write(section, **options | (of_third if z == 2 else {}))
        return f"{folder}/{name}"

    return make


def with_a_mask(folder: Path) -> str:
    """Write pages of which the last is a transparency mask."""
    with tifffile.TiffWriter(folder / "v.tif") as file:
        for section in (*ARRAY, ARRAY[0]):
            file.write(section, photometric="minisblack", metadata=None, subfiletype=2)
    with tifffile.TiffFile(folder / "v.tif", mode="r+") as file:
        page: Any = file.pages[4]
        for tag in ("NewSubfileType", "PhotometricInterpretation"):
            page.aspage().tags[tag].overwrite(4)
    return f"{folder}/v.tif"


def with_a_projection(folder: Path) -> str:
    with tifffile.TiffWriter(folder / "v.tif") as file:
        file.write(ARRAY, photometric="minisblack", metadata={"axes": "ZYX"})
        file.write(ARRAY.max(0), photometric="minisblack", metadata=None)
    return f"{folder}/v.tif"


def sparse(folder: Path) -> str:
    """Write what GDAL does with SPARSE_OK: tiles of zeros are not in the file."""
    with tifffile.TiffWriter(folder / "v.tif") as file:
        for section in ARRAY:
            file.write(
                section, photometric="minisblack", metadata=None, tile=(16, 16), compression="zlib"
            )
    with tifffile.TiffFile(folder / "v.tif", mode="r+") as file:
        page: Any = file.pages[1]
        for tag in ("TileOffsets", "TileByteCounts"):
            page.aspage().tags[tag].overwrite(0)
    return f"{folder}/v.tif"


def described(tags: Any = (), **metadata: Any) -> Make:
    def make(folder: Path) -> str:
        options: Any = {"metadata": metadata or None, "extratags": [*tags]}
        tifffile.imwrite(folder / "v.tif", ARRAY, photometric="minisblack", **options)
        return f"{folder}/v.tif"

    return make


def later_slice(folder: Path) -> str:
    """Write a TIFF for each section, of which all are calibrated in y and x, and one has calibrated values."""
    for z, section in enumerate(ARRAY):
        more = {"c0": 5, "c1": 2} if z == 2 else {}
        tifffile.imwrite(folder / f"s{z}.tif", section, imagej=True, metadata={"cf": 0, **more})
    return f"{folder}/*.tif"


def planes_of_grey(folder: Path) -> str:
    for z, section in enumerate(ARRAY):
        grey = np.stack([section] * 3)
        tifffile.imwrite(folder / f"s{z}.tif", grey, photometric="rgb", planarconfig="separate")
    return f"{folder}/*.tif"


def shifted_png(folder: Path) -> str:
    """Write PNGs with a chunk that Pillow does not write: the place of the picture."""
    chunk = b"oFFs" + struct.pack(">iib", 3, 4, 0)
    chunk = struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk))
    for z, section in enumerate(ARRAY):
        path = folder / f"s{z}.png"
        Image.fromarray(section).save(path)
        content = path.read_bytes()
        path.write_bytes(content[:33] + chunk + content[33:])  # after the header
    return f"{folder}/*.png"


def without_edges(folder: Path) -> str:
    image = nibabel.Nifti1Image(XYZ, np.eye(4))
    image.header.set_xyzt_units("mm")
    nibabel.save(image, folder / "v.nii")
    content = bytearray((folder / "v.nii").read_bytes())
    content[80:92] = bytes(12)  # pixdim
    struct.pack_into("<hh", content, 252, 0, 0)  # no affine
    (folder / "v.nii").write_bytes(content)
    return f"{folder}/v.nii"


CASES = [
    Case("netcdf", scaled(*"xyz", array=XYZ)),
    Case("netcdf-time", scaled("time", *"zyx", array=ARRAY[None])),
    Case("netcdf-coordinates", scaled(*"xyz", array=XYZ, coordinates=True), note="may state a voxel size"),
    Case("named-scales", scaled(*"xyz", array=XYZ, paths="pos"), note="may state a voxel size"),
    Case("colons", hdf5(XYZ, axes="x:y:z")),
    Case("brackets", hdf5(XYZ, axes="[x, y, z]")),
    Case("tuple", hdf5(XYZ, axis_order="('x', 'y', 'z')")),
    Case("minc", hdf5(XYZ, dimorder="xspace,yspace,zspace")),
    Case("other-words", hdf5(ARRAY, axes="lambda"), note="names the axes lambda, which are not known"),
    Case("nexus", beside("entry/data", axes=["x", "y", "z"]), note="the group /entry has an attribute axes, which"),
    Case("emd", beside("tomography/data", "dim1"), note="/tomography/dim1 exists, which may name its axes"),
    Case("minc-scale", beside("image/0/image", "image-max"), note="/image/0/image-max may scale its values"),
    Case("eman", beside("images/image", **{"EMAN.apix_x": 4.0}), note="the group /images has an attribute EMAN.apix_x"),
    Case("colours", hdf5(ARRAY, CLASS=b"IMAGE", IMAGE_SUBCLASS=b"IMAGE_TRUECOLOR"), refused="a picture of colours"),
    Case("white", hdf5(ARRAY, CLASS=b"IMAGE", IMAGE_WHITE_IS_ZERO=np.uint8(1)), note="states that 0 is white"),
    Case("from-below", hdf5(ARRAY, CLASS=b"IMAGE", DISPLAY_ORIGIN=b"LL"), note="its first row is not the top"),
    Case("unsigned", hdf5(ARRAY, _Unsigned="true"), note="attribute _Unsigned is true: not used"),
    Case("capitals", hdf5(ARRAY, VoxelSize=NM), note="attribute VoxelSize is"),
    Case("32-bits", hdf5(ARRAY, element_size_um=np.float32([0.04, 0.004, 0.008])), NM),
    Case("direction", hdf5(ARRAY, direction=[1.0, 0, 0]), note="attribute direction is"),
    Case("bare-folder", level("scale0/image"), NM),
    Case("link", level("0", read="w.zarr", link="w.zarr"), NM),
    Case("axes-of-the-group", zarr_array(axes=["x", "y", "z"]), note="has an attribute axes, which may name"),
    Case("no-multiscales", zarr_array(multiscales=None)),
    Case("separator", separated, refused="has another name than its metadata state"),
    Case("outside", shortened, voxels=np.zeros_like(ARRAY), note="4 of 4 chunks do not exist"),
    Case("coarse-alone", coarse_alone, refused="has no chunks"),
    Case("image-of-a-set", of_a_set, (40.0, 40.0, 40.0)),
    Case("compressions", pages(compression="zlib")),
    Case("mask", with_a_mask),
    Case("projection", with_a_projection, refused="state 4 pictures, and it holds 5: expected one stack"),
    Case("sparse", sparse, voxels=np.where(np.arange(4)[:, None, None] == 1, 0, ARRAY), note="tiles of its pictures"),
    Case("other-colours", pages(photometric="miniswhite"), refused="holds 2 series of pictures"),
    Case("series", pages("v.tif:0", photometric="miniswhite"), voxels=ARRAY[[0, 1, 3]], note="1 page of other series"),
    Case("page-turned", pages(extratags=[(274, "H", 1, 3, True)]), note="pages differ in their Orientation"),
    Case("page-number", pages(extratags=[(297, "H", 2, (4, 5), True)]), note="not in the order of their PageNumber"),
    Case("zeiss", described([(34118, "s", 0, "AP_IMAGE_PIXEL_SIZE", True)]), note="tag 34118 of Zeiss"),
    Case("described", described(scale_factor=0.5), note="its description states scale_factor = 0.5: not used"),
    Case("later-slice", later_slice, note="calibrate the values (cf = 0, c0 = 5, c1 = 2)"),
    Case("planes", planes_of_grey),
    Case("png", shifted_png, note="states oFFs"),
    Case("pixdim", without_edges, note="pixdim[1,2,3] should be non-zero"),
]  # fmt: skip


@parametrized(CASES)
def test_what_is_stated_elsewhere(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.check(tmp_path, capsys)


def test_half_voxels_keep_the_distance_of_two_volumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = np.kron(np.arange(1, 9).reshape(2, 2, 2), np.ones((8, 8, 8), int)).astype(np.uint64)
    for name, array, offset in (("s", labels, 420.0), ("t", labels[1:], 460.0)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            one = file.create_dataset("labels", data=array)
            one.attrs.update(resolution=[40.0, 4, 4], offset=[offset, 0.0, 0.0])
    names = [f"{tmp_path}/{name}.h5:labels" for name in "st"]
    assert cli.run(["evaluate", *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapted_rand_error"] == 0


def test_objects_whose_library_knows_other_axes_are_refused(tmp_path: Path) -> None:
    level("0")(tmp_path)
    array = zarr.open_group(tmp_path / "v.zarr", mode="r")["0"]
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{tmp_path}/v.zarr/0"}}
    stored = tensorstore.open(spec).result()
    for one in (array, stored):
        with pytest.raises(InvalidArgumentError, match=r"expected its name, .*v\.zarr/0"):
            data.Volume(one)
    (tmp_path / "v.zarr/zarr.json").write_text("[]")  # no metadata
    assert data.Volume(stored).shape == XYZ.shape
    metadata = {"dimensions": [6, 5, 4], "blockSize": [6, 5, 4], "dataType": "uint8"}
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{tmp_path}/v.n5"}}
    n5 = tensorstore.open(
        {**spec, "metadata": {**metadata, "compression": {"type": "raw"}}}, create=True
    ).result()
    n5.write(XYZ).result()
    with pytest.raises(InvalidArgumentError, match="axes x, y, z of N5"):
        data.Volume(n5)
    np.testing.assert_array_equal(data.Volume(n5.T).read(), ARRAY)


class VolumeCutout(np.ndarray[Any, Any]):
    """What CloudVolume returns."""

    __module__ = "cloudvolume.volumecutout"


def test_arrays_of_libraries_with_x_first_are_refused(tmp_path: Path) -> None:
    cutout = ARRAY.T.view(VolumeCutout)
    with pytest.raises(InvalidArgumentError, match=r"has the axes x, y, z of cloudvolume"):
        data.Volume(cutout)
    np.testing.assert_array_equal(data.Volume(np.asarray(cutout).T).read(), ARRAY)
    nibabel.save(nibabel.Nifti1Image(ARRAY.T, np.eye(4)), tmp_path / "a.nii")
    with pytest.raises(InvalidArgumentError, match=r"has the axes x, y, z of nibabel"):
        data.Volume(nibabel.load(tmp_path / "a.nii").dataobj)


def test_meshes_of_another_program_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.write_volume(tmp_path / "s.h5", {"labels": ARRAY.astype(np.uint32)})
    copy = f"precomputed://{tmp_path}/v"
    assert (
        cli.run(["convert", f"{tmp_path}/s.h5:labels", copy, "--labels", "--voxel-nm", "40,4,8"])
        == 0
    )
    capsys.readouterr()
    (tmp_path / "v/mesh").mkdir()
    foreign = tmp_path / "v/mesh/info"
    foreign.write_text('{"@type": "neuroglancer_multilod_draco"}')
    assert cli.run(["mesh", copy]) == 2
    assert "v: has mesh of another program already" in capsys.readouterr().err
    assert foreign.read_text() == '{"@type": "neuroglancer_multilod_draco"}'


def test_partitions_keep_voxel_size_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = np.kron(np.arange(1, 9).reshape(2, 2, 2), np.ones((80, 80, 80), int)).astype(np.uint32)
    name = hdf5(labels, resolution=NM, offset=[400.0, -8.0, 16.0])(tmp_path)
    out = f"{tmp_path}/p.h5:classes"
    words = ["--lom-radius", "2,4,4", "--min-size", "1", "--box", "0:60,0:160,0:160"]
    assert cli.run(["partition", name, out, *words]) == 0
    capsys.readouterr()
    volume = data.Volume(out)
    assert volume.geometry.voxel_size_nm == NM
    assert volume.geometry.offset == (10, -2, 2)
    assert not capsys.readouterr().err, "chunks without a class are not missing"
