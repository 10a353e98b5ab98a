# SPDX-License-Identifier: Apache-2.0
"""A comparison of floodtide with PyTorch: its results and their tolerances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Results = dict[str, Array]


class Case(ABC):
    """One computation, made by floodtide in float32 and by PyTorch in float64.

    Inputs come from np.random.RandomState. NumPy guarantees that its numbers never change.
    """

    name: str
    loss_tolerance = 1e-5  # largest relative difference of losses
    tolerance = 1e-5  # largest distance of all other results

    @abstractmethod
    def floodtide(self) -> Results:
        """Return the results of floodtide by name."""

    @abstractmethod
    def pytorch(self) -> Results:
        """Return the results of PyTorch, with the same names and shapes. Needs PyTorch."""

    def check(self, result: str, got: Array, expected: Array) -> None:
        """Raise AssertionError if a result is not as near to that of PyTorch as it must be."""
        if result == "losses":
            np.testing.assert_allclose(got, expected, rtol=self.loss_tolerance, err_msg=result)
        else:
            assert distance(got, expected) <= self.tolerance, result


def distance(got: Array, expected: Array) -> float:
    """Return the norm of the difference, relative to the norm of the expected values."""
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def draw(parameters: Mapping[str, Array], seed: int) -> None:
    """Overwrite parameters with random values that keep activations near 1. None has its initial 0 or 1."""
    random = np.random.RandomState(seed)
    for name, array in parameters.items():
        if name.endswith("weights"):
            array[...] = random.standard_normal(array.shape) * (2 / array[..., 0].size) ** 0.5
        elif name.endswith(("shift", "biases", "mean")):
            array[...] = 0.1 * random.standard_normal(array.shape)
        else:
            array[...] = 1 + 0.1 * random.standard_normal(array.shape)


def prefixed(prefix: str, arrays: Mapping[str, Any]) -> Results:
    """Return copies of arrays or tensors as results "PREFIX/NAME"."""
    return {f"{prefix}/{name}": np.array(array) for name, array in arrays.items()}
