# SPDX-License-Identifier: Apache-2.0
"""U-Nets from Python: splits over ranks, training, files, arguments. `test_pytorch.py` compares them with PyTorch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flat_unet import flat_unet
from golden.case import Array, distance
from golden.unets import SLICES, batch_of, network_of

import floodtide as ft
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.nn import SegmentationLoss
from floodtide.nn.load import load_ffn


class Ranks:
    """Sums over ranks that are threads."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=60)
        self.lock = threading.Lock()
        self.sums: list[Array] = []

    def sum(self, values: list[float]) -> list[float]:
        with self.lock:
            self.sums.append(np.array(values))
        self.barrier.wait()
        total: list[float] = np.sum(self.sums, axis=0).tolist()
        if self.barrier.wait() == 0:
            self.sums.clear()
        self.barrier.wait()
        return total


@pytest.mark.parametrize("synchronised", [False, True])
@pytest.mark.parametrize("parts", [2, 4])
def test_a_batch_of_eight_is_the_same_on_one_two_and_four_ranks(
    parts: int, synchronised: bool
) -> None:
    options = {"depth": 2, "batch_norm": synchronised, "synchronised": synchronised}
    whole = network_of(**SLICES, **options)
    images, masks, _ = batch_of(whole, 8, (1, 8, 8))
    loss = SegmentationLoss(over_batch=True)
    value, expected = whole.loss_and_gradients(images, masks, loss=loss)
    ranks = Ranks(parts)
    networks = [network_of(**SLICES, **options) for _ in range(parts)]
    results: dict[int, tuple[float, dict[str, Array]]] = {}

    def run(rank: int) -> None:
        part = slice(rank * 8 // parts, (rank + 1) * 8 // parts)
        results[rank] = networks[rank].loss_and_gradients(
            images[part], masks[part], loss=loss, sum_over_ranks=ranks.sum
        )

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.mean([results[rank][0] for rank in range(parts)]) == pytest.approx(value, rel=1e-6)
    for name, gradient in expected.items():
        got = sum(results[rank][1][name] for rank in range(parts)) / parts
        assert distance(got, gradient) <= 1e-5, name
    moved = whole.state_dict()
    for network in networks if synchronised else ():
        for name, array in network.state_dict().items():
            np.testing.assert_allclose(array, moved[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_moving_statistics_approach_the_batch() -> None:
    network = flat_unet(1)
    images = np.random.default_rng(7).standard_normal((4, 1, 8, 8)).astype(np.float32)
    masks = (images > 0).astype(np.uint8)
    before = network.state_dict()
    network.loss_and_gradients(images, masks)
    after = network.state_dict()
    assert all(np.array_equal(before[n], after[n]) for n in before if "conv" in n or "head" in n)
    weights = before["encoder0/conv_a/weights"]  # (1, 3, 3, 1, out)
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1))).astype(np.float64)
    raw = sum(
        padded[:, y : y + 8, x : x + 8, None] * weights[0, y, x, 0]
        for y in range(3)
        for x in range(3)
    )
    mean, variance = raw.mean((0, 1, 2)), raw.var((0, 1, 2), ddof=1)
    np.testing.assert_allclose(after["encoder0/norm_a/mean"], 0.1 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after["encoder0/norm_a/variance"], 0.9 + 0.1 * variance, rtol=1e-4)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_forward_and_training_passes_do_not_disturb_each_other(batch_norm: bool) -> None:
    """A forward pass makes the moving statistics part of the weights, which a training pass uses as they are."""
    images = np.random.default_rng(7).standard_normal((4, 1, 8, 8)).astype(np.float32)
    masks = (images > 0).astype(np.uint8)
    network = flat_unet(seed=1, batch_norm=batch_norm)
    network.loss_and_gradients(images, masks)  # moves the statistics
    fresh = flat_unet(seed=2, batch_norm=batch_norm)
    fresh.load_state_dict(network.state_dict())
    expected = fresh.forward(images)
    _, gradients = network.loss_and_gradients(images, masks)
    network.load_state_dict(fresh.state_dict())
    for _ in range(2):
        np.testing.assert_array_equal(network.forward(images), expected)
        _, again = network.loss_and_gradients(images, masks)
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(again[name], gradient, err_msg=name)
        network.load_state_dict(fresh.state_dict())


