# SPDX-License-Identifier: Apache-2.0
"""Optimizers and rates from Python; PyTorch is the oracle where it is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import floodtide as ft
from floodtide.errors import InvalidArgumentError, ShapeError

Array = npt.NDArray[np.float32]
SHAPES = {"a/weights": (3, 4, 5), "a/biases": (5,)}

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch, the oracle of this test, is not installed (dependency group `oracle`)",
)


def arrays(seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()
    }


CASES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("SGD", {}, "SGD", {}),
    ("SGD", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    ("Momentum", {}, "SGD", {"momentum": 0.9}),
    (
        "Momentum",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
        "SGD",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    ),
    ("Adam", {}, "Adam", {}),
    (
        "Adam",
        {"beta1": 0.8, "beta2": 0.99, "eps": 1e-4, "weight_decay": 0.1},
        "Adam",
        {"betas": (0.8, 0.99), "eps": 1e-4, "weight_decay": 0.1},
    ),
]


@needs_torch
@pytest.mark.parametrize(("ours", "values", "theirs", "options"), CASES)
def test_ten_steps_equal_pytorch(
    ours: str, values: dict[str, Any], theirs: str, options: dict[str, Any]
) -> None:
    import torch

    parameters = arrays(0)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in parameters.items()}
    optimizer = getattr(ft.optim, ours)(lr=0.01, **values)
    oracle = getattr(torch.optim, theirs)(list(tensors.values()), lr=0.01, **options)
    for step in range(1, 11):
        gradients = arrays(step)
        optimizer.step(parameters, gradients)
        for name, tensor in tensors.items():
            tensor.grad = torch.from_numpy(gradients[name])
        oracle.step()
    for name, array in parameters.items():
        # Ten steps of up to four roundings of numbers of magnitude 1 to 4.
        tolerance = 10 * 4 * np.finfo(np.float32).eps
        np.testing.assert_allclose(array, tensors[name].numpy(), rtol=tolerance, atol=tolerance)


@needs_torch
def test_adam_steps_of_a_small_network_equal_pytorch() -> None:
    """Five steps of the network, loss and Adam together against PyTorch's autograd in float64."""
    import torch

    network = ft.nn.FFN(3, (9, 9, 9), (2, 2, 2), 8, seed=4)
    random = np.random.default_rng(1)
    image, logits = random.standard_normal((2, 9, 9, 9)).astype(np.float32)
    labels = np.where(random.random((9, 9, 9)) < 0.4, 0.95, 0.05).astype(np.float32)
    tensors = {
        name: torch.from_numpy(array.astype(np.float64)).requires_grad_()
        for name, array in network.state_dict().items()
    }
    oracle = torch.optim.Adam(tensors.values(), lr=1e-3)
    optimizer = ft.optim.Adam(lr=1e-3)
    for _ in range(5):
        loss, gradients = network.loss_and_gradients(image, logits, labels)
        optimizer.step(network.parameters(), gradients)
        oracle.zero_grad()
        expected = torch.nn.functional.binary_cross_entropy_with_logits(
            _torch_ffn(tensors, image, logits), torch.from_numpy(labels.astype(np.float64))
        )
        expected.backward()
        oracle.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    # Adam divides by the root of squared gradients, which turns the rounding of gradients near zero
    # into a share of a step: 1 % of the 5e-3 walked, for the worst of 9,000 parameters.
    for name, array in network.state_dict().items():
        np.testing.assert_allclose(array, tensors[name].detach().numpy(), rtol=0, atol=5e-5)


def _torch_ffn(tensors: dict[str, Any], image: Array, logits: Array) -> Any:
    import torch

    def convolve(value: Any, name: str) -> Any:
        weights = tensors[f"seed_update/{name}/weights"].permute(4, 3, 0, 1, 2)
        padding = weights.shape[-1] // 2
        return torch.nn.functional.conv3d(
            value, weights, tensors[f"seed_update/{name}/biases"], padding=padding
        )

    value = torch.from_numpy(np.stack([image, logits]).astype(np.float64))[None]
    stream = convolve(convolve(value, "conv0_a").relu(), "conv0_b")
    for i in (1, 2):
        inner = convolve(stream.relu(), f"conv{i}_a").relu()
        stream = stream + convolve(inner, f"conv{i}_b")
    return value[0, 1] + convolve(stream.relu(), "conv_lom")[0, 0]


def test_every_row_has_a_class() -> None:
    classes = {cls().name for cls in (ft.optim.SGD, ft.optim.Momentum, ft.optim.Adam)}
    assert classes == {row["name"] for row in ft.optim.rows()}


