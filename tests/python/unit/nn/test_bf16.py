# SPDX-License-Identifier: Apache-2.0
"""Flood-filling networks with bfloat16 operands: errors, a whole training, threads, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from training_volume import document, write_volume

import floodtide as ft
from floodtide import _core, config
from floodtide.errors import UnsupportedError
from floodtide.train import Trainer

Array = NDArray[np.float32]
ROUNDING = 2.0**-9
"""Largest relative error of a number that is rounded to bfloat16."""


@pytest.fixture
def amx() -> None:
    """Skip the test on processors without AMX."""
    try:
        ft.nn.FFN(depth=1, compute="bf16")
    except UnsupportedError as error:
        if "AMX" not in str(error):
            raise
        pytest.skip(f"this processor or its level cannot: {error}")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = _core.num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


def _ffn(compute: str, depth: int = 2) -> ft.nn.FFN:
    return ft.nn.FFN(depth, fov=(11, 9, 13), deltas=(2, 2, 2), features=32, compute=compute)


def _example() -> tuple[Array, Array, Array]:
    random = np.random.default_rng(3)
    image, logits = random.standard_normal((2, 11, 9, 13)).astype(np.float32)
    return image, logits, random.random(image.shape).astype(np.float32)


def _distances(got: dict[str, Array], expected: dict[str, Array]) -> list[float]:
    return [
        float(np.linalg.norm(got[name] - array) / np.linalg.norm(array))
        for name, array in expected.items()
    ]


@pytest.mark.usefixtures("amx")
@pytest.mark.parametrize("depth", [1, 2, 9])
def test_results_differ_by_the_rounding_of_operands(depth: int) -> None:
    exact, rounded = _ffn("fp32", depth), _ffn("bf16", depth)
    image, logits, labels = _example()
    loss, gradients = exact.loss_and_gradients(image, logits, labels)
    rounded_loss, rounded_gradients = rounded.loss_and_gradients(image, logits, labels)

    assert "amx_bf16" in rounded.core.kernel_names()
    assert 0 < abs(rounded_loss - loss) <= ROUNDING * loss
    distances = _distances(rounded_gradients, gradients)
    # Layers round in both directions, and change signs of ReLUs. Measured: 4.6e-2 and 7.0e-2.
    assert np.median(distances) <= 32 * ROUNDING
    assert max(distances) <= 64 * ROUNDING
    change = exact.forward(image, logits) - logits
    difference = rounded.forward(image, logits) - logits - change
    assert np.std(difference) <= 6 * ROUNDING * np.std(change)  # measured: 5.4e-3


@pytest.mark.usefixtures("amx")
def test_forward_passes_of_training_and_inference_are_the_same() -> None:
    network = _ffn("bf16")
    image, logits, labels = _example()
    updated = network.forward(image, logits)
    network.loss_and_gradients(image, logits, labels)
    masks = network.core.relu_masks()
    np.testing.assert_array_equal(network.forward(image, logits), updated)
    assert masks.shape == (4, *image.shape, 32)
    assert 0.3 < masks.mean() < 0.7


@pytest.mark.usefixtures("amx")
def test_results_do_not_depend_on_the_number_of_threads(threads: Callable[[int], None]) -> None:
    results = []
    for count in (1, 2, 4):
        threads(count)
        network = _ffn("bf16")
        results.append(network.loss_and_gradients(*_example())[1])
    for gradients in results[1:]:
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(gradient, results[0][name], err_msg=name)


@pytest.mark.usefixtures("amx")
def test_training_goes_as_in_float32(tmp_path: Path) -> None:
    write_volume(tmp_path)
    losses = {}
    for compute, count in (("fp32", 1), ("bf16", 1), ("bf16", 2), ("bf16", 4)):
        run = {"dir": str(tmp_path / f"{compute}-{count}"), "compute": compute, "threads": count}
        settings = document(
            tmp_path, run=run, model={"features": 32}, training={"steps": 100, "walkers": 2}
        )
        trainer = Trainer.from_config(config.from_dict(settings))
        losses[compute, count] = np.array([trainer.step().loss for _ in range(100)])
        trainer.close()

    exact, rounded = losses["fp32", 1], losses["bf16", 1]
    np.testing.assert_allclose(rounded[:3], exact[:3], rtol=4 * ROUNDING)
    # Measured over 150 steps of three seeds: 0.4 % of the first 20 losses, 5.2 % of the last 50.
    assert rounded[:20].mean() == pytest.approx(exact[:20].mean(), rel=0.02)
    assert rounded[-50:].mean() == pytest.approx(exact[-50:].mean(), rel=0.1)
    for count in (2, 4):
        np.testing.assert_array_equal(losses["bf16", count], rounded)


@pytest.mark.parametrize(
    ("arguments", "level", "message"),
    [
        (["step"], "avx2", "ffn: compute is bf16: needs AMX, the level is avx2; choose fp32"),
        (["unet"], "", "unet: compute is bf16, which only flood-filling networks have; choose"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], level: str, message: str) -> None:
    if level == "avx2" and _core.processor_isa() not in ("avx2", "avx512"):
        pytest.skip("this processor has no AVX2")
    command = ["-m", "floodtide", "bench", *arguments, "--set", "run.compute=bf16"]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "FLOODTIDE_ISA": level},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("amx")
def test_features_that_do_not_fill_tiles_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="48 feature maps, expected a multiple of 32"):
        ft.nn.FFN(depth=1, features=48, compute="bf16")


@pytest.mark.data
@pytest.mark.extra
@pytest.mark.usefixtures("amx")
def test_errors_of_the_published_network(data_folder: Path) -> None:
    folder = data_folder / "ffn_fib25_checkpoint"
    with np.load(folder / "gradient_vectors.npz") as vectors:
        stored = dict(vectors)
    image = ((stored["image_raw"].astype(np.float32) - 128) / 33).astype(np.float32)
    arrays = image, stored["seed"], stored["labels"], stored["weights"]
    logits, gradients = {}, {}
    for compute in ("fp32", "bf16"):
        network = ft.nn.load(folder / "model.ckpt-27465036", compute=compute)
        assert isinstance(network, ft.nn.FFN)
        loss, gradients[compute] = network.loss_and_gradients(*arrays)
        assert loss == pytest.approx(float(stored["loss"]), rel=ROUNDING)
        logits[compute] = network.forward(*arrays[:2])
    difference = logits["bf16"] - logits["fp32"]
    assert np.std(difference) <= 2 * ROUNDING * np.std(logits["fp32"])
    distances = _distances(gradients["bf16"], gradients["fp32"])
    # Measured: 8.6e-4 (logits), 1.0e-2 and 3.4e-2 (median and worst gradient).
    assert np.median(distances) <= 10 * ROUNDING
    assert max(distances) <= 25 * ROUNDING
