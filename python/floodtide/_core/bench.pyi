# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

import floodtide._core.comm

__all__: list[str] = [
    "NetworkPasses",
    "OptimizerPasses",
    "Peak",
    "Workload",
    "bandwidth",
    "conv",
    "conv_kernels",
    "enough",
    "ffn_workload",
    "peak",
    "scaling",
    "unet_workload",
]

class Workload: ...

class NetworkPasses:
    def __init__(
        self,
        depth: int,
        fov: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        features: int,
        batch: int,
        compute: str,
        parallel: str,
        kernel: str = "",
    ) -> None: ...
    def forward(self) -> None: ...
    def forward_flops(self) -> float: ...
    def kernel_names(self) -> str: ...
    def step(self) -> float: ...
    def step_flops(self) -> float: ...
    def use_fastest_forward(self) -> str: ...
    def workspace_bytes(self) -> int: ...

class OptimizerPasses:
    def __init__(self, name: str, parameters: int) -> None: ...
    def step(self) -> float: ...
    def sweep(self) -> float: ...

class Peak:
    def __init__(self) -> None: ...
    def sample(self) -> float: ...

def bandwidth(bytes_per_thread: int, seconds: float) -> dict[str, typing.Any]: ...
def conv(
    size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    in_channels: int,
    out_channels: int,
    kernel: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    relu_input: bool,
    compute: str,
    seconds: float,
    against: str,
) -> list[dict[str, typing.Any]]: ...
def conv_kernels() -> list[tuple[str, str]]: ...
def enough(samples: int, spent_s: float) -> bool: ...
def ffn_workload(
    depth: int,
    fov: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
    features: int,
    rank: int,
) -> Workload: ...
def peak(level: str, seconds: float) -> dict[str, typing.Any]: ...
def scaling(
    communicator: floodtide._core.comm.Communicator,
    workload: Workload,
    seconds: float,
    algorithm: str,
) -> list[dict[str, typing.Any]]: ...
def unet_workload(
    depth: int,
    size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(2)"],
    features: int,
    batch: int,
    rank: int,
) -> Workload: ...
