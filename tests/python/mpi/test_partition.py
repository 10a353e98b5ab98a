# SPDX-License-Identifier: Apache-2.0
"""Partitions made by several ranks."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import mpiexec, shared

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


@pytest.fixture
def labels(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 6, (18, 3, 18), dtype=np.int32)
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["stack"] = np.kron(coarse, np.ones((8, 8, 8), np.int32))
    return f"{tmp_path / 'labels.h5'}:stack"


def test_files_do_not_depend_on_the_number_of_ranks(labels: str, tmp_path: Path) -> None:
    command = ["-m", "floodtide", "partition", labels, f"{tmp_path}/p.h5:af"]
    command += ["--lom-radius", "3,4,5", "--min-size", "40000"]
    result = shared(3, command)
    assert result.status == 0, result.stderr
    assert result.stdout.count("out: ") == 1, "one rank prints"

    from floodtide import data

    counts = data.partition(labels, f"{tmp_path}/one.h5:af", lom_radius=(3, 4, 5), min_size=40000)
    assert len(counts) > 3
    with h5py.File(tmp_path / "p.h5") as several, h5py.File(tmp_path / "one.h5") as one:
        np.testing.assert_array_equal(several["af"][:], one["af"][:])
        assert {k: np.asarray(v).tolist() for k, v in several["af"].attrs.items()} == {
            k: np.asarray(v).tolist() for k, v in one["af"].attrs.items()
        }


def test_bad_input_ends_all_ranks_with_one_line(labels: str, tmp_path: Path) -> None:
    command = ["-m", "floodtide", "partition", labels + "s", f"{tmp_path}/p.h5:af"]
    result = shared(2, command, status=2)
    assert result.status == 2
    assert result.stderr.count("has no dataset 'stacks'") == 1, result.stderr
    assert not list(tmp_path.glob("p.h5*"))


THREADS = """
import floodtide as ft
from floodtide import _core, data
ft.init(timeout_s=20)
_core.set_num_threads(1 + ft.rank())
data.partition({labels!r}, {out!r}, lom_radius=(2, 2, 2), min_size=2)
"""


def test_ranks_may_have_different_numbers_of_threads(tmp_path: Path) -> None:
    ids = np.ones((1400, 10, 10), np.int32)  # more blocks than one rank with one thread takes
    with h5py.File(tmp_path / "long.h5", "w") as file:
        file["stack"] = ids
    text = THREADS.format(labels=f"{tmp_path}/long.h5:stack", out=f"{tmp_path}/p.h5:af")

    result = mpiexec(2, ["-c", text], timeout_s=60)

    assert result.status == 0, result.stderr
    with h5py.File(tmp_path / "p.h5") as file:
        assert (file["af"][2:-2, 2:-2, 2:-2] == 13).all()  # filled by the object: above all limits


INTERRUPTED = """
import os, signal
import floodtide as ft
from floodtide import _core, data
ft.init(timeout_s=20)
compute = _core.data.PartitionJob.compute

def compute_with_trouble(job, first, last):
    if ft.rank() == 1:
        {trouble}
    return compute(job, first, last)

_core.data.PartitionJob.compute = compute_with_trouble
data.partition({labels!r}, {out!r}, lom_radius=(3, 4, 5), min_size=2)
"""


@pytest.mark.parametrize(
    "trouble",
    [
        "raise ft.errors.InvalidFileError('the labels are damaged')",
        "os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_trouble_of_one_rank_ends_all_and_leaves_no_result(
    trouble: str, labels: str, tmp_path: Path
) -> None:
    text = INTERRUPTED.format(trouble=trouble, labels=labels, out=f"{tmp_path}/p.h5:af")

    result = mpiexec(3, ["-c", text], timeout_s=60)

    assert result.status != 0
    assert not (tmp_path / "p.h5").exists()
    if trouble.startswith("raise"):
        assert result.stderr.count("InvalidFileError: the labels are damaged") == 1, result.stderr
        assert not list(tmp_path.glob("p.h5*"))
