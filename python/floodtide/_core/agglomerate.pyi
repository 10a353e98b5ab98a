# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

import floodtide._core.segment

__all__: list[str] = ["decision_points", "resegment_pair"]

def decision_points(
    labels: numpy.typing.NDArray[numpy.uint64],
    voxel_size: typing.Annotated[collections.abc.Sequence[float], "FixedSize(3)"],
    max_distance: float,
    start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
) -> list[tuple[int, int, tuple[int, int, int], float]]: ...
def resegment_pair(
    flooder: floodtide._core.segment.Flooder,
    labels: numpy.typing.NDArray[numpy.uint64],
    a: int,
    b: int,
    point: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    analysis_radius: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    exclusion_radius: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    point_exclusion: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"] | None,
    attempts: int,
    recovery: float,
    voxel_size: typing.Annotated[collections.abc.Sequence[float], "FixedSize(3)"],
    terminate_early: bool,
) -> dict[str, typing.Any]: ...
