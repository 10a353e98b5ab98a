# SPDX-License-Identifier: Apache-2.0
"""TIFF and PNG files of other programs: series, axes, metadata, files that are spread, odd names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
from PIL import Image

from floodtide import cli, data, errors
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry
from floodtide.data.formats.writers import Plan

STACK = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the only line that a command prints which is refused."""
    assert cli.run(list(arguments)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


def test_pages_that_were_appended_are_sections(tmp_path: Path) -> None:
    for page in STACK:
        tifffile.imwrite(tmp_path / "a.tif", page, append=True)
    np.testing.assert_array_equal(data.Volume(tmp_path / "a.tif").read(), STACK)
    for page in STACK:
        tifffile.imwrite(tmp_path / "b.tif", page, append=True, compression="zlib")
    np.testing.assert_array_equal(data.Volume(tmp_path / "b.tif").read(), STACK)


def test_pages_of_pillow_are_sections(tmp_path: Path) -> None:
    first, *others = (Image.fromarray(page) for page in STACK)
    first.save(tmp_path / "a.tif", save_all=True, append_images=others)
    np.testing.assert_array_equal(data.Volume(tmp_path / "a.tif").read(), STACK)


def test_a_preview_beside_a_stack_is_refused_unless_it_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, mark in (("plain", {}), ("marked", {"subfiletype": 1})):
        with tifffile.TiffWriter(tmp_path / f"{name}.tif") as file:
            file.write(STACK[0, :2, :3], **mark)
            file.write(STACK, photometric="minisblack")
    said = refused(capsys, "convert", f"{tmp_path}/plain.tif", f"{tmp_path}/a.zarr")
    assert "holds 2 series of pictures, expected the name of one" in said
    assert "plain.tif:1 (4 x 5 x 6 QYX)" in said
    np.testing.assert_array_equal(data.Volume(tmp_path / "marked.tif").read(), STACK)


@pytest.mark.parametrize("axes", ["CYX", "TYX", "ZCYX"])
@pytest.mark.parametrize("form", [{"imagej": True}, {"ome": True}])
def test_channels_and_times_are_no_sections(
    tmp_path: Path, axes: str, form: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    array = STACK if len(axes) == 3 else STACK.reshape(2, 2, 5, 6)
    path = tmp_path / ("a.ome.tif" if "ome" in form else "a.tif")
    tifffile.imwrite(path, array, metadata={"axes": axes}, photometric="minisblack", **form)
    assert f"has axes {axes} of" in refused(capsys, "convert", str(path), f"{tmp_path}/b.zarr")


def test_metadata_of_imagej_and_ome(tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif", STACK, imagej=True, resolution=(1 / 0.004, 1 / 0.008),
        metadata={"axes": "ZYX", "spacing": 0.04, "unit": "um"},
    )  # fmt: skip
    size = {f"PhysicalSize{a}": n for a, n in zip("ZYX", (40, 8, 4), strict=True)}
    units = {f"PhysicalSize{a}Unit": "nm" for a in "ZYX"}
    tifffile.imwrite(tmp_path / "b.ome.tif", STACK, metadata={"axes": "ZYX", **size, **units})
    for name in ("a.tif", "b.ome.tif"):
        geometry = data.Volume(tmp_path / name).geometry
        assert geometry.voxel_size_nm == pytest.approx((40, 8, 4), rel=1e-4)


def test_two_of_three_edges_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif", STACK, imagej=True, resolution=(0.25, 0.25),
        metadata={"axes": "ZYX", "unit": "nm"},
    )  # fmt: skip
    assert data.Volume(tmp_path / "a.tif").geometry.voxel_size_nm is None
    assert "ImageJ metadata state 4 x 4 for the edges" in capsys.readouterr().err


def test_a_spacing_without_convention_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", STACK, photometric="minisblack", metadata={"spacing": 5})
    assert data.Volume(tmp_path / "a.tif").geometry.voxel_size_nm is None
    assert "its description states spacing = 5: not used" in capsys.readouterr().err


# OME-TIFF in several files


@pytest.fixture
def spread(tmp_path: Path) -> Path:
    """Four sections in four files, each of which states all."""
    folder = tmp_path / "ome"
    folder.mkdir()
    unique = [f"urn:uuid:00000000-0000-0000-0000-{i:012}" for i in range(4)]
    planes = "".join(
        f'<TiffData IFD="0" FirstZ="{i}" PlaneCount="1"><UUID FileName="s{i}.ome.tif">{u}</UUID></TiffData>'
        for i, u in enumerate(unique)
    )
    sizes = "".join(
        f'PhysicalSize{a}="{n}" PhysicalSize{a}Unit="nm" '
        for a, n in zip("ZYX", (40, 4, 4), strict=True)
    )
    for i, page in enumerate(STACK):
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'
            f' UUID="{unique[i]}"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8"'
            f' SizeX="6" SizeY="5" SizeZ="4" SizeC="1" SizeT="1" {sizes}>'
            f'<Channel ID="Channel:0:0" SamplesPerPixel="1"/>{planes}</Pixels></Image></OME>'
        )
        tifffile.imwrite(folder / f"s{i}.ome.tif", page, metadata=None, description=text)
    return folder


