# SPDX-License-Identifier: Apache-2.0
"""verify_gradients on one rank: the finite differences, and the words for wrong weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import floodtide as ft
from floodtide.comm import verify


def share(samples: int = 2, size: int = 9) -> tuple[Any, Any, Any]:
    image = np.random.default_rng(3).normal(size=(samples, size, size, size)).astype(np.float32)
    labels = (image > 0.2).astype(np.float32) * np.float32(0.9) + np.float32(0.05)
    return image, np.full_like(image, -2.9), labels


@given(
    depth=st.integers(1, 3),
    features=st.integers(1, 8),
    size=st.integers(3, 11),
    samples=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@example(depth=1, features=1, size=5, samples=1, seed=48)  # two kinks
def test_networks_of_any_size_pass(
    depth: int, features: int, size: int, samples: int, seed: int
) -> None:
    network = ft.nn.FFN(depth=depth, features=features, fov=(3, 3, 3), deltas=(1, 1, 1), seed=seed)
    found = ft.verify_gradients(network, *share(samples, size), seed=seed)
    assert found.share_of_bound <= 1
    assert (found.ranks, found.samples) == (1, samples)


class Faulty(ft.nn.FFN):
    """A network whose gradients have a fault."""

    def __init__(self, fault: str) -> None:
        super().__init__(depth=2, features=4, fov=(9, 9, 9), deltas=(1, 1, 1))
        self.fault = fault
        self.random = np.random.default_rng(0)

    def loss_and_gradients(self, *batch: Any) -> tuple[float, Mapping[str, Any]]:  # type: ignore[override]
        loss, gradients = super().loss_and_gradients(*batch)
        if self.fault == "half":
            return loss, {name: array / 2 for name, array in gradients.items()}
        if self.fault == "no biases":
            return loss, {n: a * (0 if n.endswith("biases") else 1) for n, a in gradients.items()}
        return loss, {
            name: array * np.float32(self.random.random()) for name, array in gradients.items()
        }


def test_gradient_of_another_loss_is_found() -> None:
    with pytest.raises(ft.errors.GradientError, match="it is not the derivative of the loss"):
        ft.verify_gradients(Faulty("half"), *share())


def test_gradient_with_missing_parts_is_found_along_the_random_direction() -> None:
    with pytest.raises(ft.errors.GradientError, match="along a random direction the loss rises"):
        ft.verify_gradients(Faulty("no biases"), *share())


def test_network_that_is_not_deterministic_is_named() -> None:
    with pytest.raises(ft.errors.GradientError, match="the network is not deterministic"):
        ft.verify_gradients(Faulty("random"), *share())


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"tolerance": 1}, {"unit_roundoff": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    network = ft.nn.FFN(depth=1, features=1, fov=(3, 3, 3), deltas=(1, 1, 1))
    with pytest.raises(ft.errors.InvalidArgumentError, match=r"tolerance is .*, unit_roundoff"):
        ft.verify_gradients(network, *share(), **options)  # type: ignore[arg-type]


def test_no_samples_are_refused() -> None:
    network = ft.nn.FFN(depth=1, features=1, fov=(3, 3, 3), deltas=(1, 1, 1))
    with pytest.raises(ft.errors.ShapeError, match=r"at least one, got \(0, 9, 9, 9\)"):
        ft.verify_gradients(network, *share(samples=0))


@given(
    counts=st.lists(st.integers(1, 9), min_size=2, max_size=40),
    data=st.data(),
)
def test_words_name_the_rank_whose_weight_is_wrong(counts: list[int], data: st.DataObject) -> None:
    expected = np.array(counts) / sum(counts)
    rank = data.draw(st.integers(0, len(counts) - 1))
    factor = data.draw(st.sampled_from([0.0, 0.5, 2.0, -1.0]))
    weights = expected.copy()
    weights[rank] *= factor
    if np.allclose(weights, 1 / len(counts), rtol=0.01) or len(counts) == 2:
        return  # has a simpler name
    text = verify._explain(weights, expected, counts)
    if factor == 0:
        assert text == f"the gradients of rank {rank} are missing from the average"
    else:
        assert text.startswith(f"rank {rank} enters the average with weight")