def test_sections_that_are_computed_one_by_one() -> None:
    """Sections of 264 x 272 pixels are a band each: more of them do not stay in the cache together."""
    random = np.random.default_rng(7)
    images = random.standard_normal((3, 1, 264, 272)).astype(np.float32)
    network = flat_unet(depth=3)
    state = network.state_dict()
    for name in network.statistics():
        state[name] = random.uniform(0.5, 2, state[name].shape).astype(np.float32)
    network.load_state_dict(state)
    got = network.forward(images)
    for image, probabilities in zip(images, got, strict=True):
        np.testing.assert_array_equal(network.forward(image[None])[0], probabilities)


def test_training_lowers_the_loss_and_finds_the_mask() -> None:
    random = np.random.default_rng(8)
    masks = np.zeros((4, 1, 32, 32), np.uint8)
    masks[..., 8:24, 6:20] = 1
    images = (masks + 0.5 * random.standard_normal(masks.shape)).astype(np.float32)
    network = flat_unet(3)
    optimizer = ft.optim.Adam(lr=1e-2)
    losses = []
    for _ in range(60):
        loss, gradients = network.loss_and_gradients(images, masks)
        optimizer.step(network.parameters(), gradients)
        losses.append(loss)
    assert losses[-1] < 0.2 * losses[0]
    found = network.forward(images)[..., 1] > 0.5
    overlap = 2 * np.sum(found & (masks == 1)) / (found.sum() + masks.sum())
    assert overlap > 0.95


def test_parameters_and_statistics_are_all_that_a_file_holds() -> None:
    network = flat_unet()
    trained, statistics = network.parameters(), network.statistics()
    assert set(statistics) == {
        name for name in network.state_dict() if name.endswith(("/mean", "/variance"))
    }
    assert trained.keys() | statistics.keys() == network.state_dict().keys()
    assert not trained.keys() & statistics.keys()
    statistics["encoder0/norm_a/mean"][...] = 3  # it is the network's own
    assert (network.state_dict()["encoder0/norm_a/mean"] == 3).all()


def test_dropout_is_decided_by_the_example_alone() -> None:
    network = flat_unet(dropout=0.5, batch_norm=False, seed=9)
    images = np.random.default_rng(9).standard_normal((2, 1, 8, 8)).astype(np.float32)
    masks = (images > 0).astype(np.uint8)

    def gradients(order: list[int], examples: list[int]) -> Array:
        _, named = network.loss_and_gradients(images[order], masks[order], examples=examples)
        return named["encoder1/conv_b/weights"]

    first = gradients([0, 1], [10, 11])
    np.testing.assert_allclose(gradients([1, 0], [11, 10]), first, rtol=1e-4, atol=1e-7)
    assert distance(gradients([0, 1], [10, 12]), first) > 0.1
    with pytest.raises(InvalidArgumentError, match="numbers of examples for dropout"):
        network.loss_and_gradients(images, masks)


