# SPDX-License-Identifier: Apache-2.0
"""What checkpoints say about the images of their run, and which file a run directory stands for."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
import tomli_w
import tomllib
from fuzz.tensorflow_files import write_bundle

from floodtide import cli, config, nn
from floodtide.base.tasks import TASKS
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.segment import trained

UNET = '[task]\nkind = "classes"\n[model]\nkind = "unet"\n'
NETWORK = nn.FFN(depth=1, fov=(5, 5, 5), deltas=(1, 1, 1), features=2)


def checkpoint(folder: Path, volumes: dict[str, tuple[float, float]]) -> Path:
    """A checkpoint whose configuration has volumes with these names, means and standard deviations."""
    tables = [
        {"name": name, "image": f"{folder}/{name}.h5:raw", "mean": mean, "std": std}
        for name, (mean, std) in volumes.items()
    ]
    return with_configuration(folder / "network.h5", tomli_w.dumps({"data": {"volumes": tables}}))


def with_configuration(path: Path, text: str) -> Path:
    NETWORK.save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["configuration"] = text
    return path


def test_any_image_has_the_normalisation_that_all_volumes_have_in_common(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {"a": (100.0, 20.0), "b": (100.0, 20.0)})
    assert trained.normalisations(path, "elsewhere.h5:raw") == [(100.0, 20.0)]


def test_an_image_of_the_run_has_that_of_its_volume(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {"a": (100.0, 20.0), "b": (90.0, 20.0)})
    assert trained.normalisations(path, f"{tmp_path}/../{tmp_path.name}/b.h5:raw") == [(90.0, 20.0)]
    assert trained.normalisations(path, f"{tmp_path}/b.h5:other") is None
    assert trained.normalisations(path, "elsewhere.h5:raw") is None


def test_channels_have_their_own_normalisation(tmp_path: Path) -> None:
    channel = {"image": f"{tmp_path}/second.h5:raw", "mean": 7.0, "std": 3.0}
    volume = {"image": f"{tmp_path}/a.h5:raw", "mean": 90.0, "std": 20.0, "channels": [channel]}
    text = UNET + tomli_w.dumps({"data": {"volumes": [volume]}})
    path = with_configuration(tmp_path / "network.h5", text)
    expected = [(90.0, 20.0), (7.0, 3.0)]
    assert trained.normalisations(path, f"{tmp_path}/a.h5:raw") == expected
    assert trained.normalisations(path, "elsewhere.h5:raw") == expected


@pytest.mark.parametrize("kind", [task.kind for task in TASKS])
def test_a_checkpoint_says_what_its_network_has_learnt(tmp_path: Path, kind: str) -> None:
    model = "ffn" if kind == "flood" else "unet"
    table = 'classes = { 0 = "background", 255 = "mitochondria" }' if kind == "classes" else ""
    text = f'[task]\nkind = "{kind}"\n{table}\n[model]\nkind = "{model}"\n'
    task = trained.task_of(with_configuration(tmp_path / "network.h5", text))
    if kind == "flood":
        assert task is None
    else:
        assert task == config.from_dict(tomllib.loads(text)).task
    NETWORK.save(tmp_path / "bare.h5")
    assert trained.task_of(tmp_path / "bare.h5") is None


def test_files_without_configuration_do_not_say(tmp_path: Path) -> None:
    NETWORK.save(tmp_path / "bare.h5")
    write_bundle(tmp_path / "model.ckpt-1", dict(NETWORK.state_dict()))
    for name in ("bare.h5", "model.ckpt-1", "model.ckpt-1.index"):
        assert trained.normalisations(tmp_path / name, "image.h5:raw") is None


def test_files_that_cannot_be_read_and_configurations_of_another_version_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(InvalidFileError, match=r"text\.h5"):
        trained.normalisations(tmp_path / "text.h5", "image.h5:raw")
    path = with_configuration(tmp_path / "newer.h5", "[segment]\nnew_key = 1\n")
    with pytest.raises(ConfigurationError, match=r"newer\.h5: configuration: .*new_key"):
        trained.normalisations(path, "image.h5:raw")


def test_a_run_directory_stands_for_its_newest_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    for step in (9, 10):
        NETWORK.save(folder / f"step-{step}.h5")
    assert trained.newest_checkpoint(tmp_path / "run") == folder / "step-10.h5"


def test_names_of_checkpoints_are_kept(tmp_path: Path) -> None:
    NETWORK.save(tmp_path / "network.h5")
    write_bundle(tmp_path / "model.ckpt-1", dict(NETWORK.state_dict()))
    (tmp_path / "model.ckpt-1").mkdir()
    for name in ("network.h5", "model.ckpt-1", "model.ckpt-1.index"):
        assert trained.newest_checkpoint(tmp_path / name) == tmp_path / name


def test_paths_without_a_checkpoint_are_refused(tmp_path: Path) -> None:
    for name in (".", "absent"):
        with pytest.raises(InvalidFileError, match="neither a checkpoint nor a run directory"):
            trained.newest_checkpoint(tmp_path / name)


@pytest.mark.parametrize("kind", ["ffn", "unet"])
def test_segmenting_before_training_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    run = f'[run]\ndir = "{tmp_path}/run"\n'
    volume = '[[data.volumes]]\nname = "a"\nimage = "a.h5:raw"\nlabels = "a.h5:l"\n'
    named = f'[segment]\nimage = "a"\ncheckpoint = "{tmp_path}/run"\n'
    (tmp_path / "a b.toml").write_text(run + volume + (UNET if kind == "unet" else named))
    assert cli.run(["segment", f"{tmp_path}/a b.toml", "--out", f"{tmp_path}/x.h5:x"]) == 2
    said = f"one in checkpoints/: not trained yet: floodtide train '{tmp_path}/a b.toml'\n"
    assert capsys.readouterr().err.endswith(said)
