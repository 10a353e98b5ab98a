# SPDX-License-Identifier: Apache-2.0
"""verify_gradients finds the faults that distributed training is known for."""

from __future__ import annotations

import pytest
from launch import check

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

# Each rank's share of samples; `faulty` is a way to average that has a fault.
SETUP = """
import numpy as np
import floodtide as ft
ft.init()
rank, size = ft.rank(), ft.size()

def share(samples):
    random = np.random.default_rng(rank)
    image = random.normal(size=(samples, 9, 9, 9)).astype(np.float32)
    labels = (image > 0.2).astype(np.float32) * 0.9 + 0.05
    return image, np.full_like(image, -2.9), labels

def total(gradients, factor=1.0):
    return {n: ft.allreduce(a * np.float32(factor), op=ft.Sum) for n, a in gradients.items()}

def verify(samples=2, **options):
    network = ft.nn.FFN(depth=2, features=4, fov=(9, 9, 9), deltas=(1, 1, 1), seed=7)
    before = network.state_dict()
    try:
        return ft.verify_gradients(network, *share(samples), **options)
    except ft.errors.GradientError as error:
        assert error.agreed
        said = str(error)
    finally:
        after = network.state_dict()
        assert all(np.array_equal(before[n], after[n]) for n in before)
    texts = ft.allgather(np.array([said], dtype="S400"))
    assert (texts == texts[0]).all()  # every rank raises the same
    return said

def show(value):
    if rank == 0:
        print(value)
"""


def test_right_averages_pass_with_equal_and_unequal_shares() -> None:
    out = check(
        2,
        SETUP
        + """
for samples in (2, 1 + 2 * rank):
    found = verify(samples)
    assert found.share_of_bound <= 1 and found.ranks == 2 and found.samples == 4, found
found = verify(average=lambda g: {n: ft.allreduce(a) for n, a in g.items()})
assert found.share_of_bound <= 1
found = verify(average=lambda g: {n: ft.allreduce(a, algorithm="mpi") for n, a in g.items()})
show(found.share_of_bound <= 1)
""",
    )

    assert out.strip() == "True"


FAULTS = {
    "lambda g: total(g, 1 / size**2)": "it is 0.5 times as long",
    "total": "it is 2 times as long",
    "lambda g: g": "differs from the gradient of all samples",
    "lambda g: total(g, 0 if rank == 0 else 1)": "differs from the gradient of all samples",
    "lambda g: total(g, 0)": "it is 0 times as long",
    "lambda g: total(g, np.nan if rank == 1 else 1)": "by nan times the bound",
    "lambda g: total({n: np.round(a, 1) for n, a in g.items()}, 1 / size)": "times the bound for rounding errors",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_in_the_average_is_named(fault: str) -> None:
    out = check(2, SETUP + f"\nshow(verify(average={fault}))\n")

    assert out.startswith("verify_gradients: ")
    assert FAULTS[fault] in out


def test_smallest_fault_beyond_rounding_is_found() -> None:
    """One entry of one rank, changed by ten units in the last place."""
    fault = """
def nudge(g):
    g = {n: a.copy() for n, a in g.items()}
    if rank == 1:
        entry = max(g.values(), key=lambda a: np.abs(a).max())
        index = np.unravel_index(np.abs(entry).argmax(), entry.shape)
        entry[index] *= np.float32(1 + 40 * 2**-24)
    return total(g, 0.5)
show(verify(average=nudge))
"""
    out = check(2, SETUP + fault)

    assert "verify_gradients: the average" in out


def test_other_parameters_on_a_rank_are_named() -> None:
    out = check(
        2,
        SETUP
        + """
network = ft.nn.FFN(depth=2, features=4, fov=(9, 9, 9), deltas=(1, 1, 1), seed=rank)
try:
    ft.verify_gradients(network, *share(1))
except ft.errors.GradientError as error:
    show(error)
""",
    )

    assert "rank 1 has other parameters than rank 0: call floodtide.broadcast_parameters" in out


def test_rank_with_other_kernels_is_found_and_tolerated_on_request() -> None:
    choose = """
import os
if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    os.environ["FLOODTIDE_ISA"] = "generic"
"""
    out = check(
        2,
        choose
        + SETUP
        + """
from floodtide import _core
levels = {bytes(level) for level in ft.allgather(np.array([_core.active_isa()], dtype="S9"))}
found = verify(16)
show("equal kernels" if len(levels) == 1 else found)
show(isinstance(verify(tolerance=1e-4), str))
""",
    )

    first, second = out.splitlines()
    assert (
        first == "equal kernels" or "the average differs from the gradient of all samples" in first
    )
    assert second == "False"


def test_wrong_shares_are_an_error_on_all_ranks() -> None:
    out = check(
        2,
        SETUP
        + """
image, logits, labels = share(2)
try:
    ft.verify_gradients(ft.nn.FFN(depth=1, features=2, fov=(9, 9, 9), deltas=(1, 1, 1)), image, logits[rank:], labels)
except ft.errors.ShapeError as error:
    assert error.agreed
    show(error)
""",
    )

    assert "first axis counts the same samples" in out
    assert "(1, 9, 9, 9)" in out
