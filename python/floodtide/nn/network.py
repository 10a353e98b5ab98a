# SPDX-License-Identifier: Apache-2.0
"""Base class of all networks: named arrays of parameters, stored in one buffer of the core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.base.networks import section_of
from floodtide.base.options import typed
from floodtide.base.outputs import WAIT_S, reserved, unchecked
from floodtide.errors import InUseError, InvalidArgumentError, ShapeError

Array = npt.NDArray[np.float32]
Core = _core.Ffn | _core.UNet
Self = TypeVar("Self", bound="Network")


class Network:
    """A network of the core, with its parameters as {name: array}.

    Any number of threads may run passes of one network at the same time. A change of its parameters (a training step,
    `load_state_dict`, a step of an optimizer) waits for passes that run, and passes wait for it. An InUseError is
    raised if a thread trains or changes the network while another trains it, and if a segmentation or prediction
    would mix old and new parameters.

    Attributes:
        core: The network of the compiled core.
        seed: Random seed of the initial weights, if `origin` is "".
        origin: File from which the weights were read; "" if the weights were drawn at random.
    """

    core: Core

    def __init__(self, core: Core, *, seed: int = 0) -> None:
        self.core = core
        self.seed = seed
        self.origin = ""
        self._shared = False  # True once callers hold arrays that share the parameters' memory

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.described().items())
        return f"{type(self).__name__}({values})"

    def described(self) -> dict[str, Any]:
        """Return the architecture: values by the names of the options."""
        options, names = self.core.options, section_of(self.core).architecture()
        names += [name for name in ("in_channels", "classes", "output") if hasattr(options, name)]
        return {name: getattr(options, name) for name in names}

    def parameters(self) -> dict[str, Array]:
        """Return {name: array}. The arrays share memory with the network: writing to them changes the network.

        Optimizers may change the arrays while other threads run passes of the network. Your own code may write to them
        only while no other thread uses the network.
        """
        self._shared = True
        return self._named(self.core.parameters())

    def state_dict(self) -> dict[str, Array]:
        """Return {name: copy} of all arrays that a checkpoint stores. Weights have shape (kz, ky, kx, in, out)."""
        return self._named(self.core.copy_parameters())

    @typed()
    def save(self, path: str | os.PathLike[str], *, statistics: str = "") -> None:
        """Write the network to an HDF5 file, which `floodtide.nn.load` reads; docs/formats.md describes the format.

        The data go to a temporary file in the same folder, which is then renamed. The checkpoint of a training run
        holds the same data and the state of the training.

        Args:
            statistics: What the network was trained on, as `data.look.trained_on.to_text` returns it; empty: unknown.

        Raises:
            StorageError: If the file cannot be written. An older file of that name is unchanged.
            InvalidArgumentError: If the existing file holds more than a network, such as the checkpoint of a run.
        """
        with reserved("save", path, unchecked, wait_s=WAIT_S):
            _core.save_network(os.fsencode(path), self.core, statistics)

    @typed()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy the arrays of `state` into the network.

        Args:
            state: {name: float32 array or tensor} as of `state_dict`, or the state of a PyTorch module with the same
                layers: PyTorch's names and axes (`encoder0.conv_a.weight`), as in a safetensors file.

        Raises:
            InvalidArgumentError: If names are missing or unknown, an array is not float32 in the memory of the CPU, a
                value is not finite, or a variance is negative.
            ShapeError: If an array has another shape.
            InUseError: If another thread trains the network.
        """
        from floodtide.nn.torch_names import as_array, from_torch

        own = self._named(self.core.parameters())
        state = {str(name): value for name, value in state.items()}
        if not own.keys() & state.keys():
            state = from_torch(state, own)
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            first = [f" ({names[0]}, ...)" if names else "" for names in (missing, unknown)]
            raise InvalidArgumentError(
                f"load_state_dict: the state does not belong to {self!r}: {len(missing)} arrays are missing{first[0]},"
                f" {len(unknown)} are unknown{first[1]}"
            )
        values = np.empty(self.core.parameters().size, np.float32)
        for name, array in self._named(values).items():
            array[...] = self._checked(as_array(state[name], name), name, array.shape)
        self.core.set_parameters(values)

    def _checked(self, array: Array, name: str, shape: tuple[int, ...]) -> Array:
        if array.shape != shape:
            raise ShapeError(
                f"load_state_dict: {name} has shape {array.shape}, expected {shape} for {self!r}"
            )
        if not np.isfinite(array).all():
            raise InvalidArgumentError(f"load_state_dict: {name} has values that are not finite")
        if name.endswith("/variance") and (array < 0).any():
            raise InvalidArgumentError(f"load_state_dict: {name} has negative values")
        return array

    @classmethod
    def of_core(cls: type[Self], core: Core, seed: int = 0) -> Self:
        """Return the Python network of a core network."""
        network = object.__new__(cls)
        Network.__init__(network, core, seed=seed)
        return network

    def like(self: Self) -> Self:
        """Return a new network of the same shape, with weights drawn from the same seed."""
        make: Any = type(self.core)
        return self.of_core(make(self.core.options), self.seed)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy keep: options, parameters and this object's own attributes."""
        kept = {k: v for k, v in vars(self).items() if k not in ("core", "_shared")}
        made = type(self.core.options)
        names = [name for name in dir(made) if isinstance(getattr(made, name), property)]
        options = {name: getattr(self.core.options, name) for name in names}
        return {
            "attributes": kept,
            "core": (type(self.core), made),
            "options": options | {"seed": self.seed},
            "parameters": self.core.copy_parameters(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        core, made = state["core"]
        Network.__init__(self, core(made(**state["options"])))
        vars(self).update(state["attributes"])
        self.core.set_parameters(state["parameters"])

    def _refresh(self) -> None:
        if self._shared:
            self.core.parameters_changed()

    def _named(self, flat: Array) -> dict[str, Array]:
        return {
            name: flat[offset : offset + int(np.prod(shape))].reshape(shape)
            for name, shape, offset in self.core.layout()
        }


class SameParameters:
    """Work of several passes that is only right if all of them use the same parameters.

    Args:
        model: A network of floodtide. Other objects are not watched.
        work: Name of the work in the message.
    """

    def __init__(self, model: Any, work: str) -> None:
        self._core: Core | None = getattr(model, "core", None)
        self._work = work
        if self._core is not None:
            self._core.parameters_changed()  # the caller may have written to them
            self._version = self._core.version

    def require(self) -> None:
        """Raise an InUseError if the parameters have changed since this object was made."""
        if self._core is not None and self._core.version != self._version:
            raise InUseError(
                f"{self._work}: the network is in use by another thread, which has changed its parameters during this"
                " work; expected one thread that trains or changes a network, and copies of it for others"
            )
