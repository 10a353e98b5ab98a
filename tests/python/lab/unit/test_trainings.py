# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of whole trainings compute from their measurements."""

from __future__ import annotations

import pytest

from floodtide.lab.bench import stalls

pytestmark = pytest.mark.extra


def test_prediction_of_loads_inside_of_the_step() -> None:
    assert stalls.predict(0.01, 1.0, 4.0, 1) == pytest.approx(0.01 + 1.0 / 4)
    # Two ranks that need patches at different steps: 1 - (1 - 1/4)^2 of the steps load.
    assert stalls.predict(0.01, 1.0, 4.0, 2) == pytest.approx(0.01 + 7 / 16, rel=0.05)
