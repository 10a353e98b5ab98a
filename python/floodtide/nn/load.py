# SPDX-License-Identifier: Apache-2.0
"""Load networks from floodtide checkpoints, safetensors files, and google/ffn checkpoints in TensorFlow's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from floodtide import _core
from floodtide.base import network_files, reading
from floodtide.base.options import typed
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.bundle import read_bundle
from floodtide.nn.ffn import FFN
from floodtide.nn.network import Array, Network
from floodtide.nn.unet import PatchNetwork, UNet

AnyNetwork = TypeVar("AnyNetwork", bound=Network)

_CLASSES: dict[type, Any] = {_core.Ffn: FFN, _core.UNet: UNet}  # others are a PatchNetwork


@typed()
def load(
    path: str | Path,
    fov: Sequence[int] | None = None,
    deltas: Sequence[int] | None = None,
    compute: str = "fp32",
) -> FFN | PatchNetwork:
    """Return the network of a floodtide checkpoint, a safetensors file or a TensorFlow checkpoint of google/ffn.

    Args:
        path: A floodtide checkpoint, a safetensors file that `floodtide convert` wrote, or the prefix of a TensorFlow
            checkpoint (`model.ckpt-27465036`). The name of the `.index` file works too.
        fov: Size (z, y, x) of the field of view in voxels. None: the stored size; a TensorFlow checkpoint stores none,
            so 33 for each axis.
        deltas: Distance (z, y, x) in voxels by which the field of view moves. None: the stored distance; a TensorFlow
            checkpoint stores none, so 8 for each axis.
        compute: As for `FFN`.

    Returns:
        An FFN or a UNet. Dropout and synchronised statistics are switched off, because only training uses them.

    Raises:
        InvalidFileError: If the file is missing or damaged, has no checksums, or a weight is not finite.
        InvalidArgumentError: If `fov` or `deltas` is given for a U-Net.
    """
    text = str(path)
    network: FFN | PatchNetwork
    if is_tensorflow(text):
        text = text.removesuffix(".index")
        network = _of_tensorflow(text, compute)
    elif not reading.exists(text):
        raise InvalidFileError(
            f"load: there is neither a file {text} nor a TensorFlow checkpoint {text}.index"
        )
    elif network_files.is_safetensors(text):
        from floodtide.nn import safetensors_files  # a training starts faster without

        core, arrays = safetensors_files.read(text, compute)
        network = _filled(network_of(core), arrays, text)
    else:
        network = network_of(_core.load_network(text, compute))
    if fov is not None or deltas is not None:
        if not isinstance(network, FFN):
            raise InvalidArgumentError(f"load: {text} holds a U-Net, which has no fov or deltas")
        weights = network.core.parameters()
        fov, deltas = fov or network.fov, deltas or network.deltas
        network = FFN(network.depth, fov, deltas, network.features, compute=compute)
        network.core.set_parameters(weights)
    network.origin = text
    return network


def network_of(core: _core.Network, seed: int = 0) -> FFN | PatchNetwork:
    """Return the Python network of a core network."""
    made: FFN | PatchNetwork = _CLASSES.get(type(core), PatchNetwork).of_core(core, seed)
    return made


def load_ffn(
    path: str | Path,
    fov: Sequence[int] | None = None,
    deltas: Sequence[int] | None = None,
    compute: str = "fp32",
) -> FFN:
    """Return the flood-filling network of a checkpoint. Arguments as for `load`."""
    network = load(path, fov, deltas, compute)
    if not isinstance(network, FFN):
        raise InvalidFileError(
            f"load: {path} holds {network!r}, expected a flood-filling network; for a U-Net there are"
            " `floodtide predict` and, for segments of its affinities, `floodtide agglomerate`"
        )
    return network


def is_tensorflow(path: str | Path) -> bool:
    """True if a path names a TensorFlow checkpoint, by its prefix or by its index file."""
    text = str(path)
    return text.endswith(".index") or (reading.exists(f"{text}.index") and not reading.exists(text))


def _of_tensorflow(prefix: str, compute: str) -> FFN:
    """Return the network of a TensorFlow checkpoint, which stores neither the field of view nor its moves."""
    state = read_bundle(prefix, "seed_update/")
    head = state.get("seed_update/conv_lom/weights")
    depth = sum(name.endswith("_a/weights") for name in state)
    if head is None or head.ndim != 5 or depth == 0:
        raise InvalidFileError(
            f"load: {prefix} is not a checkpoint of google/ffn's convstack_3d: it has no "
            "seed_update/conv0_a/weights or no seed_update/conv_lom/weights of rank 5"
        )
    return _filled(FFN(depth, features=head.shape[3], compute=compute), state, prefix)


def _filled(network: AnyNetwork, state: Mapping[str, Array], path: str) -> AnyNetwork:
    try:
        network.load_state_dict(state)
    except InvalidArgumentError as error:
        raise InvalidFileError(f"load: {path}: {error}") from error
    return network
