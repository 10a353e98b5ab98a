# SPDX-License-Identifier: Apache-2.0
"""Optimizers with PyTorch's formulas and defaults, on {name: array} dictionaries of float32 arrays.

docs/configuration.md lists their parameters (`weight_decay`, ...), which the core defines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.comm.arrays import accepts_tensors
from floodtide.errors import InvalidArgumentError

Array = npt.NDArray[np.float32]


class Optimizer:
    """An optimizer by its name in the registry: `Optimizer("lamb", lr=1e-3)`. The four commonest have classes.

    Args:
        name: Row of the registry.
        lr: Rate of steps that are not given their own.
        values: Parameters of the row.

    Raises:
        InvalidArgumentError: For an unknown name or parameter, or a value out of range.
    """

    def __init__(self, name: str, lr: float = 1e-3, **values: float | str) -> None:
        _core.Optimizer(name, values, [0])  # refuses wrong values now rather than at the first step
        self.name = name
        self.lr = lr
        self.values: Mapping[str, float | str] = values
        self._rules: dict[str, _core.Optimizer] = {}
        # states of arrays that no step has seen yet
        self._loaded: dict[str, dict[str, npt.NDArray[Any]]] = {}

    @accepts_tensors
    def step(
        self,
        parameters: Mapping[str, Array],
        gradients: Mapping[str, Array],
        lr: float | None = None,
    ) -> None:
        """Update the arrays of `parameters` in place. Passes of other threads see all old or all new parameters.

        Args:
            parameters: Writeable C-contiguous float32 arrays, the same ones in every step. LARS and LAMB treat each
                array as a layer.
            gradients: One array of the same shape for each of them.
            lr: Rate of this step; None: the optimizer's.

        Raises:
            InvalidArgumentError: If names differ or an array is not float32 or not contiguous.
            ShapeError: If a shape differs.
            InUseError: If another thread trains the network with these parameters.
        """
        if parameters.keys() != gradients.keys():
            odd = sorted(parameters.keys() ^ gradients.keys())
            raise InvalidArgumentError(
                f"step: parameters and gradients have different names, such as {odd[0]}"
            )
        with contextlib.ExitStack() as changes:
            for core in {core for array in parameters.values() if (core := _network_of(array))}:
                changes.enter_context(core.changing())
            for name, array in parameters.items():
                if name not in self._rules:
                    rule = _core.Optimizer(self.name, self.values, list(array.shape))
                    if name in self._loaded:
                        rule.load_state(self._loaded.pop(name))
                    self._rules[name] = rule
                self._rules[name].step(array, gradients[name], self.lr if lr is None else lr)

    def settings(self) -> dict[str, Any]:
        """Return `name`, `lr` and `values` of the optimizer."""
        return {"name": self.name, "lr": self.lr, "values": dict(self.values)}

    def load_settings(self, settings: Mapping[str, Any]) -> None:
        """Take over the rate and parameters of another optimizer of this kind, and clear the state."""
        Optimizer.__init__(self, self.name, settings["lr"], **settings["values"])

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Return copies of the state arrays, named `<parameter>/<state>`; empty before the first step."""
        states = self._loaded | {name: rule.state() for name, rule in self._rules.items()}
        return {
            f"{name}/{key}": values.copy()
            for name, state in states.items()
            for key, values in state.items()
        }

    def load_state_dict(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Load the state of another optimizer of this kind.

        Raises:
            InvalidArgumentError: If the state is another kind of optimizer's.
        """
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for full, values in state.items():
            name, _, key = full.rpartition("/")
            parts.setdefault(name, {})[key] = np.array(values)
        for part in parts.values():
            size = max(values.size for values in part.values())
            # refuses another kind's
            _core.Optimizer(self.name, self.values, [size]).load_state(part)
        self._rules, self._loaded = {}, parts


def _network_of(array: Array) -> _core.Network | None:
    """Return the network of the core that holds the memory of an array; None if a network does not hold it."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, _core.Network) else None


class _Shorthand(Optimizer):
    """An optimizer of one row of the registry."""

    _row: str

    def __init_subclass__(cls, row: str) -> None:
        cls._row = row

    def __init__(self, lr: float = 1e-3, **values: float | str) -> None:
        super().__init__(self._row, lr, **values)


class SGD(_Shorthand, row="sgd"):
    """Stochastic gradient descent. Source: torch.optim.SGD."""


class Momentum(_Shorthand, row="momentum"):
    """Gradient descent with `momentum`, or with `nesterov=True` Nesterov's. Source: torch.optim.SGD."""


class Adam(_Shorthand, row="adam"):
    """Adam (`beta1`, `beta2`, `eps`). Source: torch.optim.Adam."""


class AdamW(_Shorthand, row="adamw"):
    """Adam with decoupled weight decay. Source: Loshchilov and Hutter, ICLR 2019; torch.optim.AdamW."""
