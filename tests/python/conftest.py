# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from shared_jobs import end_shared_jobs

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure(config: pytest.Config) -> None:
    """Let tests interrupt what they start, and give Open MPI's launcher a folder of this session.

    A shell that runs tests in the background has them ignore SIGINT. A launcher that is killed leaves the folder
    ompi.PID behind, and a later one that gets the same process id says that its listener thread failed to start.
    """
    folder = tempfile.mkdtemp(prefix="ompi-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ.update({"PRTE_MCA_prte_tmpdir_base": folder})
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish() -> None:
    """End the jobs that tests with ranks share, after the last test."""
    end_shared_jobs()


@pytest.fixture(scope="session")
def published_file(data_folder: Path) -> Path:
    """The published segmentation of FIB-25; skips where it is absent."""
    path = data_folder / "ffn_fib25_reference/sample-training2.h5"
    if not path.exists():
        pytest.skip(f"no published segmentation {path} (set FLOODTIDE_DATA)")
    return path


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real volumes ($FLOODTIDE_DATA, else ../shared/data); skips where it is absent."""
    folder = Path(os.environ.get("FLOODTIDE_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "fib25").is_dir():
        pytest.skip(f"no real volumes in {folder} (set FLOODTIDE_DATA)")
    return folder
