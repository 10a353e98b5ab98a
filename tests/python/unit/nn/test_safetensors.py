# SPDX-License-Identifier: Apache-2.0
"""Networks as safetensors files: equal parameters after the way back, and modules of PyTorch load the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import floodtide as ft
from floodtide.cli import run
from floodtide.nn.safetensors_files import save
from floodtide.nn.torch_names import to_torch

FLAT = ft.nn.UNetOptions(depth=3, kernels=((1, 3, 3),), pools=((1, 2, 2),))
UNEVEN = ft.nn.UNetOptions(depth=3, pools=((1, 2, 4), (2, 3, 1)), batch_norm=False)


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "np") as file:
        return dict(file.metadata())


def equal(one: Any, other: Any) -> None:
    assert repr(one) == repr(other)
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@settings(max_examples=15, deadline=None)
@given(depth=st.integers(1, 4), features=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_flood_filling_network_comes_back(
    depth: int, features: int, seed: int, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("ffn") / "network.safetensors"
    network = ft.nn.FFN(depth, (5, 7, 9), (1, 2, 3), features=features, seed=seed)
    save(network, str(path), {})
    equal(network, ft.nn.load(path))
    tensors = load_file(path)
    other = network.like()
    other.load_state_dict({name: array + 1 for name, array in tensors.items()})
    for name, array in network.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], array + 1)
    assert tensors["seed_update.conv0_a.weight"].shape == (features, 2, 3, 3, 3)


@pytest.mark.parametrize("options", [FLAT, UNEVEN])
@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
def test_a_unet_comes_back(options: ft.nn.UNetOptions, output: str, tmp_path: Path) -> None:
    network = ft.nn.UNet(options, classes=3, in_channels=2, output=output, seed=1)
    for number, array in enumerate(network.statistics().values()):
        array += number
    save(network, str(tmp_path / "a.safetensors"), {})
    equal(network, ft.nn.load(tmp_path / "a.safetensors"))


def test_convert_keeps_what_the_network_was_trained_on(data_folder: Path, tmp_path: Path) -> None:
    source = str(data_folder / "ffn_fib25_checkpoint" / "model.ckpt-27465036")
    for before, after in (
        (source, "a.safetensors"),
        ("a.safetensors", "a.h5"),
        ("a.h5", "b.safetensors"),
    ):
        before = before if before == source else str(tmp_path / before)
        assert run(["convert", before, str(tmp_path / after)]) == 0
    first, last = metadata(tmp_path / "a.safetensors"), metadata(tmp_path / "b.safetensors")
    assert first == last
    (volume,) = json.loads(first["training_images"])
    assert (volume["mean"], volume["voxel_size_nm"]) == (128.0, [10.0] * 3)
    equal(ft.nn.load(source), ft.nn.load(tmp_path / "a.h5"))
    assert run(["convert", source, str(tmp_path / "a.safetensors")]) == 0, (
        "an older result is replaced"
    )


def changed(path: Path, known: dict[str, Any] | None = None, **tensors: Any) -> str:
    """Write the file again with another architecture, or without metadata, or with other tensors; return its name."""
    notes = metadata(path) if known is not None else {}
    if known:
        notes["floodtide"] = json.dumps(json.loads(notes["floodtide"]) | known)
    new = load_file(path) | tensors
    save_file({name: array for name, array in new.items() if array is not None}, path, notes)
    return str(path)


@pytest.mark.parametrize(
    ("known", "tensors", "expected"),
    [
        (None, {}, "has no metadata `floodtide`"),
        ({"kind": "transformer"}, {}, "describe no network"),
        ({"depth": 10**9}, {}, "describe no network"),
        ({"features": "many"}, {}, "describe no network"),
        ({"classes": [2]}, {}, "describe no network: classes is a list"),
        (
            {"in_channels": "1"},
            {},
            "describe no network: in_channels is a string .'1'., expected an integer",
        ),
        ({"output": 3}, {}, "describe no network: output is an integer .3., expected a string"),
        ({"surprise": 1}, {}, "unexpected keyword argument 'surprise'"),
        ({"features": 32}, {}, "has shape"),
        ({}, {"head.bias": None}, "1 arrays are missing"),
        ({}, {"more": np.zeros(2, np.float32)}, "1 are unknown"),
        ({}, {"head.bias": np.zeros(2, np.float16)}, "expected float32"),
        ({}, {"head.bias": np.full(2, np.nan, np.float32)}, "not finite"),
        ({}, {"encoder0.norm_a.running_var": -np.ones(16, np.float32)}, "variance has negative"),
        ({}, {"head.weight": np.zeros((2, 16), np.float32)}, "has shape"),
    ],
)
def test_what_is_refused(known: Any, tensors: Any, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    save(ft.nn.UNet(FLAT), str(path), {})
    with pytest.raises(ft.errors.InvalidFileError, match=expected):
        ft.nn.load(changed(path, known, **tensors))


def test_what_no_network_says_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    save(ft.nn.UNet(FLAT), str(path), {})
    with pytest.raises(ft.errors.InvalidArgumentError, match=r"^compute is 'x', expected fp32"):
        ft.nn.load(path, compute="x")
    known = json.loads(metadata(path)["floodtide"])
    del known["output"]
    save_file(load_file(path), path, {"floodtide": json.dumps(known)})
    with pytest.raises(
        ft.errors.InvalidFileError, match="describe no network: there is no 'output'"
    ):
        ft.nn.load(path)


@pytest.mark.parametrize("torch_names", [False, True])
def test_values_that_are_no_arrays_are_named(torch_names: bool) -> None:
    network = ft.nn.UNet(FLAT)
    state: Any = network.state_dict()
    state = to_torch(state, True) if torch_names else state
    name = "head.bias" if torch_names else "head/biases"
    for value, expected in (
        (None, f"{name}: got NoneType, expected an array"),
        ([0.0, 0.0], f"{name} is float64, expected float32"),
        ([[1], [2, 3]], f"{name}: got list, expected an array.*: setting an array element"),
        (np.zeros(2), f"{name} is float64, expected float32"),
    ):
        with pytest.raises(ft.errors.InvalidArgumentError, match=f"^load_state_dict: {expected}"):
            network.load_state_dict({**state, name: value})
    with pytest.raises(ft.errors.InvalidArgumentError, match=r"1 are unknown \(1, \.\.\.\)"):
        network.load_state_dict(state | {1: 2})


@pytest.mark.extra
@pytest.mark.parametrize("torch_names", [False, True])
def test_tensors_of_pytorch(torch_names: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from safetensors.torch import save_file as save_tensors
    from torch._subclasses.fake_tensor import FakeTensorMode

    network, other = ft.nn.UNet(FLAT, seed=1), ft.nn.UNet(FLAT, seed=2)
    save(network, str(tmp_path / "a"), {})
    arrays = load_file(tmp_path / "a") if torch_names else network.state_dict()
    state = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in arrays.items()}
    name = "head.bias" if torch_names else "head/biases"
    bias = state[name].detach()
    other.load_state_dict({**state, name: torch._neg_view(-bias)})
    equal(network, other)
    with FakeTensorMode():
        fake = torch.zeros(2)
    float8 = bias.to(torch.float8_e4m3fn)
    for value in (bias.bfloat16(), float8, bias.to("meta"), bias.to_sparse(), bias.double(), fake):
        with pytest.raises(ft.errors.InvalidArgumentError, match=f"^load_state_dict: {name}"):
            other.load_state_dict({**state, name: value})
    save_tensors({"head.bias": float8}, tmp_path / "b.safetensors", metadata(tmp_path / "a"))
    with pytest.raises(ft.errors.InvalidFileError, match="expected a safetensors file of float32"):
        ft.nn.load(tmp_path / "b.safetensors")


def test_a_damaged_file_and_another_destination(tmp_path: Path, capsys: Any) -> None:
    path, other = tmp_path / "network.safetensors", tmp_path / "mine.safetensors"
    save(ft.nn.UNet(FLAT), str(path), {})
    assert run(["convert", str(path), str(other)]) == 0
    assert run(["convert", str(path), str(other)]) == 0  # its own file is replaced
    save(ft.nn.UNet(FLAT), str(other), {"long": "x" * 2**17, "training_images": "[]"})
    assert run(["convert", str(path), str(other)]) == 0  # metadata have no order
    save_file({"floodtide": np.zeros(3, np.float32)}, tmp_path / "theirs", {"format": "pt"})
    for content in (b"my notes", (tmp_path / "theirs").read_bytes()):
        other.write_bytes(content)
        assert run(["convert", str(path), str(other)]) == 2
        assert "exists and is not a safetensors file of floodtide" in capsys.readouterr().err
        assert other.read_bytes() == content
        assert run(["convert", str(other), str(tmp_path / "a.h5")]) == 2
    for size in (0, 7, 100, path.stat().st_size - 1):
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(ft.errors.InvalidFileError):
            ft.nn.load(path)


@pytest.mark.extra
def test_modules_of_pytorch_load_and_write_the_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from safetensors.torch import load_file as load_tensors
    from safetensors.torch import save_file as save_tensors

    class Pair(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, channels: int, features: int) -> None:
            super().__init__()
            self.conv_a = torch.nn.Conv2d(channels, features, 3, padding=1, bias=False)
            self.norm_a = torch.nn.BatchNorm2d(features)
            self.conv_b = torch.nn.Conv2d(features, features, 3, padding=1, bias=False)
            self.norm_b = torch.nn.BatchNorm2d(features)

        def forward(self, x: Any) -> Any:
            x = self.norm_a(self.conv_a(x)).relu()
            return self.norm_b(self.conv_b(x)).relu()

    class UNet(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder0, self.encoder1, self.decoder0 = Pair(1, 16), Pair(16, 32), Pair(32, 16)
            self.decoder0.up = torch.nn.ConvTranspose2d(32, 16, 2, 2)
            self.head = torch.nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            skip = self.encoder0(x)
            x = self.encoder1(torch.nn.functional.max_pool2d(skip, 2))
            x = self.decoder0(torch.cat([skip, self.decoder0.up(x)], 1))
            return self.head(x).softmax(1)

    ours, path = (
        ft.nn.UNet(ft.nn.UNetOptions(depth=2, kernels=((1, 3, 3),), pools=((1, 2, 2),))),
        tmp_path / "a",
    )
    save(ours, str(path), {})
    theirs = UNet()
    missing, unknown = theirs.load_state_dict(load_tensors(path), strict=False)
    assert not unknown
    assert all(name.endswith("num_batches_tracked") for name in missing)
    image = torch.randn(3, 1, 12, 8)
    for _ in range(3):
        theirs(image)  # changes the statistics of batch normalisation
    with torch.no_grad():
        theirs.head.bias += torch.tensor([0.5, -0.5])
    save_tensors(theirs.state_dict(), tmp_path / "b.safetensors", metadata(path))
    expected = theirs.eval()(image).detach().movedim(1, -1).numpy()
    found = ft.nn.load(tmp_path / "b.safetensors").forward(image[:, 0].numpy()[None])
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    ours.load_state_dict(theirs.state_dict())
    equal(ours, ft.nn.load(tmp_path / "b.safetensors"))
