# SPDX-License-Identifier: Apache-2.0
"""Trainers built from objects: the same bits as from a file, the configuration that they leave, and mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_slices
import training_volume
from flat_unet import flat_unet

from floodtide import config, data, nn, optim
from floodtide.base.data_options import WHOLE
from floodtide.config import CommConfig, Config, TrainingConfig
from floodtide.config.sections import RunConfig, ValidationConfig
from floodtide.errors import InvalidArgumentError
from floodtide.optim import lr
from floodtide.train import MoreOptions, Record, Trainer, read_log, trainer
from floodtide.train.setup import configuration_of, objects_of, rates_of

TABLE = {0: "background", 1: "disk"}
ROOT = Path(__file__).resolve().parents[4]
STEPS = 6
RUN = RunConfig(threads=1, log_every_s=0.0)

PATCHES: dict[str, Any] = {
    "data": {"patch": [8, 16, 16], "patches": 12},
    "augmentation": {"permutable_axes": [1, 2]},
    "task": {"kind": "affinities"},
    "model": {"kind": "unet", "depth": 2, "pools": [[1, 2, 2]]},
    "training": {"steps": STEPS, "walkers": 2, "batch": 1, "loss": "cross_entropy"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects")
    training_volume.write_volume(path)
    training_slices.write_slices(path)
    return path


def flood_objects(folder: Path) -> dict[str, Any]:
    model = nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2), seed=4)
    cube = data.TrainingVolume(
        f"{folder}/volume.h5:raw",
        f"{folder}/volume.h5:labels",
        f"{folder}/partitions.h5:af",
        box="0:28,0:40,0:40",
        name="cube",
    )
    return {
        "model": model,
        "data": data.Shards(cube, patch_size=model.patch_size, walkers=2, seed=4),
        "optimizer": optim.Momentum(lr=0.01, momentum=0.8),
        "schedule": lr.Schedule("polynomial", scale="sqrt", warmup_steps=2, power=2.0),
        "validation": ValidationConfig(volume="cube", box="22:40,0:40,0:40", centres=5, every=3),
        "training": TrainingConfig(average=0.5),
    }


def flood_document(folder: Path) -> dict[str, Any]:
    return training_volume.document(
        folder,
        training={"steps": STEPS, "average": 0.5},
        validation={"every": 3, "volume": "cube"},
        optimizer={"name": "momentum", "lr": 0.01, "momentum": 0.8},
        schedule={"name": "polynomial", "scale": "sqrt", "warmup_steps": 2, "power": 2.0},
    )


def slice_objects(folder: Path) -> dict[str, Any]:
    return {
        "model": flat_unet(seed=4),
        "data": data.Patches(
            data.TrainingVolume(**training_slices.volume(folder / "slices.h5")),
            data.DataOptions(patch="whole"),
            data.Augmentation(reflectable_axes=(2,), noise=0.1),
            task=data.Classes(classes=TABLE),
            split=data.Split("training", 0.3),
            walkers=2,
            batch=2,
            seed=4,
        ),
        "optimizer": optim.Adam(lr=5e-3),
        "training": TrainingConfig(dice="batch", background=True),
        "validation": ValidationConfig(share=0.3, every=3),
    }


def slice_document(folder: Path) -> dict[str, Any]:
    return training_slices.document(
        folder,
        training={"dice": "batch", "background": True},
        task={"classes": {str(value): name for value, name in TABLE.items()}},
    )


def patch_objects(folder: Path) -> dict[str, Any]:
    cube = data.TrainingVolume(
        f"{folder}/volume.h5:raw", f"{folder}/volume.h5:labels", box="0:28,0:40,0:40", name="cube"
    )
    options = data.DataOptions(patch=(8, 16, 16), patches=12)
    return {
        "model": nn.UNet(
            nn.UNetOptions(depth=2, pools=((1, 2, 2),)), classes=3, output="sigmoid", seed=4
        ),
        "data": data.Patches(cube, options, task=data.Affinities(), walkers=2, seed=4),
        "optimizer": optim.Adam(),
        "training": TrainingConfig(loss="cross_entropy"),
        "validation": ValidationConfig(volume="cube", box="22:40,0:40,0:40"),
    }


def patch_document(folder: Path) -> dict[str, Any]:
    document = training_volume.document(folder)
    volume = {
        key: value for key, value in document["data"]["volumes"][0].items() if key != "partitions"
    }
    return {
        "run": document["run"],
        **PATCHES,
        "data": {**PATCHES["data"], "volumes": [volume]},
        "validation": {"box": "22:40,0:40,0:40", "volume": "cube"},
    }


KINDS = {
    "ffn": (flood_objects, flood_document),
    "classes": (slice_objects, slice_document),
    "affinities": (patch_objects, patch_document),
}
Objects = Callable[[Path], dict[str, Any]]


def configured(folder: Path, document: Objects, name: str) -> Config:
    """The configuration of a document, with a run directory and options of these tests."""
    result = document(folder)
    result["run"] = {**result["run"], "dir": str(folder / name), "threads": 1}
    return config.from_dict(result)


def from_objects(folder: Path, objects: dict[str, Any], name: str, **more: Any) -> Trainer:
    given = {"directory": folder / name, "steps": STEPS, "run": RUN, **objects, **more}
    names = [field.name for field in dataclasses.fields(MoreOptions)]
    options = MoreOptions(**{key: given.pop(key) for key in names if key in given})
    return Trainer(**given, options=options)


@pytest.mark.parametrize("kind", KINDS)
def test_objects_and_a_file_train_the_same_bits(folder: Path, kind: str) -> None:
    objects, document = KINDS[kind]
    from_file = Trainer.from_config(configured(folder, document, f"{kind}-file"))
    from_file.run()
    scripted = from_objects(folder, objects(folder), f"{kind}-objects")
    scripted.run()
    for name, array in from_file.result.state_dict().items():
        np.testing.assert_array_equal(array, scripted.result.state_dict()[name])
    scores = [
        [r for r in read_log(folder / f"{kind}-{way}/log.jsonl") if r["kind"] == "validation"]
        for way in ("file", "objects")
    ]
    assert scores[0]
    for record in (*scores[0], *scores[1]):
        record.pop("time_s")
    assert scores[0] == scores[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_directory_describes_the_objects_as_a_file_would(folder: Path, kind: str) -> None:
    objects, document = KINDS[kind]
    name = f"{kind}-described"
    from_objects(folder, objects(folder), name).close()
    expected = configured(folder, document, name)
    assert config.load(folder / name / "config.toml") == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_objects_of_a_configuration_describe_it(folder: Path, kind: str) -> None:
    settings = configured(folder, KINDS[kind][1], "described")
    described = configuration_of(
        *objects_of(settings, 1),
        *rates_of(settings, 1),
        MoreOptions(run=settings.run, training=settings.training, comm=settings.comm),
        dir=settings.run.dir,
        steps=settings.training.steps,
        validation=settings.validation,
    )
    data = settings.data
    if data.patch == WHOLE:  # the network's pooling gives whole sections a size
        data = dataclasses.replace(data, size=(16, 16))
    assert described == dataclasses.replace(settings, data=data)


def test_a_run_of_objects_goes_on_from_the_command_line(folder: Path) -> None:
    whole = from_objects(folder, flood_objects(folder), "scripted-whole")
    whole.run()
    stopped = from_objects(folder, flood_objects(folder), "scripted-part")
    for step in stopped:
        if step.number == 2:
            stopped.stop()
    settings = config.load(folder / "scripted-part" / "config.toml")
    resumed = Trainer.from_config(settings)
    resumed.run()
    for name, array in whole.model.state_dict().items():
        np.testing.assert_array_equal(array, resumed.model.state_dict()[name])


def test_weights_of_a_file_are_named_in_the_configuration(folder: Path) -> None:
    path = folder / "start.h5"
    nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2), seed=9).save(path)
    objects = {**flood_objects(folder), "model": nn.load(path)}
    scripted = from_objects(folder, objects, "from-weights")
    assert scripted.config.model.initial_weights == str(path)
    scripted.close()


def test_a_schedule_takes_rate_and_steps_from_the_trainer(folder: Path) -> None:
    objects = {**flood_objects(folder), "schedule": lr.Schedule("cosine", warmup_steps=2)}
    with from_objects(folder, objects, "filled-in") as scripted:
        rates = [step.lr for step in scripted]
    expected = lr.Schedule("cosine", base_lr=0.01, total_steps=STEPS, warmup_steps=2)
    np.testing.assert_allclose(rates, [expected(step) for step in range(STEPS)])
    objects = {**flood_objects(folder), "schedule": None}
    with from_objects(folder, objects, "constant") as scripted:
        assert [step.lr for step in scripted] == [0.01] * STEPS


def test_rates_scaled_by_a_callback_hold_from_the_next_step_and_are_kept(folder: Path) -> None:
    def halve(running: Trainer, record: Record) -> None:
        if record["kind"] == "train" and record["step"] == 2:
            running.scale_lr(0.5)

    objects = {**flood_objects(folder), "schedule": None}
    first = from_objects(folder, objects, "scaled", callbacks=[halve])
    rates = []
    for step in first:
        rates.append(step.lr)
        if step.number == 3:
            first.stop()
    assert rates == [0.01, 0.01, 0.01, 0.005, 0.005]
    assert first.lr_factor == 0.5
    rest = [
        step.lr
        for step in from_objects(
            folder, {**objects, "model": flood_objects(folder)["model"]}, "scaled"
        )
    ]
    assert rest == [0.005]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), 1e7, "half"])
def test_factors_of_the_rate_have_a_range(folder: Path, factor: Any) -> None:
    with (
        from_objects(folder, flood_objects(folder), "wrong-factor") as scripted,
        pytest.raises(InvalidArgumentError, match=r"scale_lr: factor is .*, expected above 0"),
    ):
        scripted.scale_lr(factor)


def test_progress_is_shown_when_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []

    class Bar:
        def __enter__(self) -> Callable[[int, int], None]:
            return lambda done, total: shown.append((done, total))

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(trainer, "bar", lambda unit, what, **_: Bar())
    from_objects(folder, flood_objects(folder), "shown", progress=True).run()
    assert shown == [(done, STEPS) for done in range(1, STEPS + 1)]


def wrong(**given: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: {**flood_objects(folder), **given}


def other_seed(folder: Path) -> dict[str, Any]:
    return {**flood_objects(folder), "model": nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2))}


def other_patch(folder: Path) -> dict[str, Any]:
    return {**flood_objects(folder), "model": nn.FFN(2, (9, 9, 9), (2, 2, 2), 4, seed=4)}


def slices_for_an_ffn(folder: Path) -> dict[str, Any]:
    return {**flood_objects(folder), "data": slice_objects(folder)["data"]}


def three_classes(folder: Path) -> dict[str, Any]:
    return {**slice_objects(folder), "model": flat_unet(classes=3, seed=4)}


def other_split(folder: Path) -> dict[str, Any]:
    return {**slice_objects(folder), "validation": ValidationConfig(share=0.5)}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            wrong(schedule=lr.Schedule("cosine", base_lr=0.1, total_steps=10)),
            "total_steps 10, expected the 6 steps",
        ),
        (wrong(training=TrainingConfig(walkers=3)), "training.walkers is 3"),
        (wrong(run=RunConfig(dir="elsewhere")), "run.dir is 'elsewhere'"),
        (wrong(comm=CommConfig(mode="partial", wire="bf16")), "wire format needs"),
        (other_seed, "seed 0 and the data with seed 4"),
        (other_patch, r"patch_size \(11, 11, 11\), expected \(13, 13, 13\)"),
        (
            wrong(validation=ValidationConfig(volume="sphere", box="0:9,0:9,0:9")),
            "validation.volume is 'sphere', expected one of: cube",
        ),
        (slices_for_an_ffn, "data is Patches, expected Shards"),
        (three_classes, "3 outputs .softmax. for 1 channels, expected 2"),
        (other_split, r"Split\(.* as the validation says"),
    ],
)
def test_objects_that_do_not_fit_are_one_line(folder: Path, objects: Objects, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        from_objects(folder, objects(folder), "mistake")
    assert "\n" not in str(caught.value)
    assert not (folder / "mistake" / "config.toml").exists()


def test_sources_refuse_options_of_other_kinds_and_no_volume(folder: Path) -> None:
    volume = flood_objects(folder)["data"].options.volumes[0]
    with pytest.raises(InvalidArgumentError, match=r"data\.patches has no meaning for flood"):
        data.Shards(volume, data.DataOptions(patches=3), patch_size=(11, 11, 11))
    with pytest.raises(
        InvalidArgumentError,
        match=r"data\.min_object_size has no meaning for patches, expected it only for 'flood'",
    ):
        data.Patches(volume, data.DataOptions(min_object_size=3), task=data.Affinities())
    with pytest.raises(InvalidArgumentError, match=r"data\.volumes is empty"):
        data.Shards([], patch_size=(11, 11, 11))


def test_shards_of_several_volumes_draw_from_all(folder: Path) -> None:
    volume = flood_objects(folder)["data"].options.volumes[0]
    other = dataclasses.replace(volume, name="other", box="")
    one = data.Shards(volume, patch_size=(11, 11, 11))
    two = data.Shards([volume, other], patch_size=(11, 11, 11))
    assert len(two) > len(one)


def test_networks_make_new_ones_of_their_shape() -> None:
    for model in (
        nn.FFN(depth=3, fov=(9, 7, 5), deltas=(2, 1, 0), features=5, seed=3, parallel="voxels"),
        flat_unet(dropout=0.25, classes=4, seed=3),
        nn.UNet(
            nn.UNetOptions(
                depth=2, kernels=((1, 3, 3), (3, 3, 3)), pools=((1, 2, 2),), batch_norm=False
            ),
            classes=3,
            output="sigmoid",
        ),
    ):
        twin = model.like()
        assert type(twin) is type(model)
        assert repr(twin) == repr(model)
        for name, array in model.state_dict().items():
            np.testing.assert_array_equal(array, twin.state_dict()[name])


def test_the_example_script_is_short() -> None:
    code = (ROOT / "examples/train_mpi.py").read_text().split('"""', 2)[2].splitlines()
    assert len([line for line in code if line.strip() and not line.strip().startswith("#")]) <= 30
