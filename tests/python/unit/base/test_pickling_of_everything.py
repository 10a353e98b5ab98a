# SPDX-License-Identifier: Apache-2.0
"""Every public name survives pickle and copy, or one line says why not. A new public class needs an example here."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import pickle
import re
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_slices
import training_volume
from flat_unet import flat_unet

import floodtide
from floodtide import (
    _core,
    config,
    data,
    errors,
    evaluate,
    nn,
    optim,
    segment,
    train,
)
from floodtide.agglomerate import Stack
from floodtide.agglomerate.resegmenting import DecisionPoint, Merged, Pairs
from floodtide.data import Volume
from floodtide.evaluate.mistakes import Mistake, Part
from floodtide.optim import lr
from floodtide.segment.affinities import AffinityFile

DiceCounts = _core.evaluate.DiceCounts

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
}
BOX: data.Box = ((0, 0, 0), (4, 5, 6))


def exported() -> dict[str, Any]:
    """Return what `floodtide.__all__` names, and what the subject modules among it name."""
    found: dict[str, Any] = {}
    for name in (*floodtide.__all__, "optim.lr"):
        thing = operator.attrgetter(name)(floodtide)
        if not isinstance(thing, types.ModuleType):
            found[name] = thing
            continue
        public = [key for key in vars(thing) if not key.startswith("_") and key != "annotations"]
        for key in getattr(thing, "__all__", public):
            if not isinstance(getattr(thing, key), types.ModuleType):
                found[f"{name}.{key}"] = getattr(thing, key)
    return found


EXPORTED = exported()
OTHERS = [name for name, thing in EXPORTED.items() if not inspect.isclass(thing)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a training volume, labelled slices and a file of affinities."""
    path = tmp_path_factory.mktemp("everything")
    training_volume.write_volume(path)
    training_slices.write_slices(path)
    values = np.random.default_rng(1).random((3, 4, 5, 6)).astype(np.float32)
    data.write_volume(path / "a.h5", {"a": values})
    return path


def ffn() -> nn.FFN:
    return nn.FFN(depth=2, fov=(7, 7, 5), deltas=(2, 2, 1), features=4, seed=3)


def volume_of(folder: Path) -> data.TrainingVolume:
    return data.TrainingVolume(
        f"{folder}/volume.h5:raw", f"{folder}/volume.h5:labels", f"{folder}/partitions.h5:af"
    )


def patches(folder: Path) -> data.Patches:
    row = training_slices.volume(folder / "slices.h5")
    options = data.DataOptions(patch="whole")
    return data.Patches(data.TrainingVolume(**row), options, task=data.Classes())


def contingency() -> evaluate.ContingencyTable:
    table = evaluate.ContingencyTable()
    table.add(np.array([[[1, 1, 2]]], np.uint8), np.array([[[3, 4, 4]]], np.uint8))
    return table


def dice_counts() -> DiceCounts:
    counts = DiceCounts(2, 3)
    counts.add(1, np.array([[[1, 1, 2]]], np.uint8), np.array([[[1, 2, 2]]], np.uint8))
    return counts


def segmentation() -> segment.Segmentation:
    options = segment.SegmentOptions(mean=128.0, std=33.0, min_segment_size=1, seed_policy="grid")
    return segment.Segmenter(ffn(), options).segment(np.zeros((8, 8, 8), np.uint8))


def trainer(folder: Path) -> train.Trainer:
    document = training_volume.document(folder, training={"steps": 1})
    return train.Trainer.from_config(config.from_dict(document))


