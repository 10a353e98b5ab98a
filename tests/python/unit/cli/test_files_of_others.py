# SPDX-License-Identifier: Apache-2.0
"""Every command that takes a volume refuses a file that it cannot read, or two that do not fit, in one line.

The matrix: command and argument x file of another program. Each refusal has status 2, one line, and no traceback.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

pytest.importorskip("zarr", "3", reason="zarr 3 needs Python 3.11")

import tifffile
from flat_unet import flat_unet
from other_programs import ARRAY, hdf5, precomputed, zarr_array

from floodtide import cli, data, errors, nn
from floodtide.base import notes
from floodtide.base.tasks import Classes
from floodtide.data.look.trained_on import FIB25, to_text

LABELS = (np.indices((24, 24, 24)) // 8).sum(0).astype(np.uint32) + 1
IMAGE = np.random.default_rng(0).integers(60, 200, LABELS.shape).astype(np.uint8)
SIZE = {"resolution": (10.0, 10.0, 10.0)}


def stored(path: Path, array: Any, **attributes: Any) -> str:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array).attrs.update(attributes)
    return f"{path}:x"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image, its labels, affinities, networks and a configuration that fit each other."""
    made = tmp_path_factory.mktemp("fitting")
    image, labels = stored(made / "i.h5", IMAGE, **SIZE), stored(made / "l.h5", LABELS, **SIZE)
    stored(made / "f.h5", np.full((3, 24, 24, 24), 0.5, np.float32))
    # The image is noise, which nothing should say here.
    trained = to_text([dataclasses.replace(FIB25, detail=(None, None, None), skewness=())])
    nn.FFN(depth=1, features=2, fov=(5, 5, 5), deltas=(1, 1, 1)).save(
        made / "ffn.h5", statistics=trained
    )
    options = nn.UNetOptions(depth=2, pools=((1, 2, 2),), kernels=((1, 3, 3), (3, 3, 3)))
    nn.UNet(options, classes=3, output="sigmoid").save(made / "unet.h5", statistics=trained)
    (made / "c.toml").write_text(
        f'[[data.volumes]]\nname = "v"\nimage = "{image}"\nlabels = "{labels}"\n'
        f'[segment]\ncheckpoint = "{made}/ffn.h5"\nimage = "{image}"\nmean = 128\nstd = 33\n'
    )
    data.convert(labels, f"precomputed://{made}/p")
    return made


BAD: dict[str, Callable[[Path], str]] = {
    "absent": lambda folder: f"{folder}/absent.zarr",
    "cut-off": lambda folder: cut_off(folder),
    "float16": hdf5(array=ARRAY.astype("f2")),
    "channels": precomputed(channels=3),
    "codec": lambda folder: codec(folder),
    "no-hdf5": lambda folder: no_hdf5(folder),
    "nrrd": lambda folder: f"{folder}/a.nrrd",
}
"""Files that no command reads."""


def cut_off(folder: Path) -> str:
    tifffile.imwrite(folder / "v.tif", ARRAY, photometric="minisblack", compression="zlib")
    (folder / "v.tif").write_bytes((folder / "v.tif").read_bytes()[:60])
    return f"{folder}/v.tif"


def codec(folder: Path) -> str:
    name = zarr_array(version=2)(folder)
    path = Path(name, ".zarray")
    path.write_text(json.dumps({**json.loads(path.read_text()), "compressor": {"id": "lzma"}}))
    return name


def no_hdf5(folder: Path) -> str:
    (folder / "v.h5").write_bytes(b"no HDF5 file" * 100)
    return f"{folder}/v.h5:raw"


COMMANDS = {
    "convert": "{bad} {out}/o.zarr",
    "convert-resampled": "{bad} {out}/o.zarr --voxel-nm 8,8,8 --resample-nm 16,16,16",
    "evaluate-segmentation": "{bad} {labels}",
    "evaluate-truth": "{labels} {bad}",
    "evaluate-image": "{labels} {labels} --image {bad}",
    "lab compare-segmentation": "{bad} {labels}",
    "lab compare-reference": "{labels} {bad}",
    "inspect-image": "{bad} --out {out}/o.html",
    "inspect-labels": "{image} --labels {bad} --out {out}/o.html",
    "init-image": "{bad} --labels {labels} --voxel-nm 10,10,10 --out {out}/o.toml",
    "init-labels": "{image} --labels {bad} --out {out}/o.toml",
    "partition": "{bad} {out}/o.h5:x",
    "predict": "{folder}/unet.h5 {bad} {out}/o.h5:x --mean 128 --std 33",
    "segment-model": "{bad} --model {folder}/ffn.h5 --voxel-nm 10,10,10 --out {out}/o.h5:x",
    "segment-image": "{folder}/c.toml --out {out}/o.h5:x --set segment.image={bad}",
    "segment-mask": "{folder}/c.toml --out {out}/o.h5:x --set segment.masks=[{{volume='{bad}'}}]",
    "segment-initial": "{folder}/c.toml --out {out}/o.h5:x --set segment.initial={bad}",
    "agglomerate-pairs": "{folder}/c.toml {bad} --pairs {out}/pairs",
    "train-image": "{folder}/c.toml --set run.dir={out}/r --set data.volumes.0.image={bad}",
    "train-labels": "{folder}/c.toml --set run.dir={out}/r --set data.volumes.0.labels={bad}",
    "view": "{bad}",
    "view-truth": "{labels} --truth {bad}",
    "view-image": "{labels} --image {bad}",
    "agglomerate": "{bad} {out}/o.h5:x --offsets [[-1,0,0],[0,-1,0],[0,0,-1]]",
    "mesh": "{bad}",
}
"""Commands with a place for a file that cannot be read."""


