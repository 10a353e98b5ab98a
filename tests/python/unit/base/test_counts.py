# SPDX-License-Identifier: Apache-2.0
"""Numbers with a noun in singular or plural."""

from __future__ import annotations

import pytest

from floodtide.base.notes import count_of


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 threads"),
        (1, "1 thread"),
        (1.0, "1 thread"),
        (2, "2 threads"),
        (1.5, "1.5 threads"),
        (1234567, "1234567 threads"),
    ],
)
def test_the_noun_follows_the_number(number: float, expected: str) -> None:
    assert count_of(number, "thread") == expected
