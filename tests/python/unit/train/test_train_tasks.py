# SPDX-License-Identifier: Apache-2.0
"""Every task, from a configuration of at most 25 lines: it learns, resumes, and sees labels of its boxes only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomllib
from training_patches import KINDS, SHAPE, text, write_patches

from floodtide import _core, config, data, nn
from floodtide.base.networks import NetworkConfig
from floodtide.base.options import option
from floodtide.base.tasks import PatchTask
from floodtide.base.tasks.distance import explained
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.report.held_out import Patch, panels
from floodtide.segment.linking import segments_of
from floodtide.segment.predict import predictor_of
from floodtide.train import Trainer, read_log

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patches")
    write_patches(path)
    return path


def settings_of(folder: Path, kind: str, name: str, *overrides: str) -> config.Config:
    document = tomllib.loads(text(folder, kind, name))
    return config.from_dict(
        document, "run.toml", ["run.log_every_s=0", "run.threads=1", *overrides]
    )


def trained(folder: Path, kind: str, name: str, *overrides: str) -> dict[str, np.ndarray]:
    """The parameters of a run."""
    trainer = Trainer.from_config(settings_of(folder, kind, name, *overrides))
    trainer.run()
    return trainer.result.state_dict()


def scores(folder: Path, name: str) -> list[dict[str, Any]]:
    records = [r for r in read_log(folder / name / "log.jsonl") if r["kind"] == "validation"]
    return [{key: value for key, value in r.items() if key != "time_s"} for r in records]


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@every_kind
def test_a_configuration_of_25_lines_learns_more_than_a_trivial_answer(
    folder: Path, kind: str
) -> None:
    assert len(text(folder, kind).splitlines()) <= 25
    steps = ("training.steps=60", "optimizer.lr=5e-3", "training.walkers=2")
    trained(folder, kind, f"{kind} long", *steps)
    task = config.load(folder / f"{kind} long" / "config.toml").task
    assert isinstance(task, PatchTask)
    (record,) = scores(folder, f"{kind} long")
    for own, trivial in task.scores_of(record):
        assert own is not None
        assert own > trivial
    if "channels" in record:
        assert list(record["channels"]) == task.channels
    else:
        assert [row["name"] for row in record["classes"]] == ["foreground"]
        assert np.sum(record["confusion"]) == 8 * 32 * 32  # every held-out voxel once


@every_kind
def test_a_resumed_run_has_the_bits_of_the_uninterrupted_one(folder: Path, kind: str) -> None:
    changes = (
        "augmentation.rotation_deg=20",
        "augmentation.elastic=1",
        "augmentation.noise=0.1",
        "augmentation.bad_sections=0.3",
        "training.average=0.9",
    )
    whole = trained(folder, kind, f"{kind} whole", *changes)
    trained(folder, kind, f"{kind} parts", *changes, "training.steps=3")
    assert_equal(trained(folder, kind, f"{kind} parts", *changes), whole)
    assert scores(folder, f"{kind} parts")[-1] == scores(folder, f"{kind} whole")[-1]


def test_patches_that_are_not_square_are_validated(folder: Path) -> None:
    more = ("data.patch=[1, 8, 16]", "augmentation.permutable_axes=[]", "training.steps=1")
    trained(folder, "two channels", "oblong", *more)
    assert np.sum(scores(folder, "oblong")[0]["confusion"]) == 8 * 32 * 32


def test_a_checkpoint_of_another_task_is_refused(folder: Path) -> None:
    """Of the same shape, but with outputs of another meaning: to start from, and to go on with."""
    one = ("training.steps=1", "validation.box=")
    trained(folder, "two channels", "named", *one)
    other = 'task.classes={0="background", 255="vesicles"}'
    start = f"model.initial_weights={folder}/named/checkpoints/step-1.h5"
    for name, more in (("named", "training.steps=2"), ("fresh", start)):
        with pytest.raises(ConfigurationError, match=r"foreground.*expected.*vesicles"):
            trained(folder, "two channels", name, "validation.box=", other, more)


def test_volumes_that_train_and_validate_are_refused(folder: Path) -> None:
    document = tomllib.loads(text(folder, "two channels", "leak"))
    document["validation"] = {"volumes": document["data"]["volumes"]}
    document["validation"]["volumes"][0] |= {"name": "other", "box": "11:14,0:32,0:32"}
    document["data"]["volumes"] = [{**document["data"]["volumes"][0], "box": "0:12,0:32,0:32"}]
    with pytest.raises(InvalidArgumentError, match=r"voxels 11:12,0:32,0:32 of .* are trained on"):
        Trainer.from_config(config.from_dict(document))


def test_distances_of_single_sections_are_those_in_the_section(folder: Path) -> None:
    """Sections above and below have no label here, and do not hide the boundary."""
    more = (
        "data.patch=[1, 16, 16]",
        "model.kernels=[[1, 3, 3]]",
        "data.volumes.0.box=3:4,0:32,0:32",
    )
    trained(folder, "distance", "flat", *more, "validation.box=5:6,0:32,0:32", "training.steps=1")
    (row,) = scores(folder, "flat")[0]["channels"].values()
    assert row["voxels"] > 500


BOXES = ("2:5,0:32,3:30", "7:8,0:32,0:32"), ("13:14,0:32,0:32", "16:19,4:28,4:28")


@every_kind
def test_labels_outside_of_the_boxes_enter_no_loss_and_no_score(tmp_path: Path, kind: str) -> None:
    """Two versions of the labels that differ outside of the boxes give the same bits."""
    labels = KINDS[kind][0]
    inside = np.zeros(SHAPE, bool)
    for box in (*BOXES[0], *BOXES[1]):
        start, size = data.parse_box(box) or ((0, 0, 0), SHAPE)
        inside[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))] = True
    found = []
    for version in ("right", "wrong"):
        folder = tmp_path / version
        folder.mkdir()
        path = write_patches(folder)
        if version == "wrong":
            with h5py.File(path, "r+") as file:
                wrong = np.random.default_rng(1).integers(0, 99, SHAPE)
                file[labels][...] = np.where(inside, file[labels][...], wrong)
        boxes = [f'"{"; ".join(part)}"' for part in BOXES]
        where = (f"data.volumes.0.box={boxes[0]}", f"validation.box={boxes[1]}")
        found.append((trained(folder, kind, "run", *where), scores(folder, "run")))
    assert_equal(found[1][0], found[0][0])
    assert found[1][1] == found[0][1]
    assert found[0][1]


@dataclass(frozen=True, kw_only=True)
class Thin(NetworkConfig):
    """A network that no row of floodtide has."""

    kind: str = option("thin", "Thin network", choices=("thin",))
    core_network = _core.UNet

    def core(self, **others: Any) -> Any:
        return nn.UNetOptions(depth=1).core(**others)

    @property
    def context(self) -> data.Vec3:
        return (2, 2, 2)


@dataclass(frozen=True, kw_only=True)
class Edges(PatchTask):
    """A task that no row of floodtide has: the neighbourhood of boundaries."""

    kind: str = option("edges", "Edges of objects", choices=("edges",))
    score_name = "explained variance"

    @property
    def channels(self) -> list[str]:
        return ["inside"]

    def targets(self, voxel_size: Any, *, flat: bool) -> _core.data.Targets:
        return _core.data.distance_targets(1.0, voxel_size=(1.0, 1.0, 1.0))

    def objects(self, predicted: Any, agglomerate: Any) -> Any:
        return _core.segment.connected_components((predicted[0] > 0.5).astype(np.uint8), 1)

    @staticmethod
    def scores_of(record: Any) -> list[tuple[float | None, float]]:
        return [(explained(row), 0.0) for row in record["channels"].values()]


def test_a_new_task_and_a_new_network_know_only_the_interface(folder: Path) -> None:
    """What a row needs: here they train, validate and predict, and their objects are drawn."""
    known = settings_of(folder, "distance", "new", "optimizer.lr=0.02", "training.steps=30")
    settings = dataclasses.replace(known, task=Edges(), model=Thin())
    trainer = Trainer.from_config(settings)
    trainer.run()
    assert settings.task.beats_trivial(scores(folder, "new")[-1])
    seen = trainer.data.seen(0)
    assert seen.truth.shape == seen.known.shape == (*seen.image.shape, 1) == (4, 16, 16, 1)
    volume = settings.data.volumes[0]
    network: Any = nn.load(folder / "new/checkpoints/step-30.h5")
    predictor = predictor_of(volume, network, settings.task)
    image = data.Volume(str(volume.image))
    found = predictor.predicted(image)
    objects = settings.task.objects(found, segments_of)
    patch = Patch(image.read(), *(np.moveaxis(found, 0, -1),) * 3)
    assert objects.shape == SHAPE
    assert objects.max() > 1
    assert settings.task.score_of_patch(patch.output, patch.truth, patch.weights) == 0.0
    assert list(panels(patch, settings.task)) == ["Image", "True targets", "Predicted targets"]
