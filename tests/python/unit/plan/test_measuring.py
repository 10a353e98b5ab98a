# SPDX-License-Identifier: Apache-2.0
"""How the planner measures the speed of a machine on which other programs run."""

from __future__ import annotations

import time

import pytest

from floodtide.plan import networks


def test_a_momentary_load_does_not_change_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def a_pass() -> None:
        nonlocal now_s
        now_s += 0.5 if 0.4 < now_s < 2.4 else 0.1

    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    assert networks._passes_per_s(a_pass) == pytest.approx(10)
    assert now_s < 4
