# SPDX-License-Identifier: Apache-2.0
"""Networks, losses and optimizers against PyTorch: against golden vectors everywhere, and live with PyTorch."""

from __future__ import annotations

import importlib.util

import pytest
from golden import vectors
from golden.case import Case, Results, distance

GOLDEN = vectors.read(vectors.FILE)
REMAKE = "remake the golden vectors with `python tests/golden/make.py`"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed (dependency group `oracle`): golden vectors are compared instead",
)
every_case = pytest.mark.parametrize("case", vectors.CASES.values(), ids=list(vectors.CASES))


def check(case: Case, got: Results, expected: Results) -> None:
    """Compare all results of a case."""
    assert got.keys() == expected.keys(), REMAKE
    for name, array in got.items():
        assert array.shape == expected[name].shape, f"{name}: {REMAKE}"
        case.check(name, array, expected[name])


def test_every_case_has_golden_vectors() -> None:
    assert GOLDEN.keys() == vectors.CASES.keys(), REMAKE


@every_case
def test_results_equal_the_golden_vectors(case: Case) -> None:
    check(case, vectors.shortened(case.floodtide()), GOLDEN[case.name])


@pytest.mark.extra
@needs_torch
@every_case
def test_results_equal_pytorch(case: Case) -> None:
    check(case, case.floodtide(), case.pytorch())


@pytest.mark.extra
@needs_torch
@every_case
def test_golden_vectors_are_what_pytorch_computes(case: Case) -> None:
    remade = vectors.shortened(case.pytorch())
    assert remade.keys() == GOLDEN[case.name].keys(), REMAKE
    for name, array in remade.items():
        # Double precision, with room for other orders of sums and for divisions by small numbers.
        assert distance(array, GOLDEN[case.name][name]) <= 1e-9, f"{name}: {REMAKE}"
