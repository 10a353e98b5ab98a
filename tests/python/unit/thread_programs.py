# SPDX-License-Identifier: Apache-2.0
"""Work for threads that share networks: each piece of work has one result, whatever other threads do meanwhile."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flat_unet import FLAT, flat_unet

from floodtide import nn, optim
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.predict import Predictor

Work = Callable[[], Any]

OPTIONS = SegmentOptions(
    mean=0.0,
    std=1.0,
    min_segment_size=20,
    move_threshold=0.6,
    min_boundary_dist=(0, 0, 0),
    seed_policy="grid",
    forward="layers",
)


def on_threads(work: Sequence[Work]) -> list[Any]:
    """Return the result or the exception of each piece of work, all done at the same time."""
    results: list[Any] = [None] * len(work)
    begin = threading.Barrier(len(work))

    def run(number: int) -> None:
        begin.wait()
        try:
            results[number] = work[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def noise(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def blobs(seed: int) -> npt.NDArray[np.float32]:
    image = np.random.default_rng(seed).normal(size=(20, 22, 24))
    for axis in range(3):
        for _ in range(3):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return (6 * image / image.std()).astype(np.float32)


def growing_network(fov: int = 9, seed: int = 4) -> nn.FFN:
    """Return a network that raises logits in bright places and lowers them in dark ones, with some noise."""
    model = nn.FFN(depth=2, features=16, fov=(fov,) * 3, deltas=(3, 3, 3), seed=seed)
    state = {name: 0.02 * values for name, values in model.state_dict().items()}
    for channel, sign in ((0, 1), (1, -1)):
        state["seed_update/conv0_a/weights"][1, 1, 1, 0, channel] = sign
        state["seed_update/conv0_b/weights"][1, 1, 1, channel, channel] = 1
        state["seed_update/conv_lom/weights"][0, 0, 0, channel, 0] = 2 * sign
    model.load_state_dict(state)
    return model


def segmentation(model: nn.FFN, seed: int, forward: str = "layers") -> Work:
    options = dataclasses.replace(OPTIONS, forward=forward)
    return lambda: Segmenter(model, options).segment(blobs(seed)).segmentation


def forwards(model: nn.FFN, size: Sequence[int], times: int = 3) -> Work:
    """Evaluate a network several times, and return the logits of all evaluations."""
    return lambda: np.stack(
        [model.forward(noise(*size, seed=i), noise(*size, seed=i + 9)) for i in range(times)]
    )


def gradients(model: nn.FFN, size: Sequence[int]) -> Work:
    def run() -> npt.NDArray[np.float32]:
        image, logits = noise(*size, seed=1), noise(*size, seed=2)
        _, found = model.loss_and_gradients(image, logits, np.full(size, 0.95, np.float32))
        return np.concatenate([values.ravel() for values in found.values()])

    return run


def prediction(model: nn.UNet, seed: int) -> Work:
    """Predict in several blocks."""
    image = blobs(seed)
    return lambda: Predictor(model, mean=0.0, std=1.0, memory_mib=2).probabilities(image)


def training(seed: int) -> Work:
    """Train an own network in an own loop, and return its parameters."""

    def run() -> npt.NDArray[np.float32]:
        model = nn.FFN(depth=2, features=8, fov=(7, 7, 7), deltas=(2, 2, 2), seed=seed)
        optimizer = optim.Adam(lr=1e-2)
        labels = np.full((7, 7, 7), 0.95, np.float32)
        for step in range(5):
            image = noise(7, 7, 7, seed=10 * seed + step)
            _, found = model.loss_and_gradients(image, np.zeros_like(image), labels)
            optimizer.step(model.parameters(), found)
        return np.concatenate([values.ravel() for values in model.state_dict().values()])

    return run


def random_program(seed: int) -> list[Work]:
    """Return the work of 2 to 8 threads, with networks that some of them share."""
    random = np.random.default_rng(seed)
    flooding = [growing_network(int(fov), seed) for fov in random.choice([7, 9, 11], 2)]
    unets: list[nn.UNet] = [
        flat_unet(seed=seed),
        nn.UNet(nn.UNetOptions(depth=2, **FLAT), classes=3, output="sigmoid"),
    ]
    if random.random() < 0.5:  # passes then look whether the caller has written to the parameters
        for network in (*flooding, *unets):
            network.parameters()
    work: list[Work] = []
    for _ in range(int(random.integers(2, 9))):
        number = int(random.integers(0, 100))
        model, unet = flooding[number % 2], unets[number % 2]
        size = [int(n) for n in random.integers(3, 12, 3)]
        work.append(
            [
                segmentation(model, number, str(random.choice(["layers", "fastest"]))),
                forwards(model, size),
                gradients(model, size),
                prediction(unet, number),
                training(number),
            ][int(random.integers(0, 5))]
        )
    return work
