# SPDX-License-Identifier: Apache-2.0
"""What checkpoints say about the images of their run, and which file a run directory stands for."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
import tomli_w
from fuzz.tensorflow_files import write_bundle

from floodtide import nn
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.segment import trained

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
    assert trained.normalisation(path, "elsewhere.h5:raw") == (100.0, 20.0)


def test_an_image_of_the_run_has_that_of_its_volume(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {"a": (100.0, 20.0), "b": (90.0, 20.0)})
    assert trained.normalisation(path, f"{tmp_path}/b.h5:/raw") == (90.0, 20.0)
    assert trained.normalisation(path, f"{tmp_path}/b.h5:other") is None
    assert trained.normalisation(path, "elsewhere.h5:raw") is None


def test_files_without_configuration_do_not_say(tmp_path: Path) -> None:
    NETWORK.save(tmp_path / "bare.h5")
    write_bundle(tmp_path / "model.ckpt-1", dict(NETWORK.state_dict()))
    for name in ("bare.h5", "model.ckpt-1", "model.ckpt-1.index"):
        assert trained.normalisation(tmp_path / name, "image.h5:raw") is None


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ('[model]\nkind = "unet3d"\n[data]\nreflectable_axes = [1, 2]\n', (1, 2)),
        ('[model]\nkind = "unet2d"\n[augmentation]\nflip_x = true\n', (2,)),
        ('[model]\nkind = "unet2d"\n', ()),
    ],
)
def test_a_checkpoint_says_which_axes_its_training_reflected(
    tmp_path: Path, text: str, axes: tuple[int, ...]
) -> None:
    assert trained.mirrored_axes(with_configuration(tmp_path / "network.h5", text)) == axes
    NETWORK.save(tmp_path / "bare.h5")
    assert trained.mirrored_axes(tmp_path / "bare.h5") == ()


def test_files_that_cannot_be_read_and_configurations_of_another_version_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(InvalidFileError, match=r"text\.h5"):
        trained.normalisation(tmp_path / "text.h5", "image.h5:raw")
    path = with_configuration(tmp_path / "newer.h5", "[segment]\nnew_key = 1\n")
    with pytest.raises(ConfigurationError, match=r"newer\.h5: configuration: .*new_key"):
        trained.normalisation(path, "image.h5:raw")


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
