# SPDX-License-Identifier: Apache-2.0
"""Cases of optimizers: a hundred updates with given gradients, and the training of a small flood-filling network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import floodtide as ft
from golden.case import Array, Case, Results, draw, prefixed

SHAPES = {"a/weights": (3, 4, 5), "a/biases": (5,)}


def arrays(seed: int) -> dict[str, Array]:
    """Return parameters or gradients of a made-up layer."""
    random = np.random.RandomState(seed)
    return {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()
    }


_KEPT = (1, 10, 100)  # updates after which parameters are compared


def stacked(steps: list[Results]) -> Results:
    """Return the results of all steps, with the step as first axis."""
    return {name: np.stack([step[name] for step in steps]) for name in steps[0]}


@dataclass(frozen=True)
class Updates(Case):
    """A hundred updates: the parameters after the first, the tenth and the last one.

    Attributes:
        ours, values: Optimizer of floodtide and its arguments.
        theirs, options: Class of PyTorch and its arguments.
    """

    name: str
    ours: str
    values: dict[str, Any]
    theirs: str
    options: dict[str, Any]

    def floodtide(self) -> Results:
        parameters = arrays(0)
        optimizer = ft.optim.Optimizer(self.ours, 0.01, **self.values)
        steps = []
        for step in range(1, max(_KEPT) + 1):
            optimizer.step(parameters, arrays(step))
            if step in _KEPT:
                steps.append(prefixed("parameters", parameters))
        return stacked(steps)

    def pytorch(self) -> Results:
        from golden import oracle

        parameters = oracle.tensors_of(arrays(0))
        optimizer = oracle.optimizer(self.theirs, parameters, lr=0.01, **self.options)
        steps = []
        for step in range(1, max(_KEPT) + 1):
            oracle.set_gradients(parameters, arrays(step))
            optimizer.step()
            if step in _KEPT:
                steps.append(prefixed("parameters", oracle.values(parameters)))
        return stacked(steps)

    def check(self, result: str, got: Array, expected: Array) -> None:
        # Roundings of 100 updates. Parameters near 0 were sums of terms of the size of the largest parameter.
        scale = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * scale, err_msg=result)


@dataclass(frozen=True)
class FloodTraining(Case):
    """Five steps of network, loss and Adam together, on one example."""

    name: str
    steps: int = 5

    def network(self) -> Any:
        network = ft.nn.FFN(3, (9, 9, 9), (2, 2, 2), 8)
        draw(network.parameters(), 4)
        return network

    def example(self) -> tuple[Array, Array, Array]:
        """Return image, mask logits and softened labels. No input of a ReLU is within 1e-5 of 0."""
        random = np.random.RandomState(8)
        image, logits = random.standard_normal((2, 9, 9, 9)).astype(np.float32)
        labels = np.where(random.random_sample((9, 9, 9)) < 0.4, 0.95, 0.05).astype(np.float32)
        return image, logits, labels

    def floodtide(self) -> Results:
        network, example = self.network(), self.example()
        optimizer = ft.optim.Adam(lr=1e-3)
        losses = []
        for _ in range(self.steps):
            loss, gradients = network.loss_and_gradients(*example)
            optimizer.step(network.parameters(), gradients)
            losses.append(loss)
        return {"losses": np.array(losses)} | prefixed("parameters", network.parameters())

    def pytorch(self) -> Results:
        from golden import oracle

        image, logits, labels = self.example()
        tensors = oracle.tensors_of(self.network().parameters())
        optimizer = oracle.optimizer("Adam", tensors, lr=1e-3)
        losses = []
        for _ in range(self.steps):
            loss = oracle.ffn_loss(oracle.ffn_logits(tensors, image, logits), labels)
            losses.append(oracle.train(optimizer, loss))
        return {"losses": np.array(losses)} | prefixed("parameters", oracle.values(tensors))

    def check(self, result: str, got: Array, expected: Array) -> None:
        if result == "losses":
            super().check(result, got, expected)
        else:
            # Adam divides by the root of squared gradients, which turns the rounding of gradients near zero
            # into a share of a step: 1 % of the 5e-3 walked, for the worst of 9,000 parameters.
            np.testing.assert_allclose(got, expected, rtol=0, atol=5e-5, err_msg=result)


CASES: list[Case] = [
    Updates("SGD", "sgd", {}, "SGD", {}),
    Updates("SGD, decay", "sgd", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}),
    Updates("Momentum", "momentum", {}, "SGD", {"momentum": 0.9}),
    Updates(
        "Nesterov, decay",
        "momentum",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
        "SGD",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    ),
    Updates("Adam", "adam", {}, "Adam", {}),
    Updates(
        "Adam, decay",
        "adam",
        {"beta1": 0.8, "beta2": 0.99, "eps": 1e-4, "weight_decay": 0.1},
        "Adam",
        {"betas": (0.8, 0.99), "eps": 1e-4, "weight_decay": 0.1},
    ),
    Updates("AdamW", "adamw", {}, "AdamW", {"weight_decay": 0.01}),
    Updates(
        "Adam, decoupled decay",
        "adam",
        {"weight_decay": 0.3, "decay": "decoupled"},
        "AdamW",
        {"weight_decay": 0.3},
    ),
    Updates("Adagrad", "adagrad", {}, "Adagrad", {}),
    Updates(
        "Adagrad, decay",
        "adagrad",
        {"initial_accumulator": 0.1, "weight_decay": 0.1},
        "Adagrad",
        {"initial_accumulator_value": 0.1, "weight_decay": 0.1},
    ),
    Updates("Adadelta", "adadelta", {}, "Adadelta", {}),
    Updates(
        "Adadelta, decay",
        "adadelta",
        {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1},
        "Adadelta",
        {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1},
    ),
    Updates("RMSprop", "rmsprop", {}, "RMSprop", {}),
    Updates(
        "RMSprop, centred, with momentum",
        "rmsprop",
        {"rho": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
        "RMSprop",
        {"alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
    ),
    FloodTraining("FFN, Adam"),
]
