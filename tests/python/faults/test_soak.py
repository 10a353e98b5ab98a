# SPDX-License-Identifier: Apache-2.0
"""The soak of a long training: its arithmetic, and a soak of seconds that finds a leak made on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "mpi")]

from growth import slope, usage, verdict  # noqa: E402
from launch import ENVIRONMENT, skip_without_mpi  # noqa: E402

TIMES_S = np.arange(0, 3600, 10.0)


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, TIMES_S.size)


def test_interval_of_the_slope_holds_the_true_one_about_as_often_as_it_says() -> None:
    fits = [slope(TIMES_S, 50 + 3 * TIMES_S / 3600 + noise(seed)) for seed in range(200)]

    held = sum(fit.low <= 3 <= fit.high for fit in fits)

    assert 0.9 * 200 <= held <= 200


def test_steps_of_an_allocator_do_not_make_the_interval_too_narrow() -> None:
    # Nothing grows, but values stay for long: a walk that returns to its mean.
    values = np.zeros(TIMES_S.size)
    wrong = 0
    for seed in range(100):
        shocks = noise(seed)
        for number in range(1, values.size):
            values[number] = 0.9 * values[number - 1] + shocks[number]
        fitted = slope(TIMES_S, values)
        wrong += not fitted.low <= 0 <= fitted.high
    assert wrong <= 10


def test_verdict_needs_the_whole_interval_on_one_side() -> None:
    leak = slope(TIMES_S, 50 + 20 * TIMES_S / 3600 + noise(0))
    still = slope(TIMES_S, 50 + noise(0))

    assert verdict(leak, 4) == "GROWS"
    assert verdict(still, 4) == "no growth"
    assert verdict(leak, 20) == "undecided"


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="39 samples, expected at least 40"):
        slope(TIMES_S[:39], TIMES_S[:39])


def test_usage_counts_open_files() -> None:
    before = usage(os.getpid())
    with open(os.devnull), open(os.devnull):
        during = usage(os.getpid())
    assert before is not None
    assert during is not None
    assert during.handles == before.handles + 2
    assert during.rss > 1
    assert usage(2**22 + 1) is None


@pytest.mark.slow
@pytest.mark.mpi
def test_soak_of_seconds_finds_the_leak_of_the_ranks() -> None:
    skip_without_mpi()
    options = ["--minutes", "0.2", "--every-s", "2", "--ranks", "1"]
    options += ["--leak-bytes", "20000", "--warm-reports", "1"]
    done = subprocess.run(
        [sys.executable, str(HERE / "soak.py"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, **ENVIRONMENT},
    )

    assert done.returncode == 1, done.stdout + done.stderr
    rows = {tuple(line.split()[:3]): line for line in done.stdout.splitlines()}
    for quantity in ("rss", "handles"):
        assert rows["rank", "0", quantity].endswith("GROWS"), done.stdout
