# SPDX-License-Identifier: Apache-2.0
"""Threads that share networks: the results of one thread, bit for bit, or one line that says who uses the network."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_volume
from flat_unet import flat_unet
from thread_programs import (
    OPTIONS,
    blobs,
    forwards,
    gradients,
    growing_network,
    noise,
    on_threads,
    prediction,
    random_program,
    segmentation,
    training,
)

from floodtide import config, nn, optim
from floodtide.errors import InUseError, InvalidArgumentError
from floodtide.segment import Segmenter
from floodtide.segment.predict import Predictor
from floodtide.train import Trainer

IN_USE = "the network is in use by another thread"


def in_thread(work: Callable[[], Any]) -> None:
    """Do work in another thread, and raise its exception here."""
    [result] = on_threads([work])
    if isinstance(result, Exception):
        raise result


def small() -> nn.FFN:
    return nn.FFN(depth=2, features=4, fov=(7, 7, 7), deltas=(2, 2, 2), seed=1)


def test_segmentations_with_one_network() -> None:
    model = growing_network()
    work = [segmentation(model, seed) for seed in range(4)]
    alone = [one() for one in work]
    assert len({labels.max() for labels in alone}) > 1
    for found, expected in zip(on_threads(work), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_forward_passes_beside_a_segmentation() -> None:
    model = growing_network()
    work = [
        segmentation(model, 1),
        *(forwards(model, size, 20) for size in ((9, 9, 9), (5, 12, 7), (9, 9, 9))),
    ]
    alone = [one() for one in work]
    for found, expected in zip(on_threads(work), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_eight_threads() -> None:
    model, unet = growing_network(), flat_unet()
    work = [
        segmentation(model, 1),
        segmentation(model, 2, "fastest"),
        forwards(model, (5, 6, 7)),
        gradients(model, (9, 9, 9)),
        prediction(unet, 3),
        prediction(unet, 4),
        training(5),
        training(6),
    ]
    alone = [one() for one in work]
    for found, expected in zip(on_threads(work), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.extra
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        expected = [one() for one in random_program(seed)]
        found = on_threads(random_program(seed))
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert not isinstance(one, Exception), (seed, number, one)
            np.testing.assert_array_equal(one, other, err_msg=f"program {seed}, thread {number}")


def test_forward_beside_a_training_uses_the_parameters_between_two_steps(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 20, "walkers": 2})
    image, logits = noise(6, 7, 8), noise(6, 7, 8, seed=1)
    found: list[bytes] = []
    over = threading.Event()
    with Trainer.from_config(config.from_dict(document)) as trainer:
        states = [trainer.model.state_dict()]

        def train() -> None:
            states.extend(trainer.model.state_dict() for _ in trainer)
            over.set()

        def evaluate() -> None:
            while not over.is_set():
                found.append(trainer.model.forward(image, logits).tobytes())

        results = on_threads([train, evaluate, evaluate, evaluate])
        assert not [result for result in results if isinstance(result, Exception)]
    expected = set()
    other = small()
    for state in states:
        other.load_state_dict(state)
        expected.add(other.forward(image, logits).tobytes())
    assert len(expected) > 10
    assert set(found) <= expected


def test_a_segmentation_does_not_mix_old_and_new_parameters() -> None:
    model = growing_network()
    others = copy.deepcopy(model)

    def change(done: int, total: int) -> None:
        in_thread(lambda: model.load_state_dict({k: 2 * v for k, v in others.state_dict().items()}))

    with pytest.raises(InUseError, match=f"^segment: {IN_USE}, which has changed its parameters"):
        Segmenter(model, OPTIONS).segment(blobs(1), progress=change)
    with pytest.raises(InUseError, match=f"^segment: {IN_USE}"):
        Segmenter(model, OPTIONS).segment_at(blobs(1), (10, 11, 12), lambda move: change(0, 0))


def test_a_prediction_does_not_mix_old_and_new_parameters() -> None:
    model = flat_unet()
    blocks = Predictor(model, mean=0.0, std=1.0, memory_mib=2).blocks(blobs(1))
    next(blocks)
    in_thread(lambda: model.load_state_dict(flat_unet(seed=1).state_dict()))
    with pytest.raises(InUseError, match=f"^predict: {IN_USE}"):
        next(blocks)


def test_equal_parameters_are_no_change() -> None:
    model = growing_network()
    model.parameters()

    def look(done: int, total: int) -> None:
        in_thread(lambda: model.forward(noise(5, 5, 5), noise(5, 5, 5)))

    assert Segmenter(model, OPTIONS).segment(blobs(1), progress=look).segments > 0


def test_nobody_changes_a_network_during_a_training_step(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 1, "walkers": 2})
    refused = []
    with Trainer.from_config(config.from_dict(document)) as trainer:
        model = trainer.model
        state, values = model.state_dict(), model.parameters()
        zeros = {name: np.zeros_like(array) for name, array in values.items()}

        def hook(*_: Any) -> None:
            for change in (
                lambda: model.load_state_dict(state),
                lambda: optim.SGD(lr=0.1).step(values, zeros),
            ):
                with pytest.raises(InUseError) as error:
                    in_thread(change)
                refused.append(str(error.value))

        trainer._core.set_bucket_hook(hook)
        for _ in trainer:
            pass
    assert refused
    assert all("the network is in use by" in message and "\n" not in message for message in refused)


def test_one_thread_uses_a_trainer(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 3, "walkers": 2})
    refused = []
    with Trainer.from_config(config.from_dict(document)) as trainer:

        def hook(*_: Any) -> None:
            for use in (trainer.step, trainer.save, trainer.run, trainer.close):
                with pytest.raises(InUseError) as error:
                    in_thread(use)
                refused.append(str(error.value))

        trainer._core.set_bucket_hook(hook)
        trainer.run()
        assert trainer.steps_done == 3
    assert {message.partition(":")[0] for message in refused} == {
        "Trainer.step",
        "Trainer.save",
        "Trainer.close",
    }
    with pytest.raises(InvalidArgumentError, match="this trainer is closed"):
        trainer.step()


def test_two_threads_do_not_train_one_network() -> None:
    model = flat_unet(synchronised=True)
    images, masks = noise(2, 1, 8, 8), np.ones((2, 1, 8, 8), np.uint8)
    refused = []

    def sums(values: list[float]) -> list[float]:
        with pytest.raises(InUseError) as error:
            in_thread(lambda: model.load_state_dict(model.state_dict()))
        refused.append(str(error.value))
        return values

    model.loss_and_gradients(images, masks, sum_over_ranks=sums)
    assert refused
    assert all("in use by a training pass" in message for message in refused)


def test_an_optimizer_changes_all_arrays_at_once() -> None:
    """Passes of other threads see the parameters before or after a step, also in a training loop of the caller."""
    model = small()
    image, logits = noise(7, 7, 7), noise(7, 7, 7, seed=1)
    steps = {name: np.full_like(array, 1e-2) for name, array in model.state_dict().items()}
    expected, found = [model.forward(image, logits).tobytes()], []
    other = copy.deepcopy(model)
    for _ in range(40):
        optim.SGD(lr=1.0).step(other.parameters(), steps)
        expected.append(other.forward(image, logits).tobytes())
    over = threading.Event()

    def train() -> None:
        for _ in range(40):
            optim.SGD(lr=1.0).step(model.parameters(), steps)
        over.set()

    def evaluate() -> None:
        while not over.is_set():
            found.append(model.forward(image, logits).tobytes())

    on_threads([train, evaluate, evaluate, evaluate])
    assert set(found) <= set(expected)
    assert model.forward(image, logits).tobytes() == expected[-1]
