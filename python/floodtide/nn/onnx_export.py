# SPDX-License-Identifier: Apache-2.0
"""Networks as ONNX models, for programs that run them elsewhere, such as onnxruntime or OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base.files import replace_bytes
from floodtide.base.libraries import library
from floodtide.base.networks import section_of
from floodtide.errors import InvalidArgumentError
from floodtide.nn.ffn import FFN
from floodtide.nn.network import Network
from floodtide.nn.safetensors_files import metadata_of
from floodtide.nn.torch_names import to_torch
from floodtide.nn.unet import UNet

_OPSET, _IR = 17, 8  # of early 2022; onnxruntime reads them since 1.12
_EPSILON = 1e-5  # of batch normalisation
_STATISTICS = ("running_mean", "running_var")
_PRODUCER = "floodtide"
BEGINNING = bytes([8, _IR, 18, len(_PRODUCER)]) + _PRODUCER.encode()
"""The first bytes of the files that `save` writes: version and producer, fields 1 and 2 of the protocol buffer."""


def save(network: Network, path: str, notes: Mapping[str, Any]) -> None:
    """Write a flood-filling network or a U-Net as an ONNX model. Batch size and image size are free.

    Arrays are float32 with axes (n, channels, z, y, x). A flood-filling network has the inputs `image` and `logits` and
    the output `updated_logits`, each of one channel. A U-Net has the input `image` and the output `probabilities`; a
    two-dimensional U-Net has axes (n, channels, y, x). Results equal those of `forward` up to rounding.

    Args:
        network: The network, with its present parameters.
        notes: Metadata of the model, {name: value}; a value that is not text is stored as JSON.
    """
    replace_bytes(path, to_onnx(network, notes).SerializeToString())


def to_onnx(network: Network, notes: Mapping[str, Any]) -> Any:
    """Return the ONNX model (onnx.ModelProto) that `save` writes."""
    section = section_of(network.core)
    graph = _Graph(to_torch(network.state_dict(), section.flat), flat=section.flat)
    if isinstance(network, FFN):
        graph.flood(network.depth)
    elif isinstance(network, UNet):
        graph.unet(section, network)
    else:
        raise InvalidArgumentError(f"convert: {network!r} cannot be written as ONNX")
    return graph.model(metadata_of(network, notes))


class _Graph:
    """Nodes and arrays of a model in the making. Methods add a layer to a value, and return the name of the result.

    Args:
        arrays: The parameters with PyTorch's names and axes, which are those of ONNX.
        flat: Images have no axis z.
    """

    def __init__(self, arrays: Mapping[str, Any], *, flat: bool) -> None:
        self._onnx = library("onnx", "convert to ONNX", "onnx")
        self._arrays = arrays
        self._axes = "yx" if flat else "zyx"
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def model(self, texts: dict[str, str]) -> Any:
        make = self._onnx.helper
        graph = make.make_graph(
            self._nodes, "floodtide", self._inputs, self._outputs, list(self._constants.values())
        )
        made = make.make_model(
            graph,
            opset_imports=[make.make_opsetid("", _OPSET)],
            ir_version=_IR,
            producer_name=_PRODUCER,
            producer_version=_core.__version__,
        )
        make.set_model_props(made, texts)
        self._onnx.checker.check_model(made)
        return made

    def flood(self, depth: int) -> None:
        image, logits = self._input("image", 1), self._input("logits", 1)
        value = self._op("Concat", "both", image, logits, axis=1)
        for number in range(depth):
            inner = value if number == 0 else self._op("Relu", f"relu{number}_a", value)
            inner = self._conv(inner, f"seed_update.conv{number}_a")
            inner = self._op("Relu", f"relu{number}_b", inner)
            inner = self._conv(inner, f"seed_update.conv{number}_b")
            value = inner if number == 0 else self._op("Add", f"stream{number}", value, inner)
        value = self._conv(self._op("Relu", "relu_lom", value), "seed_update.conv_lom")
        self._output(self._op("Add", "updated_logits", logits, value), 1)

    def unet(self, architecture: Any, network: UNet) -> None:
        options = network.core.options
        image = self._input("image", options.in_channels)
        value = self._padded(image, architecture.total_pool)
        pools = [self._sizes(pool) for pool in architecture.pools] * architecture.depth
        skips = []
        for level in range(architecture.depth):
            if level > 0:
                pool = pools[level - 1]
                value = self._op("MaxPool", f"pool{level}", value, kernel_shape=pool, strides=pool)
            value = self._pair(value, f"encoder{level}", architecture.batch_norm)
            skips.append(value)
        for level in reversed(range(architecture.depth - 1)):
            name, size = f"decoder{level}", {"kernel_shape": pools[level], "strides": pools[level]}
            up = self._layer("ConvTranspose", f"{name}.up", value, "weight", "bias", **size)
            joined = self._op("Concat", f"{name}.joined", skips[level], up, axis=1)
            value = self._pair(joined, name, architecture.batch_norm)
        value = self._conv(value, "head")
        value = (
            self._op("Softmax", "outputs", value, axis=1)
            if network.excluding
            else self._op("Sigmoid", "outputs", value)
        )
        self._output(self._cropped(value, image), options.classes)

    def _pair(self, value: str, name: str, norm: bool) -> str:
        for which in "ab":
            value = self._conv(value, f"{name}.conv_{which}")
            if norm:
                layer, arrays = f"{name}.norm_{which}", ("weight", "bias", *_STATISTICS)
                value = self._layer("BatchNormalization", layer, value, *arrays, epsilon=_EPSILON)
            value = self._op("Relu", f"{name}.relu_{which}", value)
        return value

    def _conv(self, value: str, name: str) -> str:
        kernel = self._arrays[f"{name}.weight"].shape[2:]
        halo = [size // 2 for size in kernel]
        names = [one for one in ("weight", "bias") if f"{name}.{one}" in self._arrays]
        return self._layer("Conv", name, value, *names, kernel_shape=kernel, pads=[*halo, *halo])

    def _layer(self, kind: str, name: str, value: str, *arrays: str, **attributes: Any) -> str:
        """Add a layer with its arrays, which are named after it."""
        names = [self._constant(f"{name}.{one}", self._arrays[f"{name}.{one}"]) for one in arrays]
        return self._op(kind, name, value, *names, **attributes)

    def _padded(self, value: str, pool: Sequence[int]) -> str:
        """Add zeros at the ends of the axes, up to a multiple of `pool`."""
        multiple = self._constant("pool", np.array(self._sizes(pool), np.int64))
        negative = self._op("Neg", "minus_size", self._op("Shape", "size", value, start=2))
        missing = self._op("Mod", "missing", negative, multiple)  # not negative, as in Python
        none = self._constant("none", np.zeros(4 + len(self._axes), np.int64))
        pads = self._op("Concat", "pads", none, missing, axis=0)
        return self._op("Pad", "padded", value, pads)

    def _cropped(self, value: str, like: str) -> str:
        size = self._op("Shape", "image_size", like, start=2)
        starts = self._constant("starts", np.zeros(len(self._axes), np.int64))
        along = self._constant("axes", np.arange(2, 2 + len(self._axes)))
        return self._op("Slice", "probabilities", value, starts, size, along)

    def _sizes(self, of_axes: Sequence[int]) -> list[int]:
        return list(of_axes[-len(self._axes) :])

    def _constant(self, name: str, array: Any) -> str:
        self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def _op(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def _input(self, name: str, channels: int) -> str:
        self._inputs.append(self._value(name, channels))
        return name

    def _output(self, name: str, channels: int) -> None:
        self._outputs.append(self._value(name, channels))

    def _value(self, name: str, channels: int) -> Any:
        axes = ["n", channels, *self._axes]
        return self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, axes)
