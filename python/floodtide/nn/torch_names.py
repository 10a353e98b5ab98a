# SPDX-License-Identifier: Apache-2.0
"""Parameters with PyTorch's names and order of axes.

`encoder0/conv_a/weights` of shape (kz, ky, kx, in, out) is `encoder0.conv_a.weight` of shape (out, in, kz, ky, kx), and
of a transposed convolution (in, out, kz, ky, kx). Arrays of a two-dimensional U-Net have no axis z.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from floodtide.base.reading import blaming
from floodtide.comm.arrays import array_of
from floodtide.errors import InvalidArgumentError

Tensor = npt.NDArray[Any]

_NAMES = {
    "weights": "weight", "biases": "bias", "scale": "weight", "shift": "bias",
    "mean": "running_mean", "variance": "running_var",
}  # fmt: skip
_CONVOLUTION, _UP = (4, 3, 0, 1, 2), (3, 4, 0, 1, 2)  # PyTorch's axes in ours


def to_torch(state: Mapping[str, Tensor], flat: bool) -> dict[str, Tensor]:
    """Return arrays with PyTorch's names and axes. Arrays of a two-dimensional network (`flat`) have no axis z."""
    return {_theirs(name): _turned(array, name, flat) for name, array in state.items()}


def from_torch(tensors: Mapping[str, Any], names: Iterable[str]) -> dict[str, Tensor]:
    """Return arrays with floodtide's names and axes.

    Args:
        tensors: Values as for `as_array`. Values of names that are not of the network are kept.
        names: The names of the arrays of the network.
    """
    ours = {_theirs(name): name for name in names}
    return {
        ours.get(name, name): _turned_back(as_array(tensor, name), ours[name])
        if name in ours
        else tensor
        for name, tensor in tensors.items()
        if not name.endswith(".num_batches_tracked")  # of PyTorch's batch normalisation
    }


def as_array(value: Any, name: str) -> Tensor:
    """Return an array of NumPy for a float32 array or tensor in the memory of the CPU.

    Raises:
        InvalidArgumentError: If the value is something else; the message has the name.
    """
    where = f"load_state_dict: {name}"
    if hasattr(value, "resolve_neg"):  # a tensor of PyTorch, which may require gradients
        with blaming(InvalidArgumentError, where, "a float32 tensor in the memory of the CPU"):
            value = value.detach().resolve_neg().numpy()
    array = array_of(where, value)
    if array.dtype != np.float32:
        raise InvalidArgumentError(f"{where} is {array.dtype}, expected float32")
    return array


def _theirs(name: str) -> str:
    layer, _, array = name.rpartition("/")
    return f"{layer.replace('/', '.')}.{_NAMES[array]}"


def _turned(array: Tensor, name: str, flat: bool) -> Tensor:
    if array.ndim != 5:
        return array
    turned = array.transpose(_UP if "/up/" in name else _CONVOLUTION)
    return np.ascontiguousarray(turned[:, :, 0] if flat else turned)


def _turned_back(tensor: Tensor, name: str) -> Tensor:
    if tensor.ndim not in (4, 5):
        return tensor
    whole = tensor[:, :, None] if tensor.ndim == 4 else tensor
    return whole.transpose(np.argsort(_UP if "/up/" in name else _CONVOLUTION))
