# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of a script: one line that names what, where and what was expected, not an error of Python."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest

import floodtide as ft
from floodtide.base.options import described, fits, typed
from floodtide.errors import ConfigurationError, Error, InvalidArgumentError
from floodtide.segment.predict import Predictor

IMAGE = np.zeros((8, 16, 16), np.uint8)
CLASSES = ft.data.Classes(classes={"0": "none", "1": "some"})
BATCH = np.zeros((1, 8, 8, 8), np.float32)


def unet(**more: Any) -> ft.nn.UNet:
    return ft.nn.UNet(ft.nn.UNetOptions(depth=2), **more)


def patches(volumes: Any = None, options: Any = None, **more: Any) -> ft.data.Patches:
    volumes = volumes or volume()
    options = options or ft.data.DataOptions(patch=(4, 8, 8))
    return ft.data.Patches(volumes, options, **{"task": CLASSES, **more})


def volume(**more: Any) -> ft.data.TrainingVolume:
    labels = (np.indices(IMAGE.shape).sum(0) % 2).astype(np.uint8)
    image, truth = ft.data.Volume(IMAGE), ft.data.Volume(labels)
    return ft.data.TrainingVolume(**{"image": image, "labels": truth, **more})


def learn(**more: Any) -> Any:
    return unet().loss_and_gradients(BATCH, np.zeros(BATCH.shape, np.uint8), **more)


def ffn() -> ft.nn.FFN:
    return ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), features=2)


