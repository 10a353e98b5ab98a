# SPDX-License-Identifier: Apache-2.0
"""What a training says about its learning rate at the start."""

from __future__ import annotations

import floodtide as ft
from floodtide.optim import advice


def test_the_rate_is_explained() -> None:
    schedule = ft.optim.lr.Schedule("constant", base_lr=1e-3, warmup_steps=200, scale="sqrt")
    assert advice.rate_used(schedule, 16, 1) == (
        "learning rate 0.004 = 0.001 x 4 (scale 'sqrt', 16 walkers), after a linear warm-up from 0.001 in 200"
        " training steps"
    )
    cosine = ft.optim.lr.Schedule("cosine", base_lr=1e-3, total_steps=500, scale="linear_batch")
    assert advice.rate_used(cosine, 2, 4) == (
        "learning rate 0.008 = 0.001 x 8 (scale 'linear_batch', 2 walkers of 4 examples), then schedule 'cosine'"
    )
    assert "from the measured gradient noise scale" in advice.rate_used(
        ft.optim.lr.Schedule("constant", base_lr=1e-3, scale="auto"), 2, 1
    )


def traps(
    optimizer: ft.optim.Optimizer, scale: str, workers: int, warmup: int = 0, batch: int = 1
) -> str:
    schedule = ft.optim.lr.Schedule("constant", base_lr=1e-3, warmup_steps=warmup, scale=scale)
    return " ".join(advice.traps(optimizer, schedule, workers, batch))


def test_known_traps_are_named() -> None:
    assert "grows linearly" in traps(ft.optim.Optimizer("adadelta"), "linear", 4)
    assert "grows linearly" in traps(ft.optim.Adam(), "linear", 4)
    assert "grows linearly" in traps(ft.optim.Adam(), "linear", 4, batch=4)
    assert "grows linearly" in traps(ft.optim.Adam(), "paper", 16)
    assert "warm-up (schedule.warmup_steps) changes nothing" in traps(ft.optim.SGD(), "none", 8, 5)


def test_usual_settings_have_no_warning() -> None:
    assert not traps(ft.optim.Adam(), "linear", 1)
    assert not traps(ft.optim.Adam(), "sqrt", 64)
    assert not traps(ft.optim.Adam(), "sqrt_batch", 4, batch=4)
    assert not traps(ft.optim.SGD(), "linear", 64)
    assert not traps(ft.optim.Optimizer("adadelta"), "none", 64)
    assert not traps(ft.optim.SGD(), "linear", 8, warmup=100)
