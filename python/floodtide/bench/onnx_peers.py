# SPDX-License-Identifier: Apache-2.0
"""The forward passes of `floodtide bench forward` and `unet` in programs that run ONNX models, for comparison."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from floodtide.nn.load import network_of
from floodtide.nn.onnx_export import to_onnx

Run = Callable[[], Any]


class OnnxPeer:
    """A forward pass of a network in onnxruntime or OpenVINO, in float32. It has no training step.

    Args:
        program: "onnxruntime" or "openvino".
        ours: `FfnPasses` or `UNetPasses`, whose network and sizes are used.
    """

    def __init__(self, program: str, ours: Any, threads: int) -> None:
        model = to_onnx(network_of(ours.core), {})
        shapes = [
            [ours.batch, value.type.tensor_type.shape.dim[1].dim_value, *ours.sizes]
            for value in model.graph.input
        ]
        random = np.random.default_rng(1)
        self._values = {
            value.name: random.standard_normal(shape, np.float32)
            for value, shape in zip(model.graph.input, shapes, strict=True)
        }
        start = {"onnxruntime": _in_onnxruntime, "openvino": _in_openvino}[program]
        self.forward: Run = start(model.SerializeToString(), self._values, threads)


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
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    return lambda: request.infer(values)
