# SPDX-License-Identifier: Apache-2.0
"""Hosts for the tests of this folder; skips where none can be made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi"), str(HERE.parent / "faults")]

import network  # noqa: E402
from launch import skip_without_mpi  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _able() -> None:
    skip_without_mpi()
    if reason := network.missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def hosts() -> Iterator[network.Network]:
    """Four hosts; tests use the first ones."""
    with network.Network(["alpha", "beta", "gamma", "delta"]) as made:
        yield made
