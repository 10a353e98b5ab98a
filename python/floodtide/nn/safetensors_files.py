# SPDX-License-Identifier: Apache-2.0
"""Networks as safetensors files, with PyTorch's names and order of axes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from floodtide import _core
from floodtide.base import network_files, reading
from floodtide.base.files import replace_bytes
from floodtide.base.libraries import library
from floodtide.base.networks import NETWORKS, section_of
from floodtide.base.options import converted
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.network import Array, Network
from floodtide.nn.torch_names import to_torch

_OF_UNETS = {"in_channels": int, "classes": int, "output": str}  # beside the architecture
_ARCHITECTURE = "floodtide"  # name of the metadata


def save(network: Network, path: str, notes: Mapping[str, Any]) -> None:
    """Write a network as a safetensors file (float32), which `read` and PyTorch read.

    docs/formats.md has names and axes. The metadata `floodtide` is the architecture (JSON).

    Args:
        network: The network, with its present parameters.
        path: The file.
        notes: Further metadata, {name: value}; a value that is not text is stored as JSON.
    """
    tensors = to_torch(network.state_dict(), section_of(network.core).flat)
    module = library("safetensors.numpy", "convert to safetensors", "safetensors")
    replace_bytes(path, module.save(tensors, metadata_of(network, notes)))


def metadata_of(network: Network, notes: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a file of a network: the notes, and `floodtide`, its architecture; all as text or JSON."""
    known = {"kind": section_of(network.core).kind, **network.described()}
    every = {**notes, _ARCHITECTURE: known}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in every.items()}


def read(path: str, compute: str) -> tuple[Any, dict[str, Array]]:
    """Read a file that `save` wrote, or PyTorch with the metadata of such a file.

    Returns:
        The core's network, with random weights, and the arrays of the file.
    """
    _core.FfnOptions(compute=compute)  # an unknown name is no fault of the file
    with network_files.opened(path) as file:
        notes = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    if _ARCHITECTURE not in notes:
        raise InvalidFileError(
            f"load: {path} has no metadata `{_ARCHITECTURE}`, expected the architecture of a network, as in a file of"
            " `floodtide convert NETWORK.h5 FILE.safetensors`"
        )
    known = reading.parse_json(notes[_ARCHITECTURE], path, "the architecture of a network")
    try:
        row = {row.kind: row for row in NETWORKS}[known["kind"]]
        others = {
            name: converted(known.pop(name), kind, name)
            for name, kind in _OF_UNETS.items()
            if hasattr(row.core_options, name)
        }
        core = row.core_network(row(**known).core(compute=compute, **others))
    except (KeyError, TypeError, InvalidArgumentError) as error:
        raise InvalidFileError(
            f"load: {path}: the metadata `{_ARCHITECTURE}` describe no network: {reading.reason(error)}"
        ) from None
    return core, tensors


def require_own(path: str) -> None:
    """Raise InvalidArgumentError if a file exists that is not empty and that `save` has not written."""
    try:
        own = not reading.exists(path) or os.path.getsize(path) == 0
        own = own or _ARCHITECTURE in network_files.metadata(path)  # metadata have no order
    except InvalidFileError:
        own = False
    if not own:
        raise InvalidArgumentError(
            f"{path}: exists and is not a safetensors file of floodtide: it is not replaced; choose another name, or"
            " remove it first"
        )
