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
from floodtide.nn.unet import UNet

_OPSET, _IR = 17, 8  # of early 2022; onnxruntime reads them since 1.12
_EPSILON = 1e-5  # of batch normalisation
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
    graph = _Graph(network)
    if isinstance(network, FFN):
        graph.flood(network)
    elif isinstance(network, UNet):
        graph.unet(section_of(network.core), network)
    else:
        raise InvalidArgumentError(f"convert: {network!r} cannot be written as ONNX")
    return graph.model(metadata_of(network, notes))


class _Graph:
    """Nodes and arrays of a model in the making. Methods add a layer to a value, and return the name of the result."""

    def __init__(self, network: Network) -> None:
        self._onnx = library("onnx", "convert to ONNX", "onnx")
        self._arrays = network.state_dict()
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._flat = False

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

    def flood(self, network: FFN) -> None:
        image, logits = self._input("image", 1), self._input("logits", 1)
        name, count = "seed_update/conv{}_{}".format, network.depth
        value = self._op("Concat", "both", image, logits, axis=1)
        value = self._conv(value, name(0, "a"))
        value = self._conv(self._op("Relu", "relu0", value), name(0, "b"))
        for number in range(1, count):
            inner = self._conv(self._op("Relu", f"relu{number}_a", value), name(number, "a"))
            inner = self._conv(self._op("Relu", f"relu{number}_b", inner), name(number, "b"))
            value = self._op("Add", f"stream{number}", value, inner)
        value = self._conv(self._op("Relu", "relu_lom", value), "seed_update/conv_lom")
        self._output(self._op("Add", "updated_logits", logits, value), 1)

    def unet(self, architecture: Any, network: UNet) -> None:
        self._flat, options = architecture.flat, network.core.options
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
            name, pool = f"decoder{level}", pools[level]
            weights = self._arrays[f"{name}/up/weights"].transpose(3, 4, 0, 1, 2)
            up = self._op(
                "ConvTranspose",
                f"{name}/up",
                value,
                self._constant(f"{name}/up/weights", self._squeezed(weights)),
                self._constant(f"{name}/up/biases"),
                kernel_shape=pool,
                strides=pool,
            )
            joined = self._op("Concat", f"{name}/joined", skips[level], up, axis=1)
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
            value = self._conv(value, f"{name}/conv_{which}")
            if norm:
                layer = f"{name}/norm_{which}"
                names = ("scale", "shift", "mean", "variance")
                arrays = [self._constant(f"{layer}/{one}") for one in names]
                value = self._op("BatchNormalization", layer, value, *arrays, epsilon=_EPSILON)
            value = self._op("Relu", f"{name}/relu_{which}", value)
        return value

    def _conv(self, value: str, name: str) -> str:
        weights = self._squeezed(self._arrays[f"{name}/weights"].transpose(4, 3, 0, 1, 2))
        inputs = [value, self._constant(f"{name}/weights", weights)]
        if f"{name}/biases" in self._arrays:
            inputs.append(self._constant(f"{name}/biases"))
        kernel = weights.shape[2:]
        halo = [size // 2 for size in kernel]
        return self._op("Conv", name, *inputs, kernel_shape=kernel, pads=[*halo, *halo])

    def _padded(self, value: str, pool: Sequence[int]) -> str:
        """Add zeros at the ends of the axes, up to a multiple of `pool`."""
        sizes, axes = self._sizes(pool), 2 if self._flat else 3
        multiple = self._constant("pool", np.array(sizes, np.int64))
        negative = self._op("Neg", "minus_size", self._op("Shape", "size", value, start=2))
        missing = self._op("Mod", "missing", negative, multiple)  # not negative, as in Python
        none = self._constant("none", np.zeros(4 + axes, np.int64))
        pads = self._op("Concat", "pads", none, missing, axis=0)
        return self._op("Pad", "padded", value, pads)

    def _cropped(self, value: str, like: str) -> str:
        axes = 2 if self._flat else 3
        size = self._op("Shape", "image_size", like, start=2)
        starts = self._constant("starts", np.zeros(axes, np.int64))
        along = self._constant("axes", np.arange(2, 2 + axes))
        return self._op("Slice", "probabilities", value, starts, size, along)

    def _sizes(self, of_axes: Sequence[int]) -> list[int]:
        return list(of_axes[1:] if self._flat else of_axes)

    def _squeezed(self, weights: Any) -> Any:
        return weights[:, :, 0] if self._flat else weights

    def _constant(self, name: str, array: Any = None) -> str:
        values = np.ascontiguousarray(self._arrays[name] if array is None else array)
        self._constants[name] = self._onnx.numpy_helper.from_array(values, name)
        return name

    def _op(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def _value(self, name: str, channels: int) -> Any:
        axes = ["n", channels, *("yx" if self._flat else "zyx")]
        return self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, axes)

    def _input(self, name: str, channels: int) -> str:
        self._inputs.append(self._value(name, channels))
        return name

    def _output(self, name: str, channels: int) -> None:
        self._outputs.append(self._value(name, channels))
