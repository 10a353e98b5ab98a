# SPDX-License-Identifier: Apache-2.0
"""Networks whose convolutions round their operands to bfloat16: errors, threads, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.case import Array, distance
from golden.unets import batch_of, network_of

import floodtide as ft
from floodtide import _core
from floodtide.errors import UnsupportedError

ROUNDING = 2.0**-9
"""Largest relative error of a number that is rounded to bfloat16."""


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _core.num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


def _ffn_example() -> tuple[Array, Array, Array]:
    random = np.random.default_rng(3)
    image, logits = random.standard_normal((2, 2, 11, 9, 13)).astype(np.float32)
    return image, logits, random.random(image.shape).astype(np.float32)


def _ffn(compute: str) -> ft.nn.FFN:
    return ft.nn.FFN(depth=2, fov=(11, 9, 13), deltas=(2, 2, 2), features=16, compute=compute)


def test_gradients_of_an_ffn_differ_by_the_rounding_of_operands() -> None:
    results = {}
    for compute in ("fp32", "bf16-all"):
        network = _ffn(compute)
        assert network.compute == compute
        assert ("bf16" in network.core.kernel_names()) == (compute == "bf16-all")
        results[compute] = network.loss_and_gradients(*_ffn_example())
    loss, expected = results["fp32"]
    rounded_loss, got = results["bf16-all"]
    assert 0 < abs(rounded_loss - loss) <= ROUNDING * loss
    for name, gradient in expected.items():
        # Four layers round in both directions, and change signs of ReLUs. Measured: up to 25 roundings.
        assert distance(got[name], gradient) <= 40 * ROUNDING, name


@pytest.mark.parametrize(
    ("kind", "depth", "size"),
    [(ft.nn.UNet2D, 2, (8, 12)), (ft.nn.UNet3D, 4, (4, 8, 8))],
    ids=["2d", "3d"],
)
def test_probabilities_of_u_nets_differ_by_the_rounding_of_operands(
    kind: Any, depth: int, size: tuple[int, ...]
) -> None:
    probabilities = {}
    for compute in ("fp32", "bf16-all"):
        network = network_of(kind, depth=depth, compute=compute)
        images, masks, _ = batch_of(network, 2, size)
        network.loss_and_gradients(images, masks)
        assert ("bf16" in network.core.kernel_names()) == (compute == "bf16-all")
        probabilities[compute] = network.forward(images)
    difference = np.abs(probabilities["bf16-all"] - probabilities["fp32"])
    assert 0 < difference.max() <= 20 * ROUNDING


def test_results_do_not_depend_on_the_number_of_threads(threads: Callable[[int], None]) -> None:
    results = []
    for count in (1, 2, 4):
        threads(count)
        results.append(_ffn("bf16-all").loss_and_gradients(*_ffn_example()))
    for loss, gradients in results[1:]:
        assert loss == results[0][0]
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(gradient, results[0][1][name], err_msg=name)


@pytest.mark.parametrize("kind", [ft.nn.FFN, ft.nn.UNet2D, ft.nn.UNet3D])
def test_bf16_without_its_instructions_is_refused(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODTIDE_ISA", "generic")
    with pytest.raises(
        UnsupportedError, match=r"needs AMX \(.*\) or AVX512-BF16 \(.*; choose fp32"
    ):
        kind(compute="bf16")
    assert kind(compute="bf16-all").core.options.compute == "bf16-all"


@pytest.mark.data
@pytest.mark.extra
def test_errors_of_the_published_network(data_folder: Path) -> None:
    folder = data_folder / "ffn_fib25_checkpoint"
    with np.load(folder / "gradient_vectors.npz") as vectors:
        stored = dict(vectors)
    image = ((stored["image_raw"].astype(np.float32) - 128) / 33).astype(np.float32)
    arrays = image, stored["seed"], stored["labels"], stored["weights"]
    logits, gradients = {}, {}
    for compute in ("fp32", "bf16-all"):
        network = ft.nn.load(folder / "model.ckpt-27465036", compute=compute)
        loss, gradients[compute] = network.loss_and_gradients(*arrays)
        assert loss == pytest.approx(float(stored["loss"]), rel=ROUNDING)
        logits[compute] = network.forward(*arrays[:2])
    # Measured: 1.8e-3 (logits), 1.2e-2 and 3.0e-2 (median and worst gradient).
    difference = logits["bf16-all"] - logits["fp32"]
    assert np.std(difference) <= 2 * ROUNDING * np.std(logits["fp32"])
    distances = [
        distance(gradients["bf16-all"][name], gradient)
        for name, gradient in gradients["fp32"].items()
    ]
    assert np.median(distances) <= 10 * ROUNDING
    assert max(distances) <= 25 * ROUNDING
