# SPDX-License-Identifier: Apache-2.0
# Written by tests/scripts/make_stubs.py from the compiled module. Do not edit.
from __future__ import annotations

import collections.abc
import typing

__all__: list[str] = ["ConvPasses", "Peak", "conv_kernels"]

class ConvPasses:
    def __init__(
        self,
        size: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        in_channels: int,
        out_channels: int,
        kernel: typing.Annotated[collections.abc.Sequence[int], "FixedSize(3)"],
        compute: str,
        kernel_name: str,
    ) -> None: ...
    def backward_data(self) -> None: ...
    def backward_weights(self) -> None: ...
    def flops(self) -> float: ...
    def forward(self) -> None: ...
    def kernel(self) -> str: ...

class Peak:
    def __init__(self, level: str) -> None: ...
    def sample(self) -> float: ...

def conv_kernels() -> list[tuple[str, str]]: ...
