# SPDX-License-Identifier: Apache-2.0
"""Networks, losses and optimizers against PyTorch."""

from __future__ import annotations

import importlib.util

import pytest
from golden import vectors
from golden.case import Case

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed (dependency group `oracle`)",
)
every_case = pytest.mark.parametrize("case", vectors.CASES.values(), ids=list(vectors.CASES))


@needs_torch
@every_case
def test_results_equal_pytorch(case: Case) -> None:
    got, expected = case.floodtide(), case.pytorch()
    assert got.keys() == expected.keys()
    for name, array in got.items():
        assert array.shape == expected[name].shape
        case.check(name, array, expected[name])