def refused(
    command: str, words: dict[str, Any], capsys: pytest.CaptureFixture[str], line: str = ""
) -> str:
    """Return the only line that a command prints which is refused."""
    name = command.partition("-")[0]
    arguments = [one.format(**words) for one in (line or COMMANDS[command]).split()]
    status = cli.run([*name.split(), *arguments])
    said = capsys.readouterr().err
    assert status == 2, said
    assert said.count("\n") == 1, said
    assert said.startswith(f"floodtide {name.split()[0]}: "), said
    assert "Traceback" not in said
    return said


def words_of(folder: Path, out: Path) -> dict[str, Any]:
    fitting = {"image": f"{folder}/i.h5:x", "labels": f"{folder}/l.h5:x"}
    return {"folder": folder, "out": out, **fitting}


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `view` end where it would serve volumes."""

    def served(*_: Any, **__: Any) -> None:
        raise AssertionError("the volumes are served")

    monkeypatch.setattr("floodtide.view.viewer.serve", served)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The names of the files that cannot be read."""
    return {bad: make(tmp_path_factory.mktemp(bad)) for bad, make in BAD.items()}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_read_is_refused(
    command: str,
    bad: str,
    folder: Path,
    bad_files: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notes._shown.clear()
    name = bad_files[bad]
    said = refused(command, words_of(folder, tmp_path) | {"bad": name}, capsys)
    assert name.removeprefix("precomputed://").partition(":")[0] in said
    written = (".h5", ".zarr", ".html", ".toml")
    assert not [path for path in tmp_path.rglob("*") if path.suffix in written]


OTHER = {
    "evaluate": "{labels} {other}",
    "evaluate-image": "{labels} {labels} --image {other}",
    "lab compare": "{labels} {other}",
    "inspect": "{image} --labels {other} --out {out}/o.html",
    "init": "{image} --labels {other} --out {out}/o.toml",
    "train": "{folder}/c.toml --set run.dir={out}/r --set data.volumes.0.labels={other}",
    "segment-mask": "{folder}/c.toml --out {out}/o.h5:x --set segment.masks=[{{volume='{other}'}}]",
    "segment-initial": "{folder}/c.toml --out {out}/o.h5:x --set segment.initial={other}",
    "agglomerate-pairs": "{folder}/c.toml {other} --pairs {out}/pairs",
    "view": "{labels} --truth {other}",
    "view-image": "{labels} --image {other}",
}
"""Commands with a place for a volume that fits another one."""


@pytest.mark.parametrize("command", OTHER)
def test_volumes_of_other_voxels_are_refused(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = IMAGE if command.endswith("image") else LABELS
    other = stored(tmp_path / "other.h5", array, resolution=(20.0, 10.0, 10.0))
    said = refused(command, words_of(folder, tmp_path) | {"other": other}, capsys, OTHER[command])
    assert "20 x 10 x 10 nm" in said
    assert "10 x 10 x 10 nm" in said


LABELLED = {
    "evaluate": "{bad} {labels}",
    "evaluate-truth": "{labels} {bad}",
    "inspect": "{image} --labels {bad} --out {out}/o.html",
    "init": "{image} --labels {bad} --out {out}/o.toml",
    "partition": "{bad} {out}/o.h5:x --lom-radius 2,2,2",
    "train": "{folder}/c.toml --set run.dir={out}/r --set data.volumes.0.labels={bad}",
    "segment-initial": "{folder}/c.toml --out {out}/o.h5:x --set segment.initial={bad}",
    "agglomerate-pairs": "{folder}/c.toml {bad} --pairs {out}/pairs",
    "view": "{image} --truth {bad}",
    "convert": "{bad} {out}/o.zarr --resample-nm 20,20,20 --labels",
}
"""Commands with a place for labels."""


@pytest.mark.parametrize("command", LABELLED)
def test_labels_that_are_floats_are_refused(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = stored(
        tmp_path / "floats.h5", (LABELS + 2**24).astype(np.float32), **SIZE
    )  # which loses bits
    said = refused(command, words_of(folder, tmp_path) | {"bad": bad}, capsys, LABELLED[command])
    assert "float32" in said


@pytest.mark.parametrize(
    ("dtype", "first"), [("u8", 2**63), ("i8", 2**62), ("u4", 2**31), ("i2", 0)]
)
def test_labels_of_every_integer_type_are_the_same(
    dtype: str, first: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = stored(tmp_path / "o.h5", LABELS.astype(dtype) + np.array(first, dtype), **SIZE)
    assert cli.run(["evaluate", labels, f"{folder}/l.h5:x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapted_rand_error"] == 0
    made = []
    for name in (labels, f"{folder}/l.h5:x"):
        out = f"{tmp_path}/p{len(made)}.h5:x"
        assert cli.run(["partition", name, out, "--lom-radius", "2,2,2", "--min-size", "1"]) == 0
        made.append(data.Volume(out).read())
    np.testing.assert_array_equal(*made)


RUNS = {
    "predict": "{folder}/unet.h5 {other} {out}/o.h5:x --mean 128 --std 33",
    "segment": "{folder}/c.toml --out {out}/o.h5:x --set segment.image={other}",
    "segment-model": "{other} --model {folder}/ffn.h5 --out {out}/o.h5:x",
    "agglomerate-pairs": "{folder}/c.toml {labels} --pairs {out}/pairs --set segment.image={other}",
    "inspect": "{folder}/c.toml --set segment.image={other} --set data.volumes=[]",
}
"""Commands that run a network of voxels of 10 nm."""


@pytest.mark.parametrize("command", RUNS)
def test_a_network_of_other_voxels_is_refused(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = stored(tmp_path / "other.h5", IMAGE, resolution=(20.0, 10.0, 10.0))
    words = words_of(folder, tmp_path) | {"other": other}
    if command == "inspect":
        arguments = [one.format(**words) for one in RUNS[command].split()]
        assert cli.run(["inspect", *arguments]) == 2
        said = capsys.readouterr().out
    else:
        said = refused(command, words, capsys, RUNS[command])
    command = f"floodtide convert {other} resampled.zarr --voxel-nm 20,10,10 --resample-nm 10,10,10"
    assert f"resample it first with `{command}`" in said


def test_a_network_for_slices_of_other_pixels_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat_unet().save(tmp_path / "u.h5", statistics=to_text([FIB25]))
    for size, status in (((50.0, 10.0, 10.0), 0), ((10.0, 20.0, 10.0), 2)):
        image = stored(tmp_path / "s.h5", IMAGE, resolution=size)
        words = [
            "predict",
            f"{tmp_path}/u.h5",
            image,
            f"{tmp_path}/p{status}.h5:x",
            "--mean",
            "128",
        ]
        assert cli.run([*words, "--std", "33"]) == status
    said = capsys.readouterr().err
    assert "--voxel-nm 10,20,10 --resample-nm 10,10,10" in said
    assert cli.run([*words, "--std", "33", "--voxel-nm", "10,10,10"]) == 0


def test_masks_of_other_pixels_are_refused(tmp_path: Path) -> None:
    images = stored(tmp_path / "i.h5", IMAGE, resolution=(1.0, 10.0, 10.0))
    masks = stored(tmp_path / "m.h5", LABELS % 2, resolution=(1.0, 20.0, 20.0))
    volume = data.TrainingVolume(images, masks)
    with pytest.raises(errors.ShapeError, match="1 x 20 x 20 nm"):
        data.Patches(volume, data.DataOptions(patch="whole"), task=Classes())


def test_a_stated_voxel_size_replaces_that_of_the_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = stored(tmp_path / "o.h5", IMAGE, resolution=(20.0, 10.0, 10.0))
    words = ["predict", f"{folder}/unet.h5", other, f"{tmp_path}/p.h5:x", "--mean", "128"]
    words += ["--std", "33", "--box", "0:8,0:8,0:8"]
    assert cli.run([*words, "--voxel-nm", "10,10,10"]) == 0
    assert "and the prediction states 10 x 10 x 10 nm" in capsys.readouterr().err
    with h5py.File(tmp_path / "p.h5") as file:
        assert file["x"].attrs["resolution"].tolist() == [10, 10, 10]
    near = stored(tmp_path / "n.h5", IMAGE, resolution=(11.0, 10.0, 10.0))
    words[2:4] = [near, f"{tmp_path}/q.h5:x"]
    assert cli.run(words) == 0
    text = (folder / "c.toml").read_text().replace(f"{folder}/i.h5:x", other)
    text = text.replace(f'image = "{other}"\nmean', 'image = "v"\nmean')
    stated = text.replace('name = "v"\n', 'name = "v"\nvoxel_size_nm = [10, 10, 10]\n')
    segment = [
        "segment",
        f"{tmp_path}/c.toml",
        "--out",
        f"{tmp_path}/s.h5:x",
        "--box",
        "0:12,0:12,0:12",
    ]
    for toml, status in ((text, 2), (stated, 0)):
        (tmp_path / "c.toml").write_text(toml)
        assert cli.run(segment) == status
    assert "and the configuration states 10 x 10 x 10 nm" in capsys.readouterr().err
