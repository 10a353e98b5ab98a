# SPDX-License-Identifier: Apache-2.0
"""ONNX models of networks give the results of our forward pass in onnxruntime, for any batch and size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import data, nn
from floodtide.cli import run
from floodtide.nn.onnx_export import save, to_onnx

LARGEST = 1e-4  # difference of logits and probabilities
SIZES = st.tuples(*[st.integers(1, 12)] * 3)


def result(model: Any, **inputs: np.ndarray) -> Any:
    given = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0]


@settings(max_examples=10, deadline=None)
@given(batch=st.integers(1, 3), size=SIZES, depth=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_flood_filling_network(batch: int, size: Any, depth: int, seed: int) -> None:
    network = nn.FFN(depth, (5, 5, 5), (1, 1, 1), features=6, seed=seed)
    image, logits = np.random.default_rng(seed).standard_normal((2, batch, *size), np.float32)
    ours = network.forward(image, logits)
    theirs = result(to_onnx(network, {}), image=image[:, None], logits=logits[:, None])
    np.testing.assert_allclose(theirs[:, 0], ours, atol=LARGEST)


@settings(max_examples=15, deadline=None)
@given(
    batch=st.integers(1, 2),
    size=SIZES,
    depth=st.integers(2, 3),
    kernels=st.sampled_from([(3, 3, 3), (1, 3, 3), (3, 1, 3)]),
    pools=st.sampled_from([(2, 2, 2), (1, 2, 2), (1, 3, 2)]),
    norm=st.booleans(),
    channels=st.integers(1, 2),
    output=st.sampled_from(["softmax", "sigmoid"]),
    seed=st.integers(0, 99),
)
def test_a_unet(
    batch: int,
    size: Any,
    depth: int,
    kernels: Any,
    pools: Any,
    norm: bool,
    channels: int,
    output: str,
    seed: int,
) -> None:
    options = nn.UNetOptions(depth=depth, kernels=(kernels,), pools=(pools,), batch_norm=norm)
    network = nn.UNet(options, classes=3, in_channels=channels, output=output, seed=seed)
    random = np.random.default_rng(seed)
    for name, array in network.state_dict().items():
        noise = random.standard_normal(array.shape, np.float32)
        target = {**network.parameters(), **network.statistics()}[name]
        target[...] = np.abs(noise) + 0.5 if name.endswith("variance") else array + 0.01 * noise
    images = random.standard_normal((batch, *size, channels), np.float32)
    ours = network.forward(images)
    if network.flat:
        sections = images.reshape(-1, *size[1:], channels)
        theirs = result(to_onnx(network, {}), image=np.moveaxis(sections, -1, 1))
        theirs = np.moveaxis(theirs, 1, -1).reshape(ours.shape)
    else:
        theirs = np.moveaxis(result(to_onnx(network, {}), image=np.moveaxis(images, -1, 1)), 1, -1)
    assert np.ptp(ours) > 10 * LARGEST or min(size) == 1, "outputs differ between voxels"
    np.testing.assert_allclose(theirs, ours, atol=LARGEST)


@pytest.mark.extra
def test_openvino_with_the_documented_option(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    network = nn.UNet(nn.UNetOptions(depth=2), classes=3, seed=1)
    image = np.random.default_rng(1).standard_normal((1, 8, 16, 16), np.float32)
    save(network, str(tmp_path / "a.onnx"), {})
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(tmp_path / "a.onnx", "CPU", precision)
    theirs = np.moveaxis(compiled({"image": image[:, None]})[0], 1, -1)
    np.testing.assert_allclose(theirs, network.forward(image), atol=LARGEST)


def test_the_published_network_with_its_metadata(data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "fib25.onnx"
    source = data_folder / "ffn_fib25_checkpoint" / "model.ckpt-27465036"
    assert run(["convert", str(source), str(out)]) == 0
    session = onnxruntime.InferenceSession(out)
    vectors = np.load(data_folder / "ffn_fib25_checkpoint" / "forward_vectors.npz")
    images = ((vectors["image_raw"] - 128.0) / 33.0).astype(np.float32)
    logits = session.run(None, {"image": images[:, None], "logits": vectors["seed_later"][:, None]})
    np.testing.assert_allclose(logits[0][:, 0], vectors["logits_later"], atol=LARGEST)
    known = session.get_modelmeta().custom_metadata_map
    (volume,) = json.loads(known["training_images"])
    assert (volume["mean"], volume["std"], volume["voxel_size_nm"]) == (128.0, 33.0, [10.0] * 3)
    assert (known["mean"], known["std"]) == ("[128.0]", "[33.0]")
    architecture = json.loads(known["floodtide"])
    assert (architecture["fov"], architecture["deltas"]) == ([33] * 3, [8] * 3)
    assert run(["convert", str(source), str(out)]) == 0, "an older result is replaced"


def test_what_is_refused(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    network, other = tmp_path / "network.h5", tmp_path / "notes.onnx"
    nn.FFN(1, (3, 3, 3), (1, 1, 1), features=2).save(network)
    other.write_text("my notes on floodtide")
    assert run(["convert", str(network), str(other)]) == 2
    assert "exists and is not an ONNX model of floodtide" in capsys.readouterr().err
    assert other.read_text() == "my notes on floodtide"
    for ending in ("h5", "onnx", "safetensors"):
        (tmp_path / f"empty.{ending}").touch()
        assert run(["convert", str(network), str(tmp_path / f"empty.{ending}")]) == 0
    data.write_volume(tmp_path / "image.h5", {"raw": np.zeros((2, 2, 2), np.uint8)})
    assert run(["convert", str(tmp_path / "image.h5"), str(tmp_path / "a.onnx")]) == 2
    importing = importlib.import_module

    def without(name: str, *others: Any) -> Any:
        if name == "onnx":
            raise ModuleNotFoundError(name=name)
        return importing(name, *others)

    monkeypatch.setattr(importlib, "import_module", without)
    assert run(["convert", str(network), str(tmp_path / "b.onnx")]) == 2
    assert "needs the Python package onnx, which is not installed" in capsys.readouterr().err
    assert not (tmp_path / "b.onnx").exists()