@pytest.mark.parametrize("row", ft.optim.rows(), ids=lambda row: row["name"])
def test_defaults_of_the_rows_are_accepted_and_change_nothing(row: dict[str, Any]) -> None:
    explicit = {parameter["name"]: parameter["default"] for parameter in row["parameters"]}
    results = []
    for values in ({}, explicit):
        parameters = arrays(0)
        ft.optim.Optimizer(row["name"], **values).step(parameters, arrays(1))
        results.append(parameters)
    for name in SHAPES:
        np.testing.assert_array_equal(results[0][name], results[1][name])


@pytest.mark.parametrize("row", ft.optim.rows(), ids=lambda row: row["name"])
def test_a_loaded_state_continues_bit_for_bit(row: dict[str, Any]) -> None:
    first, parameters = ft.optim.Optimizer(row["name"]), arrays(0)
    first.step(parameters, arrays(1))
    second = ft.optim.Optimizer(row["name"])
    second.load_state_dict(first.state_dict())
    copies = {name: array.copy() for name, array in parameters.items()}
    first.step(parameters, arrays(2))
    second.step(copies, arrays(2))
    for name in SHAPES:
        np.testing.assert_array_equal(parameters[name], copies[name])


def test_the_rate_of_a_step_replaces_the_optimizer_s() -> None:
    parameters, gradients = arrays(0), arrays(1)
    before = {name: array.copy() for name, array in parameters.items()}
    ft.optim.SGD(lr=1.0).step(parameters, gradients, lr=0)
    for name in SHAPES:
        np.testing.assert_array_equal(parameters[name], before[name])


def test_wrong_use_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="there is no parameter 'beta'"):
        ft.optim.Adam(beta=0.9)
    with pytest.raises(InvalidArgumentError, match="beta1 is 1, expected at least 0 and below 1"):
        ft.optim.Adam(beta1=1.0)
    optimizer = ft.optim.Adam()
    with pytest.raises(InvalidArgumentError, match="different names, such as a/biases"):
        optimizer.step(arrays(0), {"a/weights": arrays(1)["a/weights"]})
    with pytest.raises(ShapeError, match="3 gradients"):
        optimizer.step({"x": np.zeros(4, np.float32)}, {"x": np.zeros(3, np.float32)})
    strided = np.zeros((4, 4), np.float32).T[:2]
    with pytest.raises(InvalidArgumentError, match="contiguous"):
        optimizer.step({"y": strided}, {"y": strided.copy()})
    momentum = ft.optim.Momentum()
    momentum.step(arrays(0), arrays(1))
    with pytest.raises(InvalidArgumentError, match="state"):
        ft.optim.Adam().load_state_dict(momentum.state_dict())


def test_clip_limits_entries_in_place() -> None:
    gradients = {"x": np.array([-2, 0.1, 0.8], np.float32)}
    ft.optim.clip(gradients, 0.7)
    np.testing.assert_array_equal(gradients["x"], np.array([-0.7, 0.1, 0.7], np.float32))


def test_scale_rules() -> None:
    assert [ft.lr.scale(rule)(16) for rule in ("none", "linear", "sqrt")] == [1, 16, 4]
    assert {row["name"] for row in ft.lr.scale_rows()} == {"none", "linear", "sqrt", "paper"}
    assert [ft.lr.scale("paper")(n) for n in (1, 16, 64)] == [1, 16, 32]
    with pytest.raises(InvalidArgumentError, match="there is no 'cubic'"):
        ft.lr.scale("cubic")
    with pytest.raises(InvalidArgumentError, match="0 workers"):
        ft.lr.scale("sqrt")(0)


def test_warm_up_is_pure_and_linear() -> None:
    schedule = ft.lr.Warmup(0.5, 6, scale="sqrt")
    assert [schedule(step, workers=16) for step in (0, 3, 6, 100)] == [0.5, 1.25, 2.0, 2.0]
    assert schedule(3, workers=16) == 1.25
    assert schedule(3) == 0.5
    from_zero = ft.lr.Warmup(0.5, 4, warmup_start="zero")
    assert [from_zero(step) for step in (0, 1, 4)] == [0, 0.125, 0.5]
    with pytest.raises(InvalidArgumentError, match="warmup_start is 'half'"):
        ft.lr.Warmup(0.5, 4, warmup_start="half")


def test_cosine_falls_from_the_scaled_rate_to_zero() -> None:
    schedule = ft.lr.Cosine(0.5, 18, 6, scale="sqrt")
    rates = [schedule(step, workers=16) for step in (0, 3, 6, 10, 12, 18, 100)]
    assert rates == pytest.approx([0.5, 1.25, 2.0, 1.5, 1.0, 0.0, 0.0])
    with pytest.raises(InvalidArgumentError, match="6 steps in all, expected more than the 6"):
        ft.lr.Cosine(0.5, 6, 6)