@pytest.mark.parametrize("name", ["*.tif", "s0.ome.tif"])
def test_an_ome_tiff_in_several_files_is_one_volume(spread: Path, name: str) -> None:
    volume = data.Volume(f"{spread}/{name}")
    np.testing.assert_array_equal(volume.read(), STACK)
    np.testing.assert_array_equal(volume.read("2:3,1:3,0:6"), STACK[2:3, 1:3])
    assert volume.geometry.voxel_size_nm == (40, 4, 4)


def test_a_lost_file_is_named(spread: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spread / "s2.ome.tif").unlink()
    said = refused(capsys, "convert", f"{spread}/s0.ome.tif", f"{spread}/a.zarr")
    assert "1 of its 4 sections are missing, expected s2.ome.tif" in said


def test_missing_numbers_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (0, 1, 2, 5, 6):
        tifffile.imwrite(tmp_path / f"run3_s{number:03}_raw.tif", STACK[0])
    assert data.Volume(f"{tmp_path}/*.tif").shape == (5, 5, 6)
    assert "no file has the number 3, 4" in capsys.readouterr().err
    for number in (0, 10, 20, 30):
        Image.fromarray(STACK[0]).save(tmp_path / f"{number}.png")
    data.Volume(f"{tmp_path}/*.png")
    assert not capsys.readouterr().err


def test_numbers_with_a_decimal_point_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("0.25", "0.5", "1.0"):
        Image.fromarray(STACK[0]).save(tmp_path / f"z{number}.png")
    data.Volume(f"{tmp_path}/*.png")
    said = capsys.readouterr().err
    assert "the order of the sections is z0.5.png, z0.25.png, z1.0.png" in said
    assert said.count("\n") == 1


def test_files_of_a_folder_that_state_other_voxel_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, edge in enumerate((0.004, 0.004, 0.008, 0.004)):
        more = {"resolution": (1 / edge, 1 / edge), "metadata": {"spacing": 0.04, "unit": "um"}}
        tifffile.imwrite(tmp_path / f"{number}.tif", STACK[0], imagej=True, **more)
    volume = data.Volume(f"{tmp_path}/*.tif")
    with pytest.raises(
        errors.InvalidFileError,
        match=r"2\.tif: states voxels of 40 x 8 x 8 nm, expected 40 x 4 x 4",
    ):
        volume.read()
    tifffile.imwrite(tmp_path / "0.tif", STACK[0])
    assert data.Volume(f"{tmp_path}/*.tif").geometry.voxel_size_nm is None
    assert "which the first file does not state" in capsys.readouterr().err


def test_a_file_of_several_pictures_in_a_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tifffile.imwrite(tmp_path / "0.tif", STACK, photometric="minisblack")
    said = refused(capsys, "convert", f"{tmp_path}/*.tif", f"{tmp_path}/b.zarr")
    assert "holds 4 pictures, expected one in each file" in said


# Names


@pytest.mark.parametrize("name", ["stack.tif", "s*.tif"])
@pytest.mark.parametrize("bigtiff", [False, True])
def test_a_circle_of_pages_is_refused(tmp_path: Path, bigtiff: bool, name: str) -> None:
    path = tmp_path / "stack.tif"
    tifffile.imwrite(
        path,
        np.zeros((3, 4, 5), np.uint8),
        photometric="minisblack",
        metadata=None,
        bigtiff=bigtiff,
    )
    with tifffile.TiffFile(path) as file:
        form, first, last = file.tiff, file.pages[0].offset, file.pages[2]
        at = last.offset + form.tagnosize + len(last.tags) * form.tagsize
    content = bytearray(path.read_bytes())
    content[at : at + form.offsetsize] = first.to_bytes(form.offsetsize, "little")
    path.write_bytes(content)
    with pytest.raises(errors.InvalidFileError, match=f"page 3 .* earlier page at byte {first}"):
        data.Volume(f"{tmp_path}/{name}")


