# SPDX-License-Identifier: Apache-2.0
"""What is refused in one line: outputs that exist, volumes that are none, damaged metadata."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import volumes

from floodtide import cli, data, errors
from floodtide.base.outputs import files_of, refuse_inputs

ARRAY = np.random.default_rng(1).integers(0, 250, (9, 70, 67)).astype(np.uint16)


def test_outputs_are_not_replaced_and_nothing_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = volumes.write(ARRAY, tmp_path, "a", "hdf5")
    for form in volumes.FORMS:
        if form != "hdf5":
            volumes.write(ARRAY, tmp_path, "a", form)
    capsys.readouterr()
    kept = sorted(path for path in tmp_path.rglob("*"))
    for form, name in volumes.FORMS.items():
        there = name.format(folder=tmp_path, name="a")
        assert cli.run(["convert", source, there]) == 2, form
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert there in error or f"{tmp_path}/a" in error
    for name in (
        f"{tmp_path}/absent/b.tif",
        f"{tmp_path}/a.zarr/inner/b",
        "b",
        f"{tmp_path}/*/b.png",
    ):
        assert cli.run(["convert", f"{tmp_path}/a.zarr/inner", name]) == 2, name
        assert capsys.readouterr().err.count("\n") == 1
    assert sorted(path for path in tmp_path.rglob("*")) == kept


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(volumes.Asked):
        def __getitem__(self, box: Any) -> Any:
            raise OSError("the disk is gone")

    for form in volumes.FORMS:
        there = volumes.FORMS[form].format(folder=tmp_path, name="a")
        read_only = "*" in there
        error = errors.InvalidArgumentError if read_only else errors.InvalidFileError
        with pytest.raises(error, match="does not write it" if read_only else "the disk is gone"):
            data.convert(data.Volume(Broken(ARRAY)), there)
    assert list(tmp_path.iterdir()) == []


def test_an_output_in_a_volume_that_is_read_is_refused(tmp_path: Path) -> None:
    labels = volumes.write(ARRAY, tmp_path, "labels", "zarr")
    out = f"{tmp_path}/labels.zarr/out.h5"
    with pytest.raises(errors.InvalidArgumentError, match="is in the input"):
        refuse_inputs("partition", [out], files_of([labels]))
    with pytest.raises(errors.InvalidArgumentError, match="is in the input"):
        data.partition(labels, f"{out}:af", lom_radius=(1, 1, 1))
    pattern = volumes.write(ARRAY, tmp_path, "labels", "tiffs")
    with pytest.raises(errors.InvalidArgumentError, match="is also the input"):
        refuse_inputs("partition", [f"{tmp_path}/labels-tiffs/00000.tif"], files_of([pattern]))


# Bad input


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros((2, 2)), r"has 2 axes, shape \(2, 2\); expected three \(z, y, x\)"),
        (volumes.Asked(np.zeros((2, 2))), r"has 2 axes, shape \(2, 2\)"),
        (np.zeros((2, 2, 2), complex), "elements are complex128"),
        (volumes.Asked(np.zeros((2, 2, 2), complex)), "elements are complex128"),
        (volumes.Asked(np.zeros((2, 2, 2), np.float16)), "elements are float16"),
        (np.zeros((2, 0, 2)), "has no voxels"),
        ([[[1]]], "expected the name of a volume, an array, or an object"),
        ("missing.zarr", "there is no such folder"),
        ("missing.n5/raw", "there is no such folder"),
        ("precomputed://missing", "missing/info: cannot be read"),
        ("missing.tif", r"^missing\.tif: no such file$"),
        ("missing.nii", r"^missing\.nii: no such file$"),
        ("missing/*.png", "no file has such a name"),
        ("missing.h5:raw", "no such file"),
        ("missing.h5", "for example missing.h5:raw; all forms: file.h5:dataset, precomputed:"),
        ("precomputed://gs://bucket/raw", "folders of this machine, without gs://"),
        ("a\0b.zarr", "expected file:dataset"),
    ],
)
def test_what_is_no_volume_is_refused_in_one_line(source: Any, message: str) -> None:
    with pytest.raises(errors.Error, match=message) as caught:
        data.Volume(source)
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)


def test_folders_say_which_name_is_meant(tmp_path: Path) -> None:
    for form in volumes.FORMS:
        volumes.write(ARRAY[:2], tmp_path, "a", form)
    for name, nearest in (
        ("a.zarr", "a.zarr/inner"),
        ("a.n5", "a.n5/inner"),
        ("a.precomputed", f"precomputed://{tmp_path}/a.precomputed"),
        ("a-tiffs", f"{tmp_path}/a-tiffs/*.tif"),
        ("a-pngs", f"{tmp_path}/a-pngs/*.png"),
    ):
        with pytest.raises(errors.Error) as caught:
            data.Volume(tmp_path / name)
        assert nearest in str(caught.value)
        if "inner" in nearest:  # a wrong name in a store lists the right ones
            for wrong in ("innre", "no/where"):
                with pytest.raises(errors.Error, match=f"there is no such folder; .*{nearest}$"):
                    data.Volume(tmp_path / name / wrong)
    with pytest.raises(errors.Error) as caught:
        data.Volume(min((tmp_path / "a-pngs").glob("*.png")))
    assert f"'{tmp_path}/a-pngs/*.png' for the pictures in its folder" in str(caught.value)


def test_damaged_metadata_is_one_line(tmp_path: Path) -> None:
    for form in ("zarr", "n5", "precomputed", "tiff"):
        volumes.write(ARRAY[:2], tmp_path, "a", form)
    for file in (
        "a.zarr/inner/zarr.json",
        "a.n5/inner/attributes.json",
        "a.precomputed/info",
        "a.tif",
    ):
        (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:40])
    for form in ("zarr", "n5", "precomputed", "tiff"):
        with pytest.raises(errors.InvalidFileError) as caught:
            data.Volume(volumes.FORMS[form].format(folder=tmp_path, name="a"))
        assert "\n" not in str(caught.value)
    os.mkfifo(tmp_path / "pipe.tif")
    with pytest.raises(errors.InvalidFileError, match="is no regular file"):
        data.Volume(tmp_path / "pipe.tif")


def test_pictures_must_be_alike(tmp_path: Path) -> None:
    pattern = volumes.write(ARRAY[:3], tmp_path, "a", "tiffs")
    volume = data.Volume(pattern)
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a-tiffs/00001.tif", np.zeros((5, 5), np.uint16))
    with pytest.raises(errors.InvalidFileError, match=r"00001.tif: is uint16 of shape \(5, 5\)"):
        volume.read()
    tifffile.imwrite(tmp_path / "rgb.tif", np.zeros((5, 6, 3), np.uint8), photometric="rgb")
    with pytest.raises(errors.InvalidFileError, match="pictures of one channel"):
        data.Volume(tmp_path / "rgb.tif")


def test_a_file_of_another_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.mrc").write_bytes(b"x")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"a copy of this file as .*: \.mrc is not"
    ):
        data.Volume(f"{tmp_path}/x.mrc")
