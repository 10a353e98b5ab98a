# SPDX-License-Identifier: Apache-2.0
"""Recognising launchers, and ranks of a process that no launcher started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import floodtide as ft
from floodtide.comm import launching, world


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # a batch script's own shell
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, ("mpich", 4, 1)),
        ({"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2"}, ("openmpi", 3, 2)),
        (
            {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2", "PMIX_RANK": "2"},
            ("openmpi", 3, 2),
        ),
        ({"PMIX_RANK": "5"}, (None, None, 5)),
        (
            {"PMIX_RANK": "5", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6"},
            (None, 6, 5),
        ),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "6", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "6"},
            (None, 6, 1),
        ),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (None, 2, 1)),
    ],
)
def test_launcher_is_recognised_by_its_variables(
    environ: dict[str, str], expected: tuple[str | None, int | None, int] | None
) -> None:
    launched = launching.launcher(environ)

    assert (launched and (launched.family, launched.ranks, launched.rank)) == expected


def test_library_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_LIBMPI", "/nowhere/libmpi.so")

    with pytest.raises(ft.errors.UnsupportedError, match="no MPI can be used") as caught:
        launching.load(None)

    assert caught.value.agreed
    if any(launching.plugin(family).exists() for family in launching.FAMILIES):
        assert "/nowhere/libmpi.so" in str(caught.value)


def test_importing_starts_no_mpi_and_one_process_needs_none() -> None:
    program = """
import numpy as np, floodtide as ft
def mpi(): return "libmpi" in open("/proc/self/maps").read()
assert not mpi()
ft.init()
assert (ft.rank(), ft.size(), ft.local_rank(), ft.cross_size()) == (0, 1, 0, 1)
assert ft.allreduce(np.float32([1, 2]), algorithm="mpi").tolist() == [1, 2]
assert ft.broadcast_object("x") == "x" and ft.allgather([3]).tolist() == [3]
ft.barrier()
assert not mpi()
"""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI_COMM"))}
    environ["PYTHONPATH"] = str(Path(ft.__file__).parents[1])

    subprocess.run([sys.executable, "-c", program], check=True, env=environ, timeout=60)


def test_training_starts_without_libraries_that_it_does_not_use() -> None:
    """Each module is some ten calls to the file system, and a thousand ranks make them at once."""
    program = """
import sys
import floodtide.train, floodtide.cli.train
heavy = {"h5py", "matplotlib", "scipy", "jinja2", "tensorboardX", "mpi4py", "cloudpickle", "asyncio"}
loaded = {name.split(".")[0] for name in sys.modules}
assert not heavy & loaded, heavy & loaded
assert len(sys.modules) < 350, len(sys.modules)
"""
    environ = {**os.environ, "PYTHONPATH": str(Path(ft.__file__).parents[1])}

    subprocess.run([sys.executable, "-c", program], check=True, env=environ, timeout=60)


def test_collectives_before_init_say_what_to_call() -> None:
    world.shutdown()

    with pytest.raises(ft.errors.Error, match=r"call floodtide\.init\(\) first"):
        ft.rank()


@pytest.fixture
def _one_rank() -> None:
    ft.init()


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"array": np.ones(3, np.int64)}, "Average of int64, expected floating point"),
        ({"array": np.ones(3, np.uint64), "op": ft.Sum}, "uint8, int8 or float16, got uint64"),
        (
            {"array": np.ones(3), "op": "sum"},
            "expected Sum, Average, Min, Max or Product, got 'sum'",
        ),
        ({"array": np.ones(3), "algorithm": "tree"}, "expected one of ring, rabenseifner"),
        ({"array": np.ones(3), "algorithm": "ring:5-"}, "a range that begins at 0"),
        ({"array": np.ones(3), "wire": "bf16"}, "bf16 is for float32, got float64"),
        ({"array": np.ones(3), "wire": "fp8"}, "expected native or bf16"),
    ],
)
def test_allreduce_rejects(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ft.errors.InvalidArgumentError, match=message):
        ft.allreduce(**arguments)


@pytest.mark.usefixtures("_one_rank")
def test_the_environment_names_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_ALLREDUCE", "tree")
    with pytest.raises(ft.errors.InvalidArgumentError, match="expected one of ring, rabenseifner"):
        ft.allreduce(np.ones(3))
    assert (ft.allreduce(np.ones(3), algorithm="ring") == 1).all()


@pytest.mark.usefixtures("_one_rank")
def test_one_rank_has_all_collectives() -> None:
    values = np.float32([[1, 2], [3, 4], [5, 6]])

    handle = ft.allreduce_async(values, wire="bf16")

    assert ft.poll(handle)
    assert (ft.synchronize(handle) == values).all()
    assert (ft.reduce_scatter(values, op=ft.Sum) == values).all()
    assert (ft.allgather(values[:0]) == values[:0]).all()
    assert ft.join() == 0
    assert ft.ProcessSet([0]).size() == 1


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.parametrize(
    ("ranks", "message"),
    [([], "at least one rank"), ([0, 0], "none twice"), ([1], "expected ranks from 0 to 0")],
)
def test_process_set_rejects(ranks: list[int], message: str) -> None:
    with pytest.raises(ft.errors.InvalidArgumentError, match=message):
        ft.ProcessSet(ranks)


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"array": np.float64(3)}, "at least one axis"),
        ({"array": np.ones(3, np.int64)}, "Average of int64"),
        ({"array": np.ones(3), "op": "sum"}, "expected Sum, Average"),
    ],
)
def test_reduce_scatter_rejects(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ft.errors.InvalidArgumentError, match=message):
        ft.reduce_scatter(**arguments)


@pytest.mark.usefixtures("_one_rank")
def test_objects_do_not_travel_as_arrays() -> None:
    with pytest.raises(ft.errors.InvalidArgumentError, match="Python objects"):
        ft.broadcast(np.array([None]))


@pytest.mark.usefixtures("_one_rank")
def test_agreed_passes_the_exception_of_the_only_rank_on() -> None:
    with pytest.raises(KeyError), world.agreed():
        raise KeyError("x")
