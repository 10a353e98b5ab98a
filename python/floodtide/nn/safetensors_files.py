# SPDX-License-Identifier: Apache-2.0
"""Networks as safetensors files, with PyTorch's names and order of axes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from floodtide.base import reading
from floodtide.base.files import replace_bytes
from floodtide.base.libraries import library
from floodtide.base.networks import NETWORKS, section_of
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.network import Array, Network
from floodtide.nn.torch_names import from_torch, to_torch

_OF_UNETS = ("in_channels", "classes", "output")  # beside the architecture
_ARCHITECTURE = "floodtide"  # name of the metadata


def save(network: Network, path: str, notes: Mapping[str, Any]) -> None:
    """Write a network as a safetensors file (float32), which `read` and PyTorch read.

    docs/formats.md has names and axes. The metadata `floodtide` is the architecture (JSON).

    Args:
        network: The network, with its present parameters.
        path: The file.
        notes: Further metadata, {name: value}; a value that is not text is stored as JSON.
    """
    section = section_of(network.core)
    known = {name: getattr(section, name) for name in ("kind", *section.architecture())}
    options = network.core.options
    known |= {name: getattr(options, name) for name in _OF_UNETS if hasattr(options, name)}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in notes.items()}
    tensors = to_torch(network.state_dict(), section.flat)
    module = library("safetensors.numpy", "convert to safetensors", "safetensors")
    replace_bytes(path, module.save(tensors, texts | {_ARCHITECTURE: json.dumps(known)}))


def read(path: str, compute: str) -> tuple[Any, dict[str, Array]]:
    """Read a file that `save` wrote, or PyTorch with the metadata of such a file.

    Returns:
        The core's network, with random weights, and the arrays of the file by floodtide's names.
    """
    with _opened(path) as file:
        notes = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    if _ARCHITECTURE not in notes:
        raise InvalidFileError(
            f"load: {path} has no metadata `{_ARCHITECTURE}`, expected the architecture of a network, as in a file of"
            " `floodtide convert NETWORK.h5 FILE.safetensors`"
        )
    known = reading.parse_json(notes[_ARCHITECTURE], path, "the architecture of a network")
    try:
        row = next(row for row in NETWORKS if row.kind == known["kind"])
        others = {name: known.pop(name) for name in _OF_UNETS if name in known}
        core = row.core_network(row(**known).core(compute=compute, **others))
    except (StopIteration, KeyError, TypeError, InvalidArgumentError) as error:
        raise InvalidFileError(
            f"load: {path}: the metadata `{_ARCHITECTURE}` describe no network: {error!r}"
        ) from None
    return core, from_torch(tensors, (name for name, _, _ in core.layout()))


def metadata(path: str) -> dict[str, str]:
    """Return the metadata of a safetensors file."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def require_own(path: str) -> None:
    """Raise InvalidArgumentError if a file exists that `save` has not written: its metadata may be in any order."""
    try:
        own = not reading.exists(path) or _ARCHITECTURE in metadata(path)
    except InvalidFileError:
        own = False
    if not own:
        raise InvalidArgumentError(
            f"{path}: exists and is not a safetensors file of floodtide: it is not replaced; choose another name, or"
            " remove it first"
        )


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    module = library("safetensors", f"load {path}", "safetensors")
    try:
        with module.safe_open(path, "np") as file:
            yield file
    except (module.SafetensorError, OSError, TypeError) as error:
        raise InvalidFileError(
            f"load: {path}: {error}; expected a safetensors file of float32 arrays"
        ) from None
