# SPDX-License-Identifier: Apache-2.0
"""What TIFF, PNG and NIfTI files of other programs state about places and values, and files of another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from floodtide import cli, data, errors

STACK = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)
IN_PLANE = 'PositionX="7" PositionXUnit="pixel" PositionY="-3" PositionYUnit="pixel"'
GDAL = (
    '<GDALMetadata><Item name="SCALE" sample="0" role="scale">0.1</Item>'
    '<Item name="OFFSET" sample="0" role="offset">-3</Item></GDALMetadata>'
)
OME = (
    '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image'
    ' ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="6" SizeY="5" SizeZ="4" SizeC="1"'
    ' SizeT="1"><Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData/>{planes}</Pixels></Image></OME>'
)


def plane(number: int, place: int, in_plane: str = IN_PLANE) -> str:
    of_z = f'PositionZ="{place}" PositionZUnit="pixel"'
    return f'<Plane TheZ="{number}" TheC="0" TheT="0" {in_plane} {of_z}/>'


def place_of(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """Open a volume and read it; return its place (z, y, x) in voxels and what is noted."""
    volume = data.Volume(name)
    np.testing.assert_array_equal(volume.read(), STACK[: volume.shape[0]])
    return volume.geometry.offset, capsys.readouterr().err


@pytest.mark.parametrize(
    ("planes", "place", "noted"),
    [
        ([plane(z, 100 + z) for z in range(4)], (100, -3, 7), ""),
        ([plane(z, 100 + z) for z in (3, 2, 1, 0)], (100, -3, 7), ""),
        ([plane(z, 100 + z, "") for z in range(4)], None, "no place along each axis"),
        ([plane(z, 10 * z) for z in range(4)], None, "sections that are not one voxel apart"),
    ],
)
def test_the_place_of_an_ome_tiff_is_that_of_its_first_section(
    planes: list[str],
    place: Any,
    noted: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = OME.format(planes="".join(planes)).encode()
    name = f"{tmp_path}/a.ome.tif"
    tifffile.imwrite(name, STACK, metadata=None, description=text, photometric="minisblack")
    found, said = place_of(name, capsys)
    assert found == place
    assert noted in said
    assert bool(noted) == bool(said)


@pytest.mark.parametrize(
    ("origin", "place", "noted"),
    [
        (lambda i: {"xorigin": -7}, (0, 0, 7), False),
        (lambda i: {"xorigin": -7, "zorigin": -30 - i}, (30, 0, 7), False),
        (lambda i: {"zorigin": -i}, (0, 0, 0), False),
        (lambda i: {"xorigin": -10 * i}, (0, 0, 0), True),
        (lambda i: {"zorigin": i - 30}, (30, 0, 0), True),
    ],
)
def test_places_of_slices_that_do_not_follow_each_other_are_noted_once(
    origin: Callable[[int], dict[str, int]],
    place: Any,
    noted: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for i, section in enumerate(STACK):
        tifffile.imwrite(tmp_path / f"s{i}.tif", section, imagej=True, metadata=origin(i))
    found, said = place_of(f"{tmp_path}/*.tif", capsys)
    assert found == place
    assert said.count("do not follow each other") == int(noted)
    assert said.count("note:") == int(noted)


def test_a_resolution_of_all_slices_is_noted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = {"resolution": (2.5e6, 2.5e6), "resolutionunit": "CENTIMETER"}
    for i, section in enumerate(STACK):
        tifffile.imwrite(tmp_path / f"s{i}.tif", section, photometric="minisblack", **fine)
    assert place_of(f"{tmp_path}/*.tif", capsys)[1].count("note:") == 1


@pytest.mark.parametrize(
    ("written", "noted"),
    [
        ({"extratags": [(42113, 2, 4, "255", True)]}, "the value 255 is no data (GDAL_NODATA)"),
        (
            {"extratags": [(42112, 2, 0, GDAL, True)]},
            "states scale = 0.1, offset = -3 for its values",
        ),
        ({"extratags": [(33550, 12, 3, (4.0, 4.0, 40.0), True)]}, "state ModelPixelScaleTag"),
        ({"metadata": {"offset": [1, 2, 3]}}, "its description states offset = [1, 2, 3]"),
        ({"metadata": None, "description": OME[:300]}, "its OME metadata are cut off"),
    ],
)
def test_what_a_tiff_states_beside_its_voxels_is_noted(
    written: dict[str, Any], noted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", STACK, photometric="minisblack", **written)
    assert noted in place_of(f"{tmp_path}/a.tif", capsys)[1]


def test_transparency_and_turns_of_pngs_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = Image.Exif()
    turned[274] = 6
    for folder, more, noted in (
        ("t", {"transparency": 7}, "states that some values are transparent (tRNS)"),
        ("e", {"exif": turned}, "turned or mirrored (Orientation 6)"),
    ):
        (tmp_path / folder).mkdir()
        for i, section in enumerate(STACK):
            Image.fromarray(section).save(tmp_path / folder / f"s{i}.png", **more)
        said = place_of(f"{tmp_path}/{folder}/*.png", capsys)[1]
        assert said.count(noted) == said.count("note:") == 1


@pytest.mark.parametrize("form", ["bmp", "jpeg", "gif", ""])
def test_a_file_that_is_no_png_is_refused(form: str, tmp_path: Path) -> None:
    path = tmp_path / "s0.png"
    if form:
        Image.fromarray(STACK[0]).save(path, format=form)
    else:
        path.touch()
    with pytest.raises(errors.InvalidFileError, match="is no PNG file, or is cut off"):
        data.Volume(f"{tmp_path}/*.png")


def test_several_or_no_pictures_are_refused(tmp_path: Path) -> None:
    first, second = (Image.fromarray(section) for section in STACK[:2])
    first.save(tmp_path / "a.png", save_all=True, append_images=[second])
    with pytest.raises(errors.InvalidFileError, match="holds 2 pictures, expected one in each"):
        data.Volume(f"{tmp_path}/*.png")
    for name in ("a.tif", "*.tif"):
        (tmp_path / "a.tif").write_bytes(b"II*\0\0\0\0\0")
        with pytest.raises(errors.InvalidFileError, match="holds no picture; it may be cut off"):
            data.Volume(f"{tmp_path}/{name}")


def test_two_places_of_a_nifti_file_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nibabel = pytest.importorskip("nibabel")
    size = np.diag([0.004, 0.004, 0.04, 1])
    moved = size + np.outer([0.8, 0, 0, 0], [0, 0, 0, 1])
    turned = np.diag([-0.004, -0.004, 0.04, 1])
    for number, (other, noted) in enumerate(((size, False), (moved, True), (turned, True))):
        image = nibabel.Nifti1Image(STACK.T, None)
        image.set_sform(size, 1)
        image.set_qform(other, 1)
        image.header.set_xyzt_units("micron")
        nibabel.save(image, tmp_path / f"{number}.nii")
        place, said = place_of(f"{tmp_path}/{number}.nii", capsys)
        assert place == (0, 0, 0)
        assert ("sform and qform state different places" in said) == noted


def test_places_of_a_stage_are_noted_once_for_all_slices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, section in enumerate(STACK):
        stage = f'<Plane TheZ="0" TheC="0" TheT="0" PositionZ="{40 * i}" PositionZUnit="nm"/>'
        text = OME.format(planes=stage).replace('SizeZ="4"', 'SizeZ="1"').encode()
        name = tmp_path / f"s{i}.tif"
        tifffile.imwrite(name, section, metadata=None, description=text, photometric="minisblack")
    assert place_of(f"{tmp_path}/*.tif", capsys)[1].count("the place of a stage") == 1


def test_what_has_no_meaning_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unplaced = '<Plane TheZ="0" TheC="0" TheT="0" PositionZUnit="pixel"/>'
    text = OME.format(planes=unplaced).encode()
    turned = [(274, 3, 1, 0, True)]
    for name, more in (("a", {"description": text}), ("b", {"extratags": turned})):
        path = tmp_path / f"{name}.tif"
        tifffile.imwrite(path, STACK, metadata=None, photometric="minisblack", **more)
        assert place_of(str(path), capsys) == (None, "")


def test_files_in_folders_that_are_named_like_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a.n5"
    folder.mkdir()
    tifffile.imwrite(folder / "i.tif", STACK, photometric="minisblack")
    assert place_of(f"{folder}/i.tif", capsys)[0] is None
    other = tmp_path / "b.zarr"
    other.mkdir()
    assert cli.run(["convert", f"{folder}/i.tif", f"{other}/o.h5:raw"]) == 0
    assert (other / "o.h5").is_file()
    capsys.readouterr()
    assert cli.run(["convert", f"{folder}/i.tif", f"{tmp_path}/o*.tif"]) == 2
    assert "floodtide reads this format, and does not write it" in capsys.readouterr().err


def test_half_voxels_of_nifti_files_are_rounded_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nibabel = pytest.importorskip("nibabel")
    places = set()
    for number, error in enumerate((0, 1e-6, -1e-6)):
        affine = np.diag([0.9, 0.9, 0.9, 1])
        affine[:3, 3] = np.array([-2.5, -3.5, -127.5]) * 0.9 + error
        image = nibabel.Nifti1Image(STACK.T, affine)
        image.header.set_xyzt_units("mm")
        nibabel.save(image, tmp_path / f"{number}.nii")
        places.add(place_of(f"{tmp_path}/{number}.nii", capsys)[0])
    assert len(places) == 1


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
def test_two_runs_write_the_same_tiff(dtype: str, tmp_path: Path) -> None:
    volume = data.Volume(STACK.astype(dtype))
    for name in ("a.tif", "b.tif"):
        data.convert(volume, f"{tmp_path}/{name}", voxel_size_nm=(40, 4, 8))
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()
