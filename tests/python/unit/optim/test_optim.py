# SPDX-License-Identifier: Apache-2.0
"""Optimizers and rates from Python. `test_pytorch.py` compares the updates with those of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden.optimizers import SHAPES, arrays

import floodtide as ft
from floodtide import _core
from floodtide.errors import InvalidArgumentError, ShapeError


@pytest.mark.parametrize("row", _core.optimizer_rows(), ids=lambda row: row["name"])
def test_defaults_of_the_rows_are_accepted_and_change_nothing(row: dict[str, Any]) -> None:
    explicit = {parameter["name"]: parameter["default"] for parameter in row["parameters"]}
    results = []
    for values in ({}, explicit):
        parameters = arrays(0)
        ft.optim.Optimizer(row["name"], **values).step(parameters, arrays(1))
        results.append(parameters)
    for name in SHAPES:
        np.testing.assert_array_equal(results[0][name], results[1][name])


@pytest.mark.parametrize("row", _core.optimizer_rows(), ids=lambda row: row["name"])
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


def test_a_loaded_state_is_saved_again_before_the_first_step() -> None:
    first = ft.optim.Optimizer("lamb")
    first.step(arrays(0), arrays(1))
    second = ft.optim.Optimizer("lamb")
    second.load_state_dict(first.state_dict())
    for name, values in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name], values)


def test_layers_of_lars_are_arrays_with_several_axes() -> None:
    steps = {}
    for layers in ("weights", "all"):
        parameters = {"w": np.full((2, 2), 2.0, np.float32), "b": np.full(4, 2.0, np.float32)}
        gradients = {name: np.ones_like(array) for name, array in parameters.items()}
        ft.optim.Optimizer("lars", lr=1.0, trust=0.1, layers=layers).step(parameters, gradients)
        steps[layers] = [float(parameters["w"][0, 0]), float(parameters["b"][0])]
    assert steps["weights"] == pytest.approx([1.8, 1.0])
    assert steps["all"] == pytest.approx([1.8, 1.8])


def test_scale_rules() -> None:
    assert [ft.optim.lr.scale(rule)(16) for rule in ("none", "linear", "sqrt")] == [1, 16, 4]
    assert [ft.optim.lr.scale("paper")(n) for n in (1, 16, 64)] == [1, 16, 32]
    assert [ft.optim.lr.scale("paper", anchor="base")(n) for n in (1, 16, 64)] == [1, 16, 8]
    assert ft.optim.lr.scale("linear_batch")(4, batch=3) == 12
    auto = ft.optim.lr.scale("auto", exponent=0.5)
    assert auto(64) == 1
    assert auto(64, noise_scale=1e9) == pytest.approx(8)
    with pytest.raises(InvalidArgumentError, match="there is no 'cubic'"):
        ft.optim.lr.scale("cubic")
    with pytest.raises(InvalidArgumentError, match="0 walkers"):
        ft.optim.lr.scale("sqrt")(0)


def test_warm_up_is_pure_and_linear() -> None:
    schedule = ft.optim.lr.Schedule("constant", base_lr=0.5, warmup_steps=6, scale="sqrt")
    assert [schedule(step, workers=16) for step in (0, 3, 6, 100)] == [0.5, 1.25, 2.0, 2.0]
    assert schedule(3, workers=16) == 1.25
    assert schedule(3) == 0.5
    from_zero = ft.optim.lr.Schedule("constant", base_lr=0.5, warmup_steps=4, warmup_start="zero")
    assert [from_zero(step) for step in (0, 1, 4)] == [0, 0.125, 0.5]
    with pytest.raises(InvalidArgumentError, match="warmup_start is 'half'"):
        ft.optim.lr.Schedule("constant", warmup_steps=4, warmup_start="half")


def test_every_schedule_is_a_pure_function_that_python_can_call() -> None:
    for row in _core.schedule_rows():
        schedule = ft.optim.lr.Schedule(row["name"], base_lr=0.5, scale="sqrt")
        rates = [schedule(step, workers=4) for step in (0, 5, 5000)]
        assert rates == [schedule(step, workers=4) for step in (0, 5, 5000)]
        assert all(rate >= 0 for rate in rates)


def test_a_warm_up_longer_than_the_training_is_refused() -> None:
    schedule = ft.optim.lr.Schedule("constant", warmup_steps=11, scale="sqrt")
    with pytest.raises(
        InvalidArgumentError, match=r"expected schedule\.warmup_steps of at most 10"
    ):
        schedule.for_training(1e-3, 10)
    assert schedule.for_training(1e-3, 11).values["base_lr"] == 1e-3


def test_cosine_falls_from_the_scaled_rate_to_zero() -> None:
    schedule = ft.optim.lr.Schedule(
        "cosine", base_lr=0.5, total_steps=18, warmup_steps=6, scale="sqrt"
    )
    rates = [schedule(step, workers=16) for step in (0, 3, 6, 10, 12, 18, 100)]
    assert rates == pytest.approx([0.5, 1.25, 2.0, 1.5, 1.0, 0.0, 0.0])
    with pytest.raises(InvalidArgumentError, match="6 steps in all, expected more than the 6"):
        ft.optim.lr.Schedule("cosine", base_lr=0.5, total_steps=6, warmup_steps=6)