def test_names_with_brackets_are_looked_up_first(tmp_path: Path) -> None:
    folder = tmp_path / "EM [2024] ROI?"
    folder.mkdir()
    tifffile.imwrite(folder / "stack[1].tif", STACK, photometric="minisblack")
    for i, page in enumerate(STACK):
        Image.fromarray(page).save(folder / f"p{i}.png")
    for name in ("stack[1].tif", "*.png", "p[0-3].png"):
        np.testing.assert_array_equal(data.Volume(f"{folder}/{name}").read(), STACK)
    for name in ("out.tif", "out[2].tif", "out.zarr"):
        copy = data.convert(f"{folder}/stack[1].tif", f"{folder}/{name}")
        np.testing.assert_array_equal(copy.read(), STACK)


def test_a_name_that_is_no_file_and_matches_none_is_said_to_be_missing(
    tmp_path: Path,
) -> None:
    with pytest.raises(errors.InvalidFileError, match="no such file"):
        data.Volume(f"{tmp_path}/stack[1].tif")
    with pytest.raises(errors.InvalidFileError, match="no file has such a name"):
        data.Volume(f"{tmp_path}/*.tif")


# Stacks for Fiji


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "u4", "f4", "f8", "u8"])
@pytest.mark.parametrize("offset", [None, (3, -4, 5)])
def test_stacks_have_the_metadata_of_imagej_or_ome(tmp_path: Path, dtype: str, offset: Any) -> None:
    plan = Plan(
        shape=(4, 5, 6), dtype=np.dtype(dtype), command="test",
        geometry=Geometry(voxel_size_nm=(40.0, 4.5, 4.0), offset=offset),
    )  # fmt: skip
    array = STACK.astype(dtype)

    def read(box: Any) -> Any:
        return array[tuple(slice(a, a + n) for a, n in zip(*box, strict=True))]

    copy = write_blocks(f"{tmp_path}/a.tif", plan, read)
    np.testing.assert_array_equal(copy.read(), array)
    assert copy.geometry.voxel_size_nm == (40, 4.5, 4)
    assert copy.geometry.offset == offset
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.is_imagej == (dtype in ("u1", "u2", "f4"))
        assert file.is_ome == (dtype in ("i1", "u4", "f8"))
        assert not file.is_bigtiff
        assert file.series[0].axes == "ZYX"
        np.testing.assert_array_equal(file.asarray(), array)
        assert file.pages[0].tags["XResolution"].value == (1, 4)


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8"])
def test_stacks_without_voxel_size_state_none(tmp_path: Path, dtype: str) -> None:
    copy = data.convert(data.Volume(STACK.astype(dtype)), f"{tmp_path}/a.tif")
    assert copy.geometry == Geometry()


# Unknown voxel sizes


@pytest.mark.parametrize("offset", [None, (0, 2, -3)])
def test_no_format_invents_a_voxel_size(
    tmp_path: Path, offset: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("raw", data=STACK)
        if offset is not None:
            dataset.attrs["box_start"] = np.int64(offset)
    last = f"{tmp_path}/a.h5:raw"
    names = ("b.zarr", "c.n5/x", "d.tif", "e.h5:raw", "f")
    for name in names:
        there = f"precomputed://{tmp_path}/f" if name == "f" else f"{tmp_path}/{name}"
        copy = data.convert(last, there)
        assert copy.geometry.voxel_size_nm is None
        assert (copy.geometry.offset or (0, 0, 0)) == (offset or (0, 0, 0))
        np.testing.assert_array_equal(copy.read(), STACK)
        last = there
    assert "1 nm is written, and marked as unknown" in capsys.readouterr().err
    with h5py.File(tmp_path / "l.h5", "w") as file:  # at the same place
        labels = file.create_dataset("raw", data=STACK.astype(np.uint32))
        labels.attrs["box_start"] = np.int64(offset or (0, 0, 0))
    assert "voxel size" in refused(
        capsys, "init", last, "--labels", f"{tmp_path}/l.h5:raw", "--minutes", "1"
    )


def test_another_voxel_size_than_the_stated_one_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", data=STACK).attrs["resolution"] = (40.0, 4.0, 4.0)
    copy = data.convert(f"{tmp_path}/a.h5:raw", f"{tmp_path}/b.zarr", voxel_size_nm=(30, 4, 4))
    assert copy.geometry.voxel_size_nm == (30, 4, 4)
    assert (
        "states voxels of 40 x 4 x 4 nm, and the copy states 30 x 4 x 4 nm"
        in capsys.readouterr().err
    )
