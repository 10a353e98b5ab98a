# SPDX-License-Identifier: Apache-2.0
"""verify_gradients on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import floodtide as ft


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
def test_networks_of_any_size_pass(
    depth: int, features: int, size: int, samples: int, seed: int
) -> None:
    network = ft.nn.FFN(depth=depth, features=features, fov=(3, 3, 3), deltas=(1, 1, 1), seed=seed)
    found = ft.verify_gradients(network, *share(samples, size))
    assert found.share_of_bound <= 1
    assert (found.ranks, found.samples) == (1, samples)


class Random(ft.nn.FFN):
    """A network whose gradients differ from call to call."""

    def loss_and_gradients(self, *batch: Any) -> tuple[float, Mapping[str, Any]]:  # type: ignore[override]
        loss, gradients = super().loss_and_gradients(*batch)
        factor = np.float32(np.random.default_rng().random())
        return loss, {name: array * factor for name, array in gradients.items()}


def test_network_that_is_not_deterministic_is_found() -> None:
    network = Random(depth=2, features=4, fov=(9, 9, 9), deltas=(1, 1, 1))
    with pytest.raises(ft.errors.GradientError, match="times the bound for rounding errors"):
        ft.verify_gradients(network, *share())


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"tolerance": 1}, {"unit_roundoff": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    network = ft.nn.FFN(depth=1, features=1, fov=(3, 3, 3), deltas=(1, 1, 1))
    with pytest.raises(ft.errors.InvalidArgumentError, match=r"tolerance is .*, unit_roundoff"):
        ft.verify_gradients(network, *share(), **options)  # type: ignore[arg-type]


def test_no_samples_are_refused() -> None:
    network = ft.nn.FFN(depth=1, features=1, fov=(3, 3, 3), deltas=(1, 1, 1))
    with pytest.raises(ft.errors.ShapeError, match=r"at least one, got \(0, 9, 9, 9\)"):
        ft.verify_gradients(network, *share(samples=0))
