# SPDX-License-Identifier: Apache-2.0
"""Predictions in blocks equal those of one pass; `floodtide predict` end to end, and one line for wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from flat_unet import flat_unet

from floodtide import cli, data, nn
from floodtide.base.tasks import Affinities, Classes, Distance, ShapeDescriptors
from floodtide.errors import (
    InvalidArgumentError,
    InvalidFileError,
    NumericalError,
    OutOfRangeError,
    ShapeError,
)
from floodtide.segment import predict
from floodtide.segment.predict import Predictor

# Of float32's precision: sums over 9 to 27 taps x 16 to 64 channels in ten layers, whose order windows may change.
TOLERANCE = 100 * np.finfo(np.float32).eps

SLICES = flat_unet(classes=3, seed=1)
ANISOTROPIC = nn.UNetOptions(depth=2, kernels=((1, 3, 3), (3, 3, 3)), pools=((1, 2, 2),))
VOLUMES = nn.UNet(ANISOTROPIC, classes=3, output="sigmoid", seed=2)


@pytest.fixture(scope="module", autouse=True)
def lively() -> None:
    """Statistics, shifts and biases as after a training: outputs differ from voxel to voxel."""
    rng = np.random.default_rng(0)
    for model in (SLICES, VOLUMES):
        state = model.state_dict()
        for name, array in state.items():
            if name.endswith("variance"):
                array[:] = rng.uniform(0.5, 2.0, array.shape)
            elif not name.endswith(("weights", "scale")):
                array[:] = rng.normal(0.0, 0.3, array.shape)
        model.load_state_dict(state)


def noise(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)


def memory_for(model: nn.UNet, *window: int) -> float:
    """MiB in which a block of that size just fits."""
    return predict.bytes_per_voxel(model) * (np.prod([n + 2 for n in window]) + 1) / 2**20


@pytest.mark.parametrize(
    ("model", "shape", "window"),
    [(SLICES, (3, 45, 67), (1, 24, 28)), (VOLUMES, (19, 45, 37), (12, 24, 24))],
    ids=["slices", "volume"],
)
def test_blocks_give_what_one_pass_gives(
    model: nn.UNet, shape: tuple[int, int, int], window: tuple[int, int, int]
) -> None:
    image = noise(shape)
    normalised = (image.astype(np.float32) - 100.0) / 50.0
    whole = model.forward(normalised[None])[0]
    assert whole.std() > 0.05
    predictor = Predictor(model, mean=100.0, std=50.0, memory_mib=memory_for(model, *window))
    blocks = list(predictor.blocks(image))
    assert len(blocks) > 4
    counts = np.zeros(shape, int)
    for (start, size), kept in blocks:
        here = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        counts[here] += 1
        np.testing.assert_allclose(kept, whole[here], rtol=0, atol=TOLERANCE)
    assert (counts == 1).all()
    box = ((1, 5, 6), (2, 31, 22))
    inside = predictor.probabilities(image, box)
    assert inside.shape == (3, 2, 31, 22)
    expected = np.moveaxis(whole[1:3, 5:36, 6:28], -1, 0)
    np.testing.assert_allclose(inside, expected, rtol=0, atol=TOLERANCE)


def test_the_memory_of_a_block_is_what_the_network_plans() -> None:
    for model, shape in ((SLICES, (16, 64, 64)), (VOLUMES, (32, 64, 64))):
        model.forward(np.zeros((1, *shape), np.float32))
        planned = model.core.workspace_bytes() / np.prod([n + 2 for n in shape])
        assert 0.9 < predict.bytes_per_voxel(model) / planned < 1.2  # it counts arrays outside, too
    one, many = (predict.bytes_per_voxel(flat_unet(1, in_channels=n)) for n in (1, 32))
    assert many - one >= 4 * 3 * 31  # each channel, its normalised copy, and that of the batch


def test_progress_counts_voxels() -> None:
    image = noise((2, 20, 20))
    predictor = Predictor(SLICES, mean=100.0, std=50.0)
    calls: list[tuple[int, int]] = []
    predictor.probabilities(image, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (800, 800)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="model is FFN"):
        Predictor(nn.FFN(depth=2, features=4), mean=0.0, std=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="std is 0"):
        Predictor(SLICES, mean=0.0, std=0.0)
    two = Predictor(flat_unet(1, in_channels=2), mean=0.0, std=1.0)
    with pytest.raises(
        InvalidArgumentError, match=r"1 image\(s\), expected 2: one for each channel"
    ):
        two.probabilities(noise((2, 20, 20)))
    with pytest.raises(ShapeError, match=r"channels of shapes \(2, 20, 20\) and \(2, 20, 21\)"):
        two.probabilities([noise((2, 20, 20)), noise((2, 20, 21))])
    with pytest.raises(InvalidArgumentError, match="has 3 outputs, and its task 'distance' has"):
        Predictor(SLICES, mean=0.0, std=1.0, task=Distance())
    predictor = Predictor(SLICES, mean=0.0, std=1.0)
    with pytest.raises(InvalidFileError, match=r"expected three \(z, y, x\)"):
        predictor.probabilities(noise((20, 20)))
    with pytest.raises(OutOfRangeError, match="is not inside"):
        predictor.probabilities(noise((2, 20, 20)), ((1, 0, 0), (2, 20, 20)))
    with pytest.raises(InvalidArgumentError, match="expected more memory"):
        Predictor(SLICES, mean=0.0, std=1.0, memory_mib=0.01).probabilities(noise((2, 64, 64)))


def test_an_output_that_is_no_number_is_an_error() -> None:
    broken = flat_unet(1)
    state = broken.state_dict()
    for values in state.values():
        values[...] = 3e38  # finite; sums overflow
    broken.load_state_dict(state)
    with pytest.raises(NumericalError, match="not a number"):
        Predictor(broken, mean=0.0, std=1.0).probabilities(noise((1, 8, 8)))


def save_with_configuration(model: nn.UNet, path: Path, text: str) -> None:
    model.save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["configuration"] = text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images, a run of slices with two checkpoints, a checkpoint of volumes and one without configuration."""
    raw = noise((4, 45, 40))
    data.write_volume(tmp_path / "image.h5", {"raw": raw, "flat": raw[0]})
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    volume = f'[[data.volumes]]\nimage = "{tmp_path}/image.h5:raw"\nmean = 100.0\nstd = 50.0\n'
    table = (
        'classes = { 0 = "background", 100 = "vesicle", 101 = "vesicle", 255 = "mitochondria" }\n'
    )
    kind = f'[task]\nkind = "classes"\n{table}[model]\nkind = "unet"\n'
    slices = f"{kind}{volume}[augmentation]\nreflectable_axes = []\n"
    save_with_configuration(flat_unet(classes=3), checkpoints / "step-9.h5", slices)
    save_with_configuration(SLICES, checkpoints / "step-10.h5", slices)
    volumes = "".join(
        f'[[data.volumes]]\nname = "{n}"\nimage = "{tmp_path}/{n}.h5:raw"\nmean = {mean}\nstd = 50.0\n'
        for n, mean in (("image", 100.0), ("other", 90.0))
    )
    save_with_configuration(
        VOLUMES,
        tmp_path / "volumes.h5",
        volumes + '[task]\nkind = "affinities"\n[model]\nkind = "unet"\n',
    )
    SLICES.save(tmp_path / "bare.h5")
    nn.FFN(depth=2, features=4).save(tmp_path / "ffn.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    return tmp_path


def run(folder: Path, model: str, image: str, *more: str, out: str = "out.h5:labels") -> int:
    return cli.run(
        [
            "predict",
            str(folder / model),
            f"{folder}/{image}",
            f"{folder}/{out}",
            *more,
        ]
    )


def test_a_run_directory_predicts_classes_with_its_newest_checkpoint(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(folder, "run", "image.h5:raw", "--probabilities", "--box", "1:4,3:40,0:33", "--json")
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["checkpoint"].endswith("step-10.h5")
    assert (report["mean"], report["std"]) == ([100.0], [50.0])
    predictor = Predictor(SLICES, mean=100.0, std=50.0)
    box = ((1, 3, 0), (3, 37, 33))
    volume = data.Volume(f"{folder}/image.h5:raw")
    with h5py.File(folder / "out.h5") as file:
        likely = predictor.probabilities(volume, box).argmax(axis=0)
        np.testing.assert_array_equal(file["labels"][()], np.array([0, 100, 255])[likely])
        assert file["labels"].dtype == np.uint8
        written = file["labels_probabilities"][()]
        np.testing.assert_array_equal(written, predictor.probabilities(volume, box))
        attributes = dict(file["labels"].attrs)
    table = {"0": "background", "100": "vesicle", "101": "vesicle", "255": "mitochondria"}
    assert json.loads(attributes["classes"]) == table
    assert attributes["box_start"].tolist() == [1, 3, 0]
    assert attributes["volume_shape"].tolist() == [4, 45, 40]
    for key, value in (("image", volume.name), ("mean", "[100.0]"), ("network", repr(SLICES))):
        found = attributes[key]
        assert (found.decode() if isinstance(found, bytes) else found) == value
    assert [path.name for path in folder.glob("out*")] == ["out.h5"]


def test_affinities_are_written_in_blocks_under_the_field_s_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults: Any = Predictor.__init__.__wrapped__.__kwdefaults__  # type: ignore[attr-defined]
    monkeypatch.setitem(defaults, "memory_mib", memory_for(VOLUMES, 4, 24, 24))
    with h5py.File(folder / "image.h5", "r+") as file:
        file["raw"].attrs["resolution"] = [40.0, 8.0, 8.0]
    assert run(folder, "volumes.h5", "image.h5:raw", out="out.h5:a/b") == 0
    whole = Predictor(VOLUMES, mean=100.0, std=50.0, memory_mib=2048)
    with h5py.File(folder / "out.h5") as file:
        assert file["a/b"].dtype == np.float32
        assert file["a/b"].attrs["resolution"].tolist() == [40.0, 8.0, 8.0]
        expected = whole.probabilities(data.Volume(f"{folder}/image.h5:raw"))
        np.testing.assert_allclose(file["a/b"][()], expected, rtol=0, atol=TOLERANCE)


def test_the_command_mirrors_the_axes_that_training_reflected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"mean": 100.0, "std": 50.0, "mirror": (0, 1, 2)}
    expected = Predictor(VOLUMES, **settings, task=Affinities()).probabilities(noise((4, 45, 40)))
    assert run(folder, "volumes.h5", "image.h5:raw", "--mirror", out="out.h5:a") == 0
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_allclose(file["a"][()], expected, rtol=0, atol=TOLERANCE)
        assert file["a"].attrs["mirror"] == "[0, 1, 2]"
    capsys.readouterr()
    assert run(folder, "run", "image.h5:raw", "--mirror") == 2
    assert "training reflected no axes" in capsys.readouterr().err


def test_of_lsd_only_the_affinities_are_kept(tmp_path: Path) -> None:
    task = ShapeDescriptors(offsets=((-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, -4)))
    model = nn.UNet(ANISOTROPIC, classes=14, output=task.output, seed=3)
    predictor = Predictor(model, mean=100.0, std=50.0, task=task)
    image = noise((4, 20, 24))
    whole = model.forward(((image - np.float32(100)) / np.float32(50))[None])[0]
    found = predictor.probabilities(image)
    np.testing.assert_allclose(found, np.moveaxis(whole[..., :4], -1, 0), atol=TOLERANCE)
    predictor.write(data.Volume(image, name="image"), f"{tmp_path}/out.h5:a")
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_array_equal(file["a"][()], found)
        assert json.loads(file["a"].attrs["offsets"]) == [list(offset) for offset in task.offsets]


def test_channels_are_normalised_each_and_read_in_their_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = flat_unet(in_channels=2, seed=5)
    second = noise((4, 45, 40))[::-1].copy()
    data.write_volume(folder / "second.h5", {"raw": second})
    text = (
        '[task]\nkind = "classes"\nclasses = { 3 = "none", 9 = "object" }\n[model]\nkind = "unet"\n'
        f'[[data.volumes]]\nimage = "{folder}/image.h5:raw"\nmean = 100.0\nstd = 50.0\n'
        f'channels = [{{ image = "{folder}/second.h5:raw", mean = 30.0, std = 90.0 }}]\n'
    )
    save_with_configuration(model, folder / "two.h5", text)
    images = [(noise((4, 45, 40)) - np.float32(100)) / 50, (second - np.float32(30)) / 90]
    expected = model.forward(np.stack(images, -1).astype(np.float32)[None])[0].argmax(-1)
    channel = ("--channel", f"{folder}/second.h5:raw")
    assert run(folder, "two.h5", "image.h5:raw", *channel, "--json") == 0
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert (report["mean"], report["std"]) == ([100.0, 30.0], [50.0, 90.0])
    assert "second.h5:raw" in shown.err  # 126 +- 74
    assert "set data.volumes.channels.0.mean and std of the training to" in shown.err
    with h5py.File(folder / "out.h5") as file:
        found = file["labels"][()]
    assert set(np.unique(found)) <= {3, 9}
    assert (found == np.array([3, 9])[expected]).mean() > 0.999


@pytest.mark.parametrize(
    ("values", "dtype"),
    [((0, 255), "uint8"), ((0, 256), "uint16"), ((-1, 255), "int16"), ((0, 2**40), "uint64")],
)
def test_values_of_classes_have_the_smallest_type(
    tmp_path: Path, values: tuple[int, int], dtype: str
) -> None:
    task = Classes(classes=dict(zip(values, "ab", strict=True)))
    predictor = Predictor(flat_unet(), mean=100.0, std=50.0, task=task)
    predictor.write(data.Volume(noise((1, 16, 16)), name="image"), f"{tmp_path}/out.h5:a")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["a"].dtype == dtype
        assert set(np.unique(file["a"][()])) <= set(values)


def test_the_command_line_normalises_where_the_checkpoint_does_not_say_how(folder: Path) -> None:
    assert run(folder, "bare.h5", "image.h5:raw", "--mean", "100", "--std", "50") == 0
    with h5py.File(folder / "out.h5") as file:
        predictor = Predictor(SLICES, mean=100.0, std=50.0)
        assert (
            file["labels"][()] == predictor.probabilities(noise((4, 45, 40))).argmax(axis=0)
        ).all()


@pytest.mark.parametrize(
    ("model", "image", "more", "words"),
    [
        ("bare.h5", "image.h5:raw", ["--mean", "1"], "expected --mean and --std"),
        ("ffn.h5", "image.h5:raw", [], "expected a U-Net"),
        ("absent", "image.h5:raw", [], "neither a checkpoint nor a run directory"),
        ("text.h5", "image.h5:raw", [], "text.h5"),
        ("run", "absent.h5:raw", [], "absent.h5"),
        ("run", "image.h5:flat", [], "expected three (z, y, x)"),
        ("run", "image.h5:raw", ["--box", "0:5,0:1,0:1"], "is not inside"),
        ("run", "image.h5:raw", ["--std", "0"], "'0', expected 1e-30 to"),
        ("volumes.h5", "image.h5:raw", ["--probabilities"], "outputs are the probabilities"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_no_file(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    model: str,
    image: str,
    more: list[str],
    words: str,
) -> None:
    assert run(folder, model, image, *more) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("floodtide predict: ")
    assert words in lines[0]
    assert not list(folder.glob("out.h5*"))


def test_an_output_that_cannot_be_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "run", "image.h5:raw", out="absent/out.h5:labels") == 2
    assert "has no folder, expected a folder that exists" in capsys.readouterr().err
    before = (folder / "image.h5").read_bytes()
    assert run(folder, "run", "image.h5:raw", out="image.h5:labels") == 2
    assert "expected another one" in capsys.readouterr().err
    assert (folder / "image.h5").read_bytes() == before
