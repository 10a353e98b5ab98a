# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

import floodtide._core
import floodtide._core.data

__all__: list[str] = [
    "Flooder",
    "Result",
    "check_output",
    "closed_bits",
    "compare_overlap",
    "connected",
    "connected_components",
    "consensus",
    "find_seeds",
    "grow",
    "placement",
    "read_origins",
    "read_seeds",
    "seed_policies",
    "split_consensus",
]

class Result:
    def grow(self, steps: int) -> None: ...
    def labels(self) -> numpy.typing.NDArray[typing.Any]: ...
    def origins(self) -> list[tuple[int, tuple[int, int, int], int, int, float]]: ...
    def overlaps(self) -> list[tuple[int, int, int]]: ...
    def probability(self) -> numpy.typing.NDArray[numpy.uint8]: ...
    def write(self, path: str, dataset: str, notes: collections.abc.Mapping[str, str]) -> None: ...
    @property
    def counters(self) -> dict[str, int]: ...
    @property
    def start(self) -> typing.Annotated[list[int], "FixedSize(3)"]: ...
    @property
    def volume_shape(self) -> typing.Annotated[list[int], "FixedSize(3)"]: ...

class Flooder:
    def __init__(
        self,
        image: numpy.typing.NDArray[numpy.float32],
        mean: float,
        std: float,
        predictor: floodtide._core.Ffn
        | collections.abc.Callable[
            [numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]],
            numpy.typing.NDArray[numpy.float32],
        ],
        forward: str,
        **kwargs: typing.Any,
    ) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def logits(self) -> numpy.typing.NDArray[numpy.float32]: ...
    def restore(self, state: dict[str, typing.Any]) -> None: ...
    def segment_all(
        self,
        seeds: numpy.typing.NDArray[numpy.int64],
        progress: collections.abc.Callable[[int, int], typing.Any] | None,
        checkpoint: collections.abc.Callable[[], typing.Any] | None = None,
    ) -> None: ...
    def segment_at(
        self,
        start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        on_move: collections.abc.Callable[
            [int, tuple[int, int, int], numpy.typing.NDArray[numpy.float32], int], typing.Any
        ]
        | None,
    ) -> int: ...
    def set_initial(self, labels: numpy.typing.NDArray[numpy.int64]) -> None: ...
    def set_mask(self, mask: numpy.typing.NDArray[numpy.uint8]) -> None: ...
    def state(self) -> dict[str, typing.Any]: ...
    def take_result(
        self,
        start: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        volume_shape: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    ) -> Result: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...

def check_output(path: str, dataset: str) -> None: ...
def closed_bits() -> dict[str, int]: ...
def compare_overlap(
    counts: numpy.typing.NDArray[numpy.uint64],
    min_voxels: int,
    min_share: float,
    inside_voxels: int,
) -> tuple[numpy.typing.NDArray[numpy.uint64], int]: ...
def connected(
    count: int, pairs: numpy.typing.NDArray[numpy.int64]
) -> numpy.typing.NDArray[numpy.int64]: ...
def connected_components(
    mask: numpy.typing.NDArray[numpy.uint8], min_size: int
) -> numpy.typing.NDArray[numpy.int32]: ...
def consensus(a: Result, b: Result, min_size: int) -> Result: ...
def find_seeds(
    image: numpy.typing.NDArray[numpy.float32],
    mean: float,
    std: float,
    policy: str,
    values: collections.abc.Mapping[str, float | str],
    margin: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    progress: collections.abc.Callable[[int, int], typing.Any] | None,
    closed: numpy.typing.NDArray[numpy.uint8] | None = None,
) -> numpy.typing.NDArray[numpy.int64]: ...
def grow(
    labels: numpy.typing.NDArray[numpy.int32], steps: int
) -> numpy.typing.NDArray[numpy.int32]: ...
def placement(
    volume: str | floodtide._core.data.Volume,
) -> typing.Annotated[list[int], "FixedSize(3)"] | None: ...
def read_origins(path: str) -> numpy.typing.NDArray[numpy.int64]: ...
def read_seeds(path: str) -> numpy.typing.NDArray[numpy.int64]: ...
def seed_policies() -> list[dict[str, typing.Any]]: ...
def split_consensus(
    a: numpy.typing.NDArray[numpy.int32], b: numpy.typing.NDArray[numpy.int32], min_size: int
) -> numpy.typing.NDArray[numpy.int32]: ...
