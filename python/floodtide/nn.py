# SPDX-License-Identifier: Apache-2.0
"""Networks. Arrays are C-contiguous float32 with axes (z, y, x); nothing is cast silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core, _notes, _reading, limits
from floodtide._network import Array, Network
from floodtide._unet import (
    SegmentationLoss,
    UNet,
    UNet2D,
    UNet3D,
    of_core,
    segmentation_loss,
)
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError
from floodtide.options import Arguments

__all__ = [
    "FFN",
    "Array",
    "Network",
    "SegmentationLoss",
    "UNet",
    "UNet2D",
    "UNet3D",
    "load",
    "load_ffn",
    "segmentation_loss",
]

_FFN = Arguments(
    depth=limits.FFN_DEPTH,
    fov=limits.FIELD_OF_VIEW,
    deltas=limits.DELTA,
    features=limits.FFN_FEATURES,
    seed=limits.SEED,
)
_TENSORFLOW_FOV = (33, 33, 33)
_TENSORFLOW_DELTAS = (8, 8, 8)


class FFN(Network):
    """A flood-filling network: reads an image and an object map (logits), returns updated logits.

    Args:
        depth: Input module plus depth - 1 residual modules, two 3x3x3 convolutions each.
        fov: Field of view (z, y, x) in voxels, odd. `forward` takes any size.
        deltas: Step between fields of view (z, y, x) in voxels, at most (fov - 1) / 2.
        features: Channels between the convolutions.
        seed: Of the Glorot-uniform weights; biases start at zero.
        compute: "fp32", or "fp32-direct" for convolutions without Winograd's transforms.
        parallel: What threads share: "fovs", whole examples of a batch if there are as many as threads, or
            "voxels", the voxels of each example.

    Raises:
        InvalidArgumentError: If an argument is out of range.

    Source: Januszewski et al., Nature Methods 15 (2018), 605-610.
    """

    def __init__(
        self,
        depth: int = 9,
        fov: Sequence[int] = (33, 33, 33),
        deltas: Sequence[int] = (8, 8, 8),
        features: int = 32,
        seed: int = 0,
        compute: str = "fp32",
        parallel: str = "fovs",
    ) -> None:
        _FFN.check("FFN", depth=depth, fov=fov, deltas=deltas, features=features, seed=seed)
        super().__init__(
            _core.Ffn(depth, list(fov), list(deltas), features, seed, compute, parallel)
        )

    @property
    def depth(self) -> int:
        """Number of modules."""
        return int(self.core.depth)

    @property
    def features(self) -> int:
        """Channels between the convolutions."""
        return int(self.core.features)

    @property
    def compute(self) -> str:
        """How convolutions compute: "fp32" or "fp32-direct"."""
        return str(self.core.compute)

    @property
    def fov(self) -> tuple[int, int, int]:
        """Field of view (z, y, x) in voxels."""
        z, y, x = self.core.fov
        return z, y, x

    @property
    def deltas(self) -> tuple[int, int, int]:
        """Step between fields of view (z, y, x) in voxels."""
        z, y, x = self.core.deltas
        return z, y, x

    def __repr__(self) -> str:
        return (
            f"FFN(depth={self.depth}, fov={self.fov}, deltas={self.deltas}, "
            f"features={self.features})"
        )

    def forward(self, image: Array, logits: Array) -> Array:
        """Return the updated logits.

        Args:
            image: Normalised intensities, (z, y, x) or (n, z, y, x), any size not below 1.
            logits: Object map before, of the same shape.

        Raises:
            ShapeError: If the shapes differ or are neither of rank 3 nor 4.
        """
        _check_batch(image, {"logits": logits})
        with self._lock:
            self._refresh()
            if image.ndim == 3:
                result: Array = self.core.forward(image[None], logits[None])[0]
            else:
                result = self.core.forward(image, logits)
            return result

    def loss_and_gradients(
        self, image: Array, logits: Array, labels: Array, weights: Array | None = None
    ) -> tuple[float, dict[str, Array]]:
        """Return the mean sigmoid cross-entropy of the updated logits and its gradients.

        Args:
            image: Normalised intensities, (z, y, x) or (n, z, y, x).
            logits: Object map before, of the same shape.
            labels: Soft labels in [0, 1], of the same shape.
            weights: Voxel weights of the same shape, or None for ones. The mean divides by voxels.

        Returns:
            The loss and {name: gradient}, not clipped.

        Raises:
            ShapeError: If the shapes differ or are neither of rank 3 nor 4.
        """
        others = {"logits": logits, "labels": labels}
        if weights is not None:
            others["weights"] = weights
        _check_batch(image, others)
        arrays: list[Any] = [a[None] if a.ndim == 3 else a for a in (image, *others.values())]
        if weights is None:
            arrays.append(None)
        gradients = np.zeros(self.core.parameters().size, np.float32)
        with self._lock:
            self._refresh()
            losses = self.core.loss_and_gradients(*arrays, gradients, 1 / len(arrays[0]))
        return float(np.mean(losses)), self._named(gradients)


def load(
    path: str | Path,
    fov: Sequence[int] | None = None,
    deltas: Sequence[int] | None = None,
    compute: str = "fp32",
) -> FFN | UNet:
    """Read a network from a checkpoint of ours or from a TensorFlow checkpoint of google/ffn.

    Args:
        path: A file of ours, or the prefix of a TensorFlow checkpoint (`model.ckpt-27465036`; the
            file name with `.index` works too).
        fov: Field of view (z, y, x) in voxels; None: the file's, or 33 for TensorFlow checkpoints,
            which do not know it.
        deltas: Step (z, y, x) in voxels; None: the file's, or 8 for TensorFlow checkpoints.
        compute: As for `FFN`.

    Returns:
        What the file holds: an FFN, a UNet2D if all its kernels are (1, 3, 3) and all its pools (1, 2, 2), or
        another UNet. Dropout and synchronised statistics are matters of training: they are off.

    A file of an older version, without checksums, is loaded with a note on standard error.

    Raises:
        InvalidFileError: If the file is missing or damaged, or a weight is not finite.
        InvalidArgumentError: If `fov` or `deltas` are given for a U-Net, which has none.
    """
    text = str(path)
    prefix = text.removesuffix(".index")
    file, index = _reading.exists(text), _reading.exists(f"{text}.index")
    if text.endswith(".index") or (index and not file):
        return _load_tensorflow(
            prefix, fov or _TENSORFLOW_FOV, deltas or _TENSORFLOW_DELTAS, compute
        )
    if not file:
        raise InvalidFileError(
            f"load: there is neither a file {text} nor a TensorFlow checkpoint {text}.index"
        )
    core, has_checksums = _core.load_network(text, compute)
    if not has_checksums:
        _notes.unprotected(text)
    if isinstance(core, _core.UNet):
        if fov is not None or deltas is not None:
            raise InvalidArgumentError(
                f"load: {text} holds a U-Net, which has no fov and no deltas"
            )
        return of_core(core)
    if fov is None and deltas is None:
        network = object.__new__(FFN)
        Network.__init__(network, core)
        return network
    network = FFN(
        core.depth, fov or core.fov, deltas or core.deltas, core.features, compute=compute
    )
    network.core.parameters()[...] = core.parameters()
    network.core.parameters_changed()
    return network


def load_ffn(
    path: str | Path,
    fov: Sequence[int] | None = None,
    deltas: Sequence[int] | None = None,
    compute: str = "fp32",
) -> FFN:
    """Read a flood-filling network, as `load` does.

    Raises:
        InvalidFileError: If the file is missing or damaged, or holds another kind of network.
    """
    network = load(path, fov, deltas, compute)
    if not isinstance(network, FFN):
        raise InvalidFileError(f"load: {path} holds {network!r}, expected a flood-filling network")
    return network


def _load_tensorflow(prefix: str, fov: Sequence[int], deltas: Sequence[int], compute: str) -> FFN:
    state = _core.read_tensorflow_checkpoint(prefix, "seed_update/")
    head = state.get("seed_update/conv_lom/weights")
    depth = sum(name.endswith("_a/weights") for name in state)
    if head is None or head.ndim != 5 or depth == 0:
        raise InvalidFileError(
            f"load: {prefix} is not a checkpoint of google/ffn's convstack_3d: it has no "
            "seed_update/conv0_a/weights or no seed_update/conv_lom/weights of rank 5"
        )
    network = FFN(depth, fov, deltas, features=head.shape[3], compute=compute)
    try:
        network.load_state_dict(state)
    except InvalidArgumentError as error:
        raise InvalidFileError(f"load: {prefix}: {error}") from error
    return network


def _check_batch(image: Array, others: Mapping[str, Array]) -> None:
    if image.ndim not in (3, 4) or image.size == 0:
        raise ShapeError(
            f"FFN: image has shape {image.shape}, expected (z, y, x) or (n, z, y, x) with voxels"
        )
    for name, array in others.items():
        if array.shape != image.shape:
            raise ShapeError(
                f"FFN: {name} has shape {array.shape}, expected the image's {image.shape}"
            )
