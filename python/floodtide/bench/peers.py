# SPDX-License-Identifier: Apache-2.0
"""The passes of `floodtide bench step`, `forward` and `unet` in other programs, for comparison (`--against`)."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.bench.rows import ONNX
from floodtide.bench.shapes import CLASSES
from floodtide.nn.load import network_of
from floodtide.nn.onnx_export import to_onnx

Run = Callable[[], Any]


def passes_in(program: str, ours: Any, name: str, threads: int) -> dict[str, Run]:
    """Return a pass of a network in another program, by the names of its rows: in each memory format of PyTorch.

    Programs that run ONNX models have forward passes only. Of torch-compile, channels last is first: that format was
    faster for 3-D networks, and as fast for 2-D ones.

    Args:
        program: Name in `floodtide.bench.rows.PEERS`.
        ours: `FfnPasses` or `UNetPasses`, whose network and sizes are used.
        name: "step" or "forward".
    """
    if program in ONNX:
        return {program: _forward_in(program, ours, threads)} if name == "forward" else {}
    peer, last = (TorchUNet, "channels_last") if ours.prefix else (TorchFfn, "channels_last_3d")
    formats = {"contiguous": "contiguous_format", last: last}
    layouts = reversed(formats) if program == "torch-compile" else formats
    made = {layout: peer(ours, program, threads, formats[layout]) for layout in layouts}
    return {f"{program} {layout}": getattr(one, name) for layout, one in made.items()}


class Peer(ABC):
    """A network in PyTorch, limited to the instruction set that floodtide uses.

    Args:
        ours: `FfnPasses` or `UNetPasses`, whose network and sizes are used.
        against: Name of the peer in `floodtide.bench.rows.PEERS`.
        layout: Memory format of activations and weights.
    """

    channels: int

    def __init__(self, ours: Any, against: str, threads: int, layout: str) -> None:
        if _core.active_isa() == "avx2" and "torch" not in sys.modules:
            os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
            os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
        self._torch = torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        memory_format = getattr(torch, layout)
        self._layers = self._made(ours.model).to(memory_format=memory_format)
        self._input = torch.randn(ours.batch, self.channels, *ours.sizes)
        self._input = self._input.to(memory_format=memory_format)
        self._random = torch.rand(ours.batch, *ours.sizes)
        self._bfloat16 = against == "torch-bf16"
        self._run = torch.compile(self._output) if against == "torch-compile" else self._output

    def _output(self) -> Any:
        with self._torch.autocast("cpu", dtype=self._torch.bfloat16, enabled=self._bfloat16):
            return self._logits()

    @abstractmethod
    def _made(self, model: Any) -> Any:
        """Return the layers of an architecture."""

    @abstractmethod
    def _logits(self) -> Any:
        """Return the output for the input."""


class TorchFfn(Peer):
    """A flood-filling network in PyTorch, with a training step and a forward pass."""

    channels = 2

    def __init__(self, *of_peer: Any) -> None:
        super().__init__(*of_peer)
        self._labels = self._torch.where(self._random[:, None] < 0.4, 0.95, 0.05)
        self._optimizer = self._torch.optim.Adam(self._layers.parameters(), lr=1e-3)

    def _made(self, model: Any) -> Any:
        nn, features = self._torch.nn, model.features
        inputs = [2] + [features] * (2 * model.depth - 1)
        layers = [nn.Conv3d(channels, features, 3, padding=1) for channels in inputs]
        return nn.ModuleList([*layers, nn.Conv3d(features, 1, 1)])

    def step(self) -> None:
        """Run the forward pass, the backward pass, entry-wise clipping and an Adam update."""
        functional = self._torch.nn.functional
        self._optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(self._run().float(), self._labels).backward()
        for parameter in self._layers.parameters():
            parameter.grad.clamp_(-0.7, 0.7)
        self._optimizer.step()

    def forward(self) -> None:
        """Run the forward pass without recording operations for gradients."""
        with self._torch.inference_mode():
            self._run()

    def _logits(self) -> Any:
        relu, layers = self._torch.nn.functional.relu, list(self._layers)
        stream = layers[1](relu(layers[0](self._input)))
        for i in range(2, len(layers) - 1, 2):
            stream = stream + layers[i + 1](relu(layers[i](relu(stream))))
        return self._input[:, 1:] + layers[-1](relu(stream))


class TorchUNet(Peer):
    """A 2-D U-Net with batch normalisation in PyTorch, with Dice and cross-entropy loss."""

    channels = 1

    def __init__(self, *of_peer: Any) -> None:
        super().__init__(*of_peer)
        self._labels = (self._random < 0.3).long()

    def _made(self, model: Any) -> Any:
        nn = self._torch.nn
        widths = [model.features << level for level in range(model.depth)]
        self._down = nn.ModuleList(map(self._pair, [1, *widths], widths))
        self._up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in widths[:-1])
        self._joined = nn.ModuleList(self._pair(2 * n, n) for n in widths[:-1])
        self._head = nn.Conv2d(model.features, CLASSES, 1)
        return nn.ModuleList([self._down, self._up, self._joined, self._head])

    def _pair(self, inputs: int, outputs: int) -> Any:
        nn = self._torch.nn
        layers = []
        for channels in (inputs, outputs):
            layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
            layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    def _logits(self) -> Any:
        torch = self._torch
        x, skips = self._input, []
        for level, pair in enumerate(self._down):
            x = pair(x if level == 0 else torch.nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for level in reversed(range(len(self._up))):
            x = self._joined[level](torch.cat([skips[level], self._up[level](x)], 1))
        return self._head(x).float()

    def step(self) -> float:
        """Run the forward and backward pass and return the loss."""
        torch = self._torch
        self._layers.zero_grad()
        logits = self._run()
        truth = torch.nn.functional.one_hot(self._labels, CLASSES).movedim(-1, 1)
        p = torch.softmax(logits, 1)[:, 1:]
        overlap = (p * truth[:, 1:]).sum((2, 3))
        total = p.sum((2, 3)) + truth[:, 1:].sum((2, 3))
        loss = 1 - ((2 * overlap + 1) / (total + 1)).mean()
        loss = loss + torch.nn.functional.cross_entropy(logits, self._labels)
        loss.backward()
        return float(loss.detach())

    def forward(self) -> None:
        """Run the forward pass with moving statistics, without recording operations for gradients."""
        self._layers.eval()
        with self._torch.inference_mode():
            self._torch.softmax(self._run(), 1)
        self._layers.train()


def _forward_in(program: str, ours: Any, threads: int) -> Run:
    """Return a forward pass of a network in "onnxruntime" or "openvino", in float32."""
    model = to_onnx(network_of(ours.core), {})
    random = np.random.default_rng(1)
    values = {}
    for value in model.graph.input:
        channels = value.type.tensor_type.shape.dim[1].dim_value
        values[value.name] = random.standard_normal((ours.batch, channels, *ours.sizes), np.float32)
    start = {"onnxruntime": _in_onnxruntime, "openvino": _in_openvino}[program]
    return start(model.SerializeToString(), values, threads)


def _in_onnxruntime(model: bytes, values: dict[str, Any], threads: int) -> Run:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, values)


def _in_openvino(model: bytes, values: dict[str, Any], threads: int) -> Run:
    core = importlib.import_module("openvino").Core()
    read = core.read_model(model)
    read.reshape({name: list(value.shape) for name, value in values.items()})
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    settings["INFERENCE_NUM_THREADS"] = threads
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    return lambda: request.infer(values)
