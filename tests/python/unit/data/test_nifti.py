# SPDX-License-Identifier: Apache-2.0
"""NIfTI files that nibabel has written: orientation, voxel size, position, scaled values."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from floodtide import cli, data, errors
from floodtide.base import outputs

nibabel = pytest.importorskip("nibabel")

VOXELS = np.random.default_rng(0).integers(0, 200, (5, 6, 7)).astype(np.uint8)  # z, y, x
SIZE_UM = (0.004, 0.005, 0.03)  # x, y, z
FIRST_VOXEL = (40, -20, 10)  # x, y, z


def affine_ras() -> NDArray[np.float64]:
    affine = np.diag([*SIZE_UM, 1.0])
    affine[:3, 3] = np.multiply(SIZE_UM, FIRST_VOXEL)
    return affine


def save(path: Path, voxels: NDArray[Any], affine: Any, unit: str = "micron") -> str:
    image = nibabel.Nifti1Image(voxels, affine, dtype=voxels.dtype)
    image.header.set_xyzt_units(unit)
    nibabel.save(image, path)
    return str(path)


ORIENTATIONS = [
    "".join(one)
    for axes in itertools.permutations(("LR", "PA", "IS"))
    for one in itertools.product(*axes)
]


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_every_orientation_is_the_same_volume(tmp_path: Path, ending: str) -> None:
    for codes in ORIENTATIONS:
        image = nibabel.Nifti1Image(VOXELS.T, affine_ras())
        image.header.set_xyzt_units("micron")
        turn = nibabel.orientations.ornt_transform(
            nibabel.io_orientation(image.affine), nibabel.orientations.axcodes2ornt(codes)
        )
        path = tmp_path / f"{codes}{ending}"
        nibabel.save(image.as_reoriented(turn), path)
        volume = data.Volume(str(path))
        np.testing.assert_array_equal(volume.read(), VOXELS, err_msg=codes)
        part = volume.read(((1, 2, 3), (3, 2, 4)))
        np.testing.assert_array_equal(part, VOXELS[1:4, 2:4, 3:7], err_msg=codes)
        assert volume.geometry.voxel_size_nm == pytest.approx((30, 5, 4)), codes
        assert volume.geometry.offset == FIRST_VOXEL[::-1], codes


def test_a_turned_file_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    affine = affine_ras() @ np.diag([-1, -1, 1, 1])
    data.Volume(save(tmp_path / "a.nii", VOXELS.T, affine))
    assert "its axes point to LPS; it is read as RAS" in capsys.readouterr().err


def test_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    affine = np.diag([4.0, 5.0, 30.0, 1.0])
    for unit, factor in (("mm", 1e6), ("micron", 1e3)):
        volume = data.Volume(save(tmp_path / f"{unit}.nii", VOXELS.T, affine, unit))
        assert volume.geometry.voxel_size_nm == pytest.approx((30 * factor, 5 * factor, 4 * factor))
    volume = data.Volume(save(tmp_path / "unknown.nii", VOXELS.T, affine, "unknown"))
    assert volume.geometry.voxel_size_nm is None
    assert "30 x 5 x 4 (z, y, x) without a unit" in capsys.readouterr().err


def test_without_an_affine_the_axes_are_x_y_z(tmp_path: Path) -> None:
    volume = data.Volume(save(tmp_path / "a.nii", VOXELS.T, None, "mm"))
    np.testing.assert_array_equal(volume.read(), VOXELS)
    assert volume.geometry.offset is None


def test_an_oblique_affine_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    affine = affine_ras()
    turn = np.deg2rad(20)
    affine[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]] @ affine[:2, :2]
    volume = data.Volume(save(tmp_path / "a.nii", VOXELS.T, affine))
    np.testing.assert_array_equal(volume.read(), VOXELS)
    assert volume.geometry.offset is None
    assert volume.geometry.voxel_size_nm == pytest.approx((30, 5, 4))
    assert "other angles than right ones" in capsys.readouterr().err


def test_scaled_values_are_those_that_the_file_means(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VOXELS.T.astype(np.float32) * 0.5 - 3, affine_ras())
    image.set_data_dtype(np.int16)
    nibabel.save(image, tmp_path / "a.nii")
    volume = data.Volume(str(tmp_path / "a.nii"))
    assert volume.dtype == np.float64
    np.testing.assert_allclose(volume.read(), VOXELS * 0.5 - 3, atol=0.01)


def test_large_ids_are_exact_or_refused(tmp_path: Path) -> None:
    ids = VOXELS.astype(np.uint64) + np.uint64(2**63 + 1)
    path = save(tmp_path / "a.nii", ids.T, affine_ras())
    np.testing.assert_array_equal(data.Volume(path).read(), ids)
    content = bytearray(Path(path).read_bytes())
    content[112:120] = np.array([2, 0], "<f4").tobytes()  # scl_slope and scl_inter
    Path(path).write_bytes(content)
    with pytest.raises(
        errors.InvalidFileError, match=r"a\.nii: holds integers above 2\^53, which scl_slope 2"
    ):
        data.Volume(path)


@pytest.mark.parametrize("type_", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("order", ["<", ">"])
def test_both_versions_and_byte_orders(tmp_path: Path, type_: Any, order: str) -> None:
    header = type_.header_class(endianness=order)
    image = type_(VOXELS.T.astype(f"{order}u2"), affine_ras(), header)
    image.set_data_dtype(np.uint16)
    nibabel.save(image, tmp_path / "a.nii")
    np.testing.assert_array_equal(data.Volume(str(tmp_path / "a.nii")).read(), VOXELS)


def test_other_axes_must_have_one_entry(tmp_path: Path) -> None:
    affine = affine_ras()
    one = data.Volume(save(tmp_path / "one.nii", VOXELS.T[..., None, None], affine))
    np.testing.assert_array_equal(one.read(), VOXELS)
    several = save(tmp_path / "two.nii", np.stack([VOXELS.T] * 2, axis=-1), affine)
    with pytest.raises(errors.InvalidFileError, match=r"has 4 axes, shape \(7, 6, 5, 2\)"):
        data.Volume(several)
    with pytest.raises(errors.InvalidFileError, match="has 2 axes"):
        data.Volume(save(tmp_path / "flat.nii", VOXELS.T[..., 0], affine))


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    whole = Path(save(tmp_path / "a.nii", VOXELS.T, affine_ras())).read_bytes()
    packed = Path(save(tmp_path / "a.nii.gz", VOXELS.T, affine_ras())).read_bytes()
    nowhere = bytearray(whole)
    nowhere[280:296] = np.full(4, np.nan, "<f4").tobytes()  # srow_x
    colours = np.zeros(VOXELS.T.shape, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    save(tmp_path / "rgb.nii", colours, affine_ras())
    for name, content in (
        ("cut.nii", whole[:-50]),
        ("head.nii", whole[:300]),
        ("empty.nii", b""),
        ("text.nii", b"no NIfTI file at all" * 40),
        ("cut.nii.gz", packed[:-30]),
        ("nowhere.nii", bytes(nowhere)),
        ("rgb.nii", (tmp_path / "rgb.nii").read_bytes()),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(errors.InvalidFileError, match=name):
            data.Volume(str(tmp_path / name)).read()


def test_nifti_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"b\.nii: .* does not write it"):
        data.convert(data.Volume(VOXELS), str(tmp_path / "b.nii"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_every_type_is_read(tmp_path: Path, dtype: str) -> None:
    voxels = VOXELS.astype(dtype)
    volume = data.Volume(save(tmp_path / "a.nii.gz", voxels.T, affine_ras()))
    assert volume.dtype == voxels.dtype
    np.testing.assert_array_equal(volume.read(), voxels)


def test_an_input_is_not_written_over(tmp_path: Path) -> None:
    path = save(tmp_path / "a.nii", VOXELS.T, affine_ras())
    with pytest.raises(errors.InvalidArgumentError, match="is also the input"):
        outputs.refuse_inputs("convert", [path], outputs.files_of([path]))


def test_inspect_of_a_nifti_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.nii.gz", VOXELS.T, affine_ras())
    assert cli.run(["inspect", path, "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()
