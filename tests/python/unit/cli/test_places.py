# SPDX-License-Identifier: Apache-2.0
"""Every result has the voxel size of its image, and lies where the image lies, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

pytest.importorskip("tensorstore")

from floodtide import cli, data, nn

LABELS = (np.indices((24, 24, 24)) // 8).sum(0).astype(np.uint32) + 1
CREMI = {"resolution": (10.0, 10.0, 10.0), "offset": (100.0, 0.0, 50.0)}
NEAREST = "[[-1,0,0],[0,-1,0],[0,0,-1]]"


def stored(path: Path, array: Any, **attributes: Any) -> str:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array).attrs.update(attributes)
    return f"{path}:x"


@pytest.fixture
def image(tmp_path: Path) -> str:
    """An image that begins at voxel (10, 0, 5)."""
    grey = np.random.default_rng(0).integers(60, 200, LABELS.shape).astype(np.uint8)
    return stored(tmp_path / "i.h5", grey, **CREMI)


def run(*words: Any) -> None:
    assert cli.run([str(word) for word in words]) == 0


def lies_at(name: str, first: tuple[int, int, int], edge: float = 10) -> None:
    """Check place and voxel size of a volume by a copy, which names no image."""
    volume = data.Volume(name)
    assert volume.whole.offset == first
    copy = name.partition(".")[0] + "-copy.n5"
    assert data.convert(name, copy).geometry.offset == first
    assert data.Volume(copy).geometry.voxel_size_nm == (edge,) * 3


@pytest.mark.parametrize("out", ["o.h5:x", "o.zarr"])
def test_copies_of_a_result_lie_where_its_image_lies(image: str, out: str, tmp_path: Path) -> None:
    result = stored(tmp_path / "r.h5", LABELS[4:], image=image, box_start=[4, 0, 0])
    run("convert", result, tmp_path / out)
    lies_at(f"{tmp_path}/{out}", (14, 0, 5))
    run("convert", result, tmp_path / f"r{out}", "--resample-nm", "20,20,20", "--labels")
    lies_at(f"{tmp_path}/r{out}", (7, 0, 3), 20)


@pytest.mark.parametrize("out", ["o.h5:x", "o.zarr"])
def test_segments_of_affinities_lie_where_the_image_lies(
    image: str, out: str, tmp_path: Path
) -> None:
    pytest.importorskip("waterz")
    values = np.full((3, 24, 24, 24), 0.9, np.float32)
    affinities = stored(tmp_path / "a.h5", values, image=image, offsets=NEAREST)
    run("agglomerate", affinities, tmp_path / out)
    lies_at(f"{tmp_path}/{out}", (10, 0, 5))
    run("agglomerate", affinities, tmp_path / "pieces", "--subvolume", "40,40,40")
    run("reconcile", tmp_path / "pieces", tmp_path / f"r{out}")
    lies_at(f"{tmp_path}/r{out}", (10, 0, 5))


@pytest.mark.parametrize("out", ["o.h5:x", "o.zarr"])
def test_a_reconciled_segmentation_lies_where_the_image_lies(
    image: str, out: str, tmp_path: Path
) -> None:
    nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1)).save(tmp_path / "ffn.h5")
    (tmp_path / "c.toml").write_text(
        f'[segment]\ncheckpoint = "{tmp_path}/ffn.h5"\nimage = "{image}"\nmean = 128\nstd = 33\n'
        "subvolume = [16, 16, 16]\n"
    )
    run("segment", tmp_path / "c.toml", "--out", tmp_path / "pieces")
    run("reconcile", tmp_path / "pieces", tmp_path / out)
    lies_at(f"{tmp_path}/{out}", (10, 0, 5))
    result = stored(tmp_path / "r.h5", LABELS, image=image, box_start=[0, 0, 0])
    run("agglomerate", tmp_path / "c.toml", result, tmp_path / f"m{out}")
    lies_at(f"{tmp_path}/m{out}", (10, 0, 5))


def test_a_result_has_the_voxels_of_its_image(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = stored(tmp_path / "r.h5", LABELS, image=image)
    other = stored(tmp_path / "t.h5", LABELS, resolution=(20.0, 10.0, 10.0))
    assert cli.run(["evaluate", result, other]) == 2
    assert "10 x 10 x 10 nm (attribute resolution of its image" in capsys.readouterr().err


def test_a_segmentation_states_the_voxel_size_of_the_configuration(tmp_path: Path) -> None:
    network = nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1))
    network.save(tmp_path / "ffn.h5")
    grey = np.random.default_rng(0).integers(60, 200, (8, 8, 8)).astype(np.uint8)
    image = stored(tmp_path / "i.h5", grey, resolution=(20.0,) * 3)
    (tmp_path / "c.toml").write_text(
        f'[[data.volumes]]\nname = "v"\nimage = "{image}"\nvoxel_size_nm = [40, 4, 4]\n'
        f'[segment]\ncheckpoint = "{tmp_path}/ffn.h5"\nimage = "v"\nmean = 128\nstd = 33\n'
    )
    run("segment", tmp_path / "c.toml", "--out", tmp_path / "o.h5:x")
    assert data.Volume(f"{tmp_path}/o.h5:x").geometry.voxel_size_nm == (40, 4, 4)


def test_labels_of_few_bits_become_a_segmentation_for_neuroglancer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = LABELS.astype(np.uint8)
    ours = stored(tmp_path / "s.h5", small, written_by="floodtide segment")
    for name, more in ((ours, ()), (stored(tmp_path / "o.h5", small), ("--labels",))):
        copy = f"precomputed://{name.partition('.')[0]}"
        run("convert", name, copy, "--voxel-nm", "8,8,8", *more)
        info = json.loads(Path(copy.removeprefix("precomputed://"), "info").read_text())
        assert (info["type"], info["data_type"]) == ("segmentation", "uint8")
        np.testing.assert_array_equal(data.Volume(copy).read(), small)
    run("convert", f"{tmp_path}/o.h5:x", f"precomputed://{tmp_path}/image", "--voxel-nm", "8,8,8")
    assert cli.run(["mesh", f"precomputed://{tmp_path}/image"]) == 2
    assert "`floodtide convert --labels` writes one" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["h5:x", "zarr"])
def test_masks_and_segmentations_lie_where_they_state(
    image: str, format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1)).save(tmp_path / "ffn.h5")
    (tmp_path / "c.toml").write_text(
        f'[segment]\ncheckpoint = "{tmp_path}/ffn.h5"\nimage = "{image}"\nmean = 128\nstd = 33\n'
    )
    # The image is the part of a brain that begins at voxel (10, 0, 5).
    brain = np.zeros((40, 40, 40), np.uint8)
    brain[10:34, 0:24, 5:29] = LABELS
    whole = stored(tmp_path / "b.h5", brain, resolution=(10.0,) * 3, offset=(0.0, 0.0, 0.0))
    moved = stored(tmp_path / "m.h5", LABELS, resolution=(10.0,) * 3, offset=(0.0, 0.0, 0.0))
    for number, (name, status) in enumerate(((whole, 0), (moved, 2))):
        if format == "zarr":
            data.convert(name, f"{tmp_path}/{number}.zarr")
            name = f"{tmp_path}/{number}.zarr"
        out = f"{tmp_path}/o{number}.h5:x"
        words = ["segment", f"{tmp_path}/c.toml", "--out", out, "--box", "12:24,0:12,0:12"]
        assert cli.run([*words, "--set", f"segment.initial={name}"]) == status
        if status == 0:
            np.testing.assert_array_equal(data.Volume(out).read(), LABELS[12:, :12, :12])
    assert "has (24, 24, 24) voxels from (-10, 0, -5), expected one that" in capsys.readouterr().err