EXAMPLES: dict[type, Callable[[Path], Any]] = {
    floodtide.ProcessSet: lambda folder: floodtide.ProcessSet([0]),
    Stack: lambda folder: object.__new__(Stack),
    AffinityFile: lambda folder: AffinityFile(
        f"{folder}/a.h5:a", [[-1, 0, 0], [0, -1, 0], [0, 0, -1]]
    ),
    DecisionPoint: lambda folder: DecisionPoint(1, 2, (3, 4, 5), 1.5),
    Merged: lambda folder: Merged([True, False], {1: 1, 2: 1}, 2, 7),
    Pairs: lambda folder: Pairs(folder / "pairs", [DecisionPoint(1, 2, (3, 4, 5), 1.5)]),
    data.Patches: patches,
    data.Shards: lambda folder: data.Shards(volume_of(folder), patch_size=(9, 9, 9), walkers=1),
    data.Split: lambda folder: data.Split("training", 0.1, 3),
    data.TrainingVolume: volume_of,
    data.Volume: lambda folder: Volume(f"{folder}/volume.h5:raw"),
    evaluate.ContingencyTable: lambda folder: contingency(),
    DiceCounts: lambda folder: dice_counts(),
    Mistake: lambda folder: Mistake("merge", 1, 2, (Part(1, 2, 3, (4, 5, 6)),)),
    Part: lambda folder: Part(1, 2, 3, (4, 5, 6)),
    lr.Schedule: lambda folder: lr.Schedule("polynomial", warmup_steps=2, power=2.0),
    nn.FFN: lambda folder: ffn(),
    nn.Network: lambda folder: ffn(),
    nn.PatchNetwork: lambda folder: nn.UNet(nn.UNetOptions(depth=1)),
    nn.UNet: lambda folder: flat_unet(dropout=0.25, classes=3, seed=5),
    optim.Optimizer: lambda folder: optim.Optimizer("adam"),
    segment.Seeded: lambda folder: segment.Seeded(1, (2, 3, 4), 5),
    segment.Predictor: lambda folder: segment.Predictor(flat_unet(), mean=1.0, std=2.0),
    segment.pieces.Cut: lambda folder: segment.pieces.Cut(BOX, (3, 3, 3), (1, 1, 1)),
    segment.Move: lambda folder: segment.Move(1, (2, 3, 4), np.ones((2, 2, 2), np.float32), 5),
    segment.Object: lambda folder: segment.Object(
        np.ones((2, 2, 2), np.float32), [(1, 2, 3)], {"a": 1}
    ),
    segment.flooding.Origin: lambda folder: segment.flooding.Origin(1, (2, 3, 4), 5, 6, 7.5),
    segment.Pieces: lambda folder: segment.Pieces(
        folder / "pieces", segment.pieces.Cut(BOX, (3, 3, 3), (1, 1, 1)), (4, 5, 6), {"a": 1}
    ),
    segment.reconciling.Reconciled: lambda folder: segment.reconciling.Reconciled(
        1, 0, [np.array([1], np.uint64)], [np.array([7])]
    ),
    segment.Segmentation: lambda folder: segmentation(),
    segment.Flooding: lambda folder: segment.Flooding(
        segment.Segmenter(ffn(), segment.SegmentOptions(mean=128.0, std=33.0)),
        Volume(f"{folder}/volume.h5:raw"),
    ),
    segment.Segmenter: lambda folder: segment.Segmenter(
        ffn(), segment.SegmentOptions(mean=128.0, std=33.0)
    ),
    train.FloodValidation: lambda folder: train.FloodValidation(
        volume_of(folder), patch_size=(7, 7, 7), centres=4
    ),
    train.Run: lambda folder: train.Run(folder=folder, name="a", train=[{"step": 1}]),
    data.Channel: lambda folder: data.Channel("raw.h5:raw"),
    train.Step: lambda folder: train.Step(number=1, loss=0.5, lr=0.1),
    train.Trainer: trainer,
}

CLASSES = sorted(
    {*EXAMPLES, *(thing for thing in EXPORTED.values() if inspect.isclass(thing))},
    key=lambda c: c.__name__,
)


def example(cls: type, folder: Path) -> Any:
    """Return an object of a class."""
    if cls in EXAMPLES:
        return EXAMPLES[cls](folder)
    if issubclass(cls, errors.Error | errors.Interrupted):
        return cls("what, where, what was expected")
    if dataclasses.is_dataclass(cls) and all(
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(cls)
    ):
        return cls()
    if issubclass(cls, optim.Optimizer):
        return cls()
    if dataclasses.is_dataclass(cls):  # results that hold numbers
        return cls(**{field.name: i + 0.5 for i, field in enumerate(dataclasses.fields(cls))})
    return cls()


def content(thing: Any) -> Any:
    """Return what an object holds, in a form that `==` compares."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tolist()
    if isinstance(thing, nn.Network):
        return type(thing), thing.seed, thing.origin, content(thing.state_dict())
    if isinstance(thing, Volume):
        return thing.name, thing.geometry, content(thing.read())
    if isinstance(thing, BaseException):
        return type(thing), str(thing), thing.args
    if isinstance(thing, Mapping):
        return {key: content(value) for key, value in thing.items()}
    if isinstance(thing, tuple | list):
        return type(thing), [content(value) for value in thing]
    if isinstance(thing, evaluate.ContingencyTable):
        return content(thing.rows())
    if isinstance(thing, DiceCounts):
        return content(thing.values())
    if isinstance(thing, train.FloodValidation):
        return content((thing.volume, thing.patch_size, thing.centres, thing.seed))
    if isinstance(thing, AffinityFile):
        return thing.offsets, thing.box, content(thing.read(thing.box))
    if type(thing).__module__.startswith("floodtide") and hasattr(thing, "__dict__"):
        return type(thing), content(vars(thing))
    return thing


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_objects_are_the_same_or_say_why_not(cls: type, way: str, folder: Path) -> None:
    thing = example(cls, folder)
    assert isinstance(thing, cls)
    again, refusal = None, ""
    try:
        again = WAYS[way](thing)
    except TypeError as error:
        refusal = str(error)
    if isinstance(thing, train.Trainer):
        thing.close()
    if refusal:
        pattern = rf"{type(thing).__name__} cannot be pickled or copied: [^\n]+; expected [^\n]+"
        assert re.fullmatch(pattern, refusal)
    else:
        assert type(again) is type(thing)
        assert content(again) == content(thing)


@pytest.mark.parametrize("name", OTHERS)
def test_functions_and_values_are_the_same(name: str) -> None:
    thing = EXPORTED[name]
    for way in WAYS.values():
        assert way(thing) == thing