@pytest.mark.parametrize("size", [(1, 1), (13, 30), (16, 16)])
def test_forward_takes_any_size(size: tuple[int, int]) -> None:
    network = network_of(**SLICES, depth=3)
    images = np.random.default_rng(1).standard_normal((2, 1, *size)).astype(np.float32)
    padded = np.zeros((2, 1, 32, 32), np.float32)
    padded[..., : size[0], : size[1]] = images
    rounded = padded[..., : -(-size[0] // 4) * 4, : -(-size[1] // 4) * 4]
    got = network.forward(images)
    assert got.shape == (2, 1, *size, 2)
    expected = network.forward(np.ascontiguousarray(rounded))[:, :, : size[0], : size[1]]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    "network",
    [
        flat_unet(classes=3, seed=1),
        ft.nn.UNet(
            ft.nn.UNetOptions(
                depth=2, kernels=((1, 3, 3), (3, 3, 3)), pools=((1, 2, 2),), batch_norm=False
            ),
            classes=3,
            output="sigmoid",
        ),
    ],
    ids=["slices", "volumes"],
)
def test_a_file_gives_the_network_back(network: Any, tmp_path: Path) -> None:
    for array in (network.parameters() | network.statistics()).values():
        array += 1
    network.save(tmp_path / "network.h5")
    loaded = ft.nn.load(tmp_path / "network.h5", compute="fp32-direct")
    assert type(loaded) is type(network)
    assert repr(loaded) == repr(network)
    assert loaded.core.options.compute == "fp32-direct"
    assert loaded.core.options.kernels == network.core.options.kernels
    for name, array in network.state_dict().items():
        np.testing.assert_array_equal(loaded.state_dict()[name], array)
    with pytest.raises(InvalidFileError, match="expected a flood-filling network"):
        load_ffn(tmp_path / "network.h5")
    with pytest.raises(InvalidArgumentError, match="no fov"):
        ft.nn.load(tmp_path / "network.h5", fov=(9, 9, 9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 20}, "features is 20, expected a multiple of 16"),
        ({"depth": 0}, "depth is 0, expected 1 to 10"),
        ({"classes": 1}, "classes is 1, expected 2 to 32"),
        ({"dropout": 1.0}, "dropout is 1.0, expected at least 0 and below 1"),
        ({"output": "tanh"}, "output is 'tanh', expected softmax or sigmoid"),
        ({"batch_norm": False, "synchronised": True}, "synchronised statistics"),
    ],
)
def test_options_outside_their_ranges_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        network_of(**SLICES, **options)


def test_wrong_kernels_and_pools_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="there are 2 kernels, expected 1 or 3"):
        network_of(depth=3, kernels=((1, 3, 3),) * 2, pools=((1, 2, 2),))
    with pytest.raises(InvalidArgumentError, match=r"kernels is \(1, 2, 3\), expected 1 or 3"):
        network_of(depth=3, kernels=((1, 2, 3),), pools=((1, 2, 2),))
    with pytest.raises(InvalidArgumentError, match=r"pools\.0\.1 is 5, expected 1 to 4"):
        network_of(depth=3, kernels=((1, 3, 3),), pools=((1, 5, 2),))


def test_batches_that_do_not_fit_are_refused() -> None:
    network = flat_unet(3)
    images, masks = np.zeros((2, 1, 8, 8), np.float32), np.zeros((2, 1, 8, 8), np.uint8)
    with pytest.raises(
        ShapeError, match=r"the batch has shape \(1, 8, 8\), expected \(n, z, y, x, 1\)"
    ):
        network.forward(images[0])
    with pytest.raises(ShapeError, match=r"expected multiples of \(1, 4, 4\)"):
        network.loss_and_gradients(images[..., :6].copy(), masks[..., :6].copy())
    with pytest.raises(ShapeError, match=r"a mask has shape \(1, 1, 8, 8\)"):
        network.loss_and_gradients(images, masks[:1])
    with pytest.raises(ShapeError, match="2 images in 3 groups"):
        network.loss_and_gradients(images, masks, groups=3)
    with pytest.raises(InvalidArgumentError, match="there is a label 2, expected 0 to 1, or 255"):
        network.loss_and_gradients(images, masks + np.uint8(2))
    with pytest.raises(InvalidArgumentError, match="loss is 'jaccard', expected one of dice"):
        network.loss_and_gradients(images, masks, loss="jaccard")
    with pytest.raises(InvalidArgumentError, match=r"smooth is -1, expected 0 to 1e\+09"):
        network.loss_and_gradients(images, masks, loss=SegmentationLoss(smooth=-1))