class Lazy:
    """An array as dask's: it has a name, and no truth value."""

    name = "array-7"
    __array_function__ = None

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: patches([IMAGE]),
        "Patches: volumes.0 is an array of shape .*, expected a TrainingVol",
    ),
    (lambda: patches("a.h5:raw"), "Patches: volumes is a string .'a.h5:raw'., expected a Train"),
    (lambda: patches(options={"patch": 3}), "Patches: options is a table .*, expected a DataOpt"),
    (lambda: patches(task="classes"), r"task is a string .'classes'., expected a PatchTask \(.*Cl"),
    (lambda: patches(task=ft.data.Classes), "task is the class Classes, expected a PatchTask"),
    (lambda: patches(split="training"), "Patches: split is a string .*, expected a Split"),
    (lambda: patches(augmentation=True), "augmentation is a boolean .True., expected an Augment"),
    (lambda: patches(walkers=1.5), "Patches: walkers is a number .1.5., expected an integer"),
    (lambda: patches(seed=None), "Patches: seed is None, expected an integer"),
    (lambda: patches(sed=1), "Patches: got an unexpected keyword argument 'sed'; expected volumes"),
    (lambda: patches().load("a", 0), "Patches.load: walker is a string .'a'., expected an integer"),
    (lambda: patches().fixed(1.0), "Patches.fixed: number is a number .1.0., expected an integer"),
    (lambda: volume(image=IMAGE), r"image is an array of shape \(8, 16, 16\), expected a name, or"),
    (lambda: volume(image=Lazy()), "TrainingVolume: image is Lazy .*, expected a name, or a"),
    (lambda: volume(labels=None), "TrainingVolume: labels is None, expected a name, or a"),
    (
        lambda: volume(masks={"a": 3}),
        "TrainingVolume: masks is an integer .3., expected a name, or",
    ),
    (lambda: volume(masks=["a"]), "TrainingVolume: masks is a list .*, expected a table"),
    (
        lambda: volume(box=((0, 0, 0), (4, 4, 4))),
        "TrainingVolume: box is a list .*, expected a str",
    ),
    (
        lambda: volume(labels_start=(0, 0)),
        "labels_start has 2 entries, expected 3 .z, y, x.",
    ),
    (lambda: volume(channels=["a.h5:x"]), "channels.0 is a string .'a.h5:x'., expected a Channel"),
    (lambda: ft.data.DataOptions(patch=16), "patch is an integer .16., expected a list of 3 integ"),
    (
        lambda: ft.data.DataOptions(size=(1, 2, 3)),
        "DataOptions: size has 3 entries, expected 2",
    ),
    (
        lambda: ft.data.Classes(classes=["a"]),
        "Classes: classes is a list .*, expected a table of str",
    ),
    (
        lambda: ft.data.Classes({0: "a"}),
        "Classes: too many positional arguments; expected kind, classes, class_weights",
    ),
    (
        lambda: ft.data.Affinities(offsets=(1, 0, 0)),
        "offsets.0 is an integer .1., expected a list of 3 integers",
    ),
    (
        lambda: ft.data.Affinities(offset=()),
        "unexpected keyword argument 'offset'; expected kind, ",
    ),
    (lambda: ft.data.Affinities(balance="yes"), "balance is a string .'yes'., expected a boolean"),
    (
        lambda: ft.data.ShapeDescriptors(window=8.0),
        "window is a number .8.0., expected a list of 3",
    ),
    (lambda: ft.data.Distance(scale="8"), "Distance: scale is a string .'8'., expected a number"),
    (lambda: ft.nn.UNet(3), "UNet: options is an integer .3., expected a UNetOptions"),
    (lambda: unet(output=None), "UNet: output is None, expected a string"),
    (lambda: unet(classes=CLASSES), "UNet: classes is Classes .*, expected an integer"),
    (
        lambda: ft.nn.UNetOptions(kernels=(1, 3, 3)),
        "kernels.0 is an integer .1., expected a list of 3 int",
    ),
    (lambda: unet().forward([[1.0]]), "UNet.forward: batch is a list .*, expected an array"),
    (lambda: ffn().forward([[1.0]], [[1.0]]), "FFN.forward: image is a list .*, expected an array"),
    (lambda: ffn().forward(IMAGE, IMAGE, 3), "FFN.forward: by is an integer .3., expected a str"),
    (lambda: learn(loss=3), "loss is an integer .3., expected a string or a SegmentationLoss"),
    (
        lambda: learn(groups="2"),
        "UNet.loss_and_gradients: groups is a string .*, expected an integer",
    ),
    (
        lambda: unet().load_state_dict([1]),
        "UNet.load_state_dict: state is a list .*, expected a table of",
    ),
    (lambda: ft.nn.load(None), "load: path is None, expected a string or a Path"),
    (
        lambda: Predictor(unet(), mean=None, std=1.0),
        "Predictor: mean is None, expected a number or",
    ),
    (
        lambda: Predictor(unet(), mean=[1, 2], std=1.0),
        "mean is .*, expected one number, or 1: one for",
    ),
    (lambda: ft.train.Trainer(model="unet"), "Trainer: missing a required argument: 'data'"),
    (
        lambda: ft.train.Trainer(
            model=unet(), data=patches(), optimizer="adam", directory="x", steps=1
        ),
        "Trainer: optimizer is a string .'adam'., expected an",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(Error, match=message) as raised:
        call()
    assert isinstance(raised.value, InvalidArgumentError)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_right_arguments_pass() -> None:
    array = np.array([[-1, 0, 0], [0, -1, 0]])
    assert ft.data.Affinities(offsets=array).offsets == ((-1, 0, 0), (0, -1, 0))
    assert ft.data.DataOptions(patch=[4, np.int64(8), 8]).patch == (4, 8, 8)
    assert patches(walkers=np.int32(1)).load(np.int64(0), 0)[0].shape == (4, 8, 8, 1)
    for again in (copy.deepcopy(CLASSES), pickle.loads(pickle.dumps(CLASSES))):
        assert again == CLASSES


@pytest.mark.parametrize(
    ("hint", "good", "bad", "text"),
    [
        (int, [3, np.uint8(3)], [True, 3.0, "3", None], "an integer"),
        (float, [3, 0.5, np.float32(1), np.array(2.0)], [True, "3", 1j], "a number"),
        (bool, [True, np.True_], [1, "true"], "a boolean"),
        (str | None, ["a", None], [3, b"a"], "a string"),
        (tuple[int, ...], [(), [1, 2], np.arange(3)], ["12", 3, (1.5,)], "a list of integers"),
        (tuple[float, float], [(1, 2.0)], [(1,), (1, 2, 3)], "a list of 2 numbers"),
        (Sequence[str], [["a"], ()], ["a", [1]], "a list of strings"),
        (Mapping[str, float], [{"a": 1}], [[1], {"a": "b"}], "a table of numbers"),
        (Callable[[int], int], [abs], [3], "a function"),
        (Path | np.ndarray, [Path("x"), PurePath("x"), IMAGE], ["x"], "a Path or an array"),
        (Any, [3, None], [], "a value"),
    ],
)
def test_types(hint: Any, good: list[Any], bad: list[Any], text: str) -> None:
    assert all(fits(value, hint) for value in good)
    assert not any(fits(value, hint) for value in bad)
    assert described(hint) == text


def test_a_checked_function_keeps_its_name_and_its_errors() -> None:
    @typed()
    def ratio(a: int, /, by: int = 1) -> float:
        """Return a ratio."""
        return a / by

    assert (ratio.__doc__, ratio(3, by=3)) == ("Return a ratio.", 1.0)
    with pytest.raises(ZeroDivisionError):
        ratio(1, by=0)
    with pytest.raises(InvalidArgumentError, match="ratio: by is a string"):
        ratio(1, by="1")  # type: ignore[arg-type]


def test_messages_of_configurations_are_of_the_kind_of_a_configuration() -> None:
    with pytest.raises(ConfigurationError):
        ft.data.DataOptions(patches="3")  # type: ignore[arg-type]
