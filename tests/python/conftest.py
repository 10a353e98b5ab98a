# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure() -> None:
    """Let tests interrupt what they start: a shell that runs them in the background has them ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real volumes ($FLOODTIDE_DATA, else ../shared/data); skips where it is absent."""
    folder = Path(os.environ.get("FLOODTIDE_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "fib25").is_dir():
        pytest.skip(f"no real volumes in {folder} (set FLOODTIDE_DATA)")
    return folder
