# SPDX-License-Identifier: Apache-2.0
"""How ranks share subvolumes: against a slow simulation, and in cases with a known answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodtide import errors
from floodtide.segment.schedule import forecast, schedule

CALLS = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


@given(CALLS, st.integers(1, 20))
def test_a_rank_that_is_done_takes_the_next_subvolume(calls: list[int], ranks: int) -> None:
    left, waiting, now = [0] * ranks, list(calls), 0
    while True:  # one network call of each rank at a time
        for rank in range(ranks):
            while left[rank] == 0 and waiting:
                left[rank] = waiting.pop(0)
        if not any(left):
            break
        left = [max(0, work - 1) for work in left]
        now += 1
    found = schedule(calls, ranks)
    assert found.calls == now
    if now:
        assert math.isclose(found.efficiency, sum(calls) / (ranks * now))
        assert 0 <= found.first_idle <= 1


def test_equal_subvolumes_keep_all_ranks_busy() -> None:
    assert schedule([7.0] * 12, 4) == (21.0, 1.0, 1.0)
    assert schedule([7.0] * 13, 4) == (28.0, 13 / 16, 0.75)


def test_one_large_subvolume_at_the_end_keeps_the_others_waiting() -> None:
    found = schedule([1.0] * 9 + [10.0], 3)
    assert found.calls == 13
    assert found.first_idle == 3 / 13


@given(CALLS, st.integers(1, 200), st.integers(1, 50))
def test_a_forecast_lies_between_its_bounds(measured: list[int], count: int, ranks: int) -> None:
    found = forecast(measured, count, ranks)
    # The last subvolume begins as soon as a rank is free.
    most = max(measured) * (1 + (count - 1) / ranks)
    assert min(measured) * math.ceil(count / ranks) <= found.calls <= most * (1 + 1e-12)
    assert 0 < found.efficiency <= 1 + 1e-12
    assert found == forecast(measured, count, ranks)


def test_more_and_smaller_subvolumes_keep_ranks_busier() -> None:
    measured = [100.0, 150.0, 300.0]
    coarse, fine = forecast(measured, 64, 32), forecast([m / 8 for m in measured], 512, 32)
    assert fine.efficiency > coarse.efficiency
    assert fine.calls < coarse.calls


@pytest.mark.parametrize(("count", "ranks"), [(0, 1), (1, 0)])
def test_numbers_out_of_range_are_refused(count: int, ranks: int) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        forecast([1.0], count, ranks)
