# SPDX-License-Identifier: Apache-2.0
"""A whole training of a flood-filling network against the same training written with PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import training_volume

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="PyTorch is not installed (dependency group `oracle`)",
    ),
]


def test_losses_equal_those_of_pytorch(tmp_path: Path) -> None:
    """Rounding of another processor may move one walker in one of three trainings of 300 updates, not more."""
    from golden import flood_training

    training_volume.write_volume(tmp_path)
    whole = 0
    for seed in range(3):
        own, twin = flood_training.both(tmp_path, 300, seed)
        np.testing.assert_allclose(own[:100], twin[:100], rtol=1e-3)
        whole += bool(np.allclose(own, twin, rtol=1e-3, atol=0))
        assert own[-50:].mean() == pytest.approx(twin[-50:].mean(), rel=0.05)
        assert own[-50:].mean() < 0.6 * own[:50].mean()  # they have learnt something
    assert whole >= 2
