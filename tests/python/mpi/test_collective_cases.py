# SPDX-License-Identifier: Apache-2.0
"""What users of Horovod and PyTorch rely on, as one job for each subject and number of ranks (see cases/)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launch import shared

pytestmark = pytest.mark.mpi

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("subject", ["reductions", "exchanges", "broadcasts", "handles"])
def test_cases_of(subject: str, ranks: int) -> None:
    run(subject, ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_calls_that_differ_are_refused_by_all_ranks(ranks: int) -> None:
    run("mismatches", ranks)


def run(subject: str, ranks: int) -> None:
    names = re.findall(r"^def (case_\w+)", (CASES / f"{subject}.py").read_text("utf-8"), re.M)

    result = shared(ranks, [str(CASES), subject], timeout_s=240)

    assert result.status == 0, f"{result.stdout}\n{result.stderr}"
    assert result.stdout.split() == names
