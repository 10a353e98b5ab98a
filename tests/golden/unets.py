# SPDX-License-Identifier: Apache-2.0
"""Cases of U-Nets: passes and short trainings of small networks, and segmentation losses."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import floodtide as ft
from floodtide import _core
from floodtide.nn import SegmentationLoss
from golden.case import Array, Case, Results, draw, prefixed

SLICES: dict[str, Any] = {"kernels": ((1, 3, 3),), "pools": ((1, 2, 2),)}
"""Options of a two-dimensional network."""


def network_of(**options: Any) -> ft.nn.UNet:
    """Return a network none of whose arrays has its initial 0 or 1."""
    names = {field.name for field in dataclasses.fields(ft.nn.UNetOptions)} & options.keys()
    made = ft.nn.UNetOptions(**{name: options.pop(name) for name in names})
    network = ft.nn.UNet(made, **options)
    draw(network.parameters() | network.statistics(), 4)
    return network


def batch_of(
    network: Any, n: int, size: tuple[int, ...], seed: int = 5
) -> tuple[Array, Array, Array | None]:
    """Return images, truth (some of it not counted) and weights, with channels as last axis."""
    random = np.random.RandomState(seed)
    options = network.core.options
    images = random.standard_normal((n, *size, options.in_channels)).astype(np.float32)
    if options.output == "sigmoid":
        truth = (random.random_sample((n, *size, options.classes)) < 0.4).astype(np.float32)
        return images, truth, random.random_sample(truth.shape).astype(np.float32)
    labels = random.randint(0, options.classes, (n, *size), np.uint8)
    labels[random.random_sample(labels.shape) < 0.1] = 255
    return images, labels, None


@dataclass(frozen=True)
class UNetPasses(Case):
    """A forward pass, and a training pass: its loss, gradients and the moving statistics after it.

    Attributes:
        options: Arguments of the network; the depth is 3 by default.
        n, size: Number of images, and their size in voxels.
        groups, loss: As for `UNet.loss_and_gradients`.
        seed: Random seed of the batch. With the seeds below, no input of a ReLU is within 1e-5 of 0, and no two
            largest inputs of a max pooling are within 1e-5. Otherwise rounding could change a sign or the place of a
            maximum, and gradients would differ by more than rounding.
    """

    name: str
    options: dict[str, Any]
    n: int
    size: tuple[int, int, int]
    groups: int = 1
    loss: SegmentationLoss = field(default_factory=SegmentationLoss)
    seed: int = 5

    def network(self) -> ft.nn.UNet:
        return network_of(**({"depth": 3} | self.options))

    def batch(self) -> tuple[Array, Array, Array | None]:
        """Return images, truth and weights."""
        return batch_of(self.network(), self.n, self.size, self.seed)

    def pass_of_floodtide(self, network: Any) -> tuple[float, dict[str, Array]]:
        """Return the loss and the gradients of a training pass, and move the statistics."""
        images, truth, weights = self.batch()
        passed: tuple[float, dict[str, Array]] = network.loss_and_gradients(
            images, truth, loss=self.loss, weights=weights, groups=self.groups
        )
        return passed

    def pass_of_pytorch(self, core: Any, tensors: Any) -> Any:
        """Return the loss of a training pass as a tensor, and move the statistics."""
        from golden import oracle

        images, truth, weights = self.batch()
        logits = oracle.unet_logits(core, tensors, images, self.groups, train=True)
        return oracle.unet_loss(self.loss, core.options.output, logits, truth, weights) / self.n

    def floodtide(self) -> Results:
        network = self.network()
        probabilities = network.forward(self.batch()[0])
        loss, gradients = self.pass_of_floodtide(network)
        return (
            {"probabilities": probabilities, "losses": np.array([loss])}
            | prefixed("gradients", gradients)
            | prefixed("statistics", network.statistics())
        )

    def pytorch(self) -> Results:
        from golden import oracle

        network = self.network()
        core, tensors = network.core, oracle.tensors_of(network.state_dict())
        logits = oracle.unet_logits(core, tensors, self.batch()[0], 1, train=False)
        probabilities = oracle.values({"": oracle.probabilities(core.options.output, logits)})[""]
        loss = self.pass_of_pytorch(core, tensors)
        loss.backward()
        moved = oracle.values({name: tensors[name] for name in network.statistics()})
        return (
            {
                "probabilities": probabilities,
                "losses": np.array([float(loss.detach())]),
            }
            | prefixed("gradients", oracle.gradients(tensors))
            | prefixed("statistics", moved)
        )


@dataclass(frozen=True)
class UNetTraining(UNetPasses):
    """Five training steps with Momentum on one batch: losses, and parameters and moving statistics afterwards."""

    steps: int = 5

    def floodtide(self) -> Results:
        network = self.network()
        optimizer = ft.optim.Momentum(lr=0.1)
        losses = []
        for _ in range(self.steps):
            loss, gradients = self.pass_of_floodtide(network)
            optimizer.step(network.parameters(), gradients)
            losses.append(loss)
        return {"losses": np.array(losses)} | prefixed("trained", network.state_dict())

    def pytorch(self) -> Results:
        from golden import oracle

        network = self.network()
        tensors = oracle.tensors_of(network.state_dict())
        optimizer = oracle.optimizer("SGD", tensors, lr=0.1, momentum=0.9)
        losses = []
        for _ in range(self.steps):
            loss = self.pass_of_pytorch(network.core, tensors)
            losses.append(oracle.train(optimizer, loss))
        return {"losses": np.array(losses)} | prefixed("trained", oracle.values(tensors))


@dataclass(frozen=True)
class Losses(Case):
    """Segmentation losses of given logits, and their gradients."""

    name: str
    output: str
    over_batch: bool
    classes: int
    loss_tolerance = 1e-6

    def losses(self) -> dict[str, SegmentationLoss]:
        """Return the losses by name."""
        over_batch = self.over_batch
        return {
            "Dice and cross-entropy": SegmentationLoss(over_batch=over_batch),
            "cross-entropy": SegmentationLoss(dice=0, cross_entropy=2, over_batch=over_batch),
            "Dice": SegmentationLoss(
                dice=2, cross_entropy=0, over_batch=over_batch, background=True, smooth=0
            ),
            "focal": SegmentationLoss(dice=0, focus=2, over_batch=over_batch),
            "Dice and focal": SegmentationLoss(focus=1.5, over_batch=over_batch),
        }

    def batch(self) -> tuple[Array, Array, Array | None]:
        """Return logits, truth (some of it not counted) and weights."""
        random = np.random.RandomState(6)
        logits = (3 * random.standard_normal((3, 2, 5, 7, self.classes))).astype(np.float32)
        if self.output == "softmax":
            labels = random.randint(0, self.classes, logits.shape[:-1], np.uint8)
            labels[0, 0] = 255
            return logits, labels, None
        truth = random.random_sample(logits.shape).astype(np.float32)
        return logits, truth, random.random_sample(logits.shape).astype(np.float32)

    def floodtide(self) -> Results:
        logits, truth, weights = self.batch()
        losses = []
        gradients: Results = {}
        for name, loss in self.losses().items():
            labels, targets = (truth, None) if self.output == "softmax" else (None, truth)
            report, _, gradients[name] = _core.segmentation_loss(
                loss.core(), self.output, logits, labels, targets, weights, None
            )
            losses.append(report["loss"])
        return {"losses": np.array(losses)} | prefixed("gradients", gradients)

    def pytorch(self) -> Results:
        from golden import oracle

        logits, truth, weights = self.batch()
        losses = []
        gradients: Results = {}
        for name, options in self.losses().items():
            tensors = oracle.tensors_of({name: logits})
            loss = oracle.unet_loss(options, self.output, tensors[name], truth, weights)
            loss.backward()
            losses.append(float(loss.detach()))
            gradients |= oracle.gradients(tensors)
        return {"losses": np.array(losses)} | prefixed("gradients", gradients)


AFFINITIES = {"classes": 3, "output": "sigmoid"}
ANISOTROPIC = AFFINITIES | {
    "kernels": ((1, 3, 3), (3, 3, 3), (3, 3, 3)),
    "pools": ((1, 2, 2), (2, 2, 2)),
}
SHALLOW = AFFINITIES | {"depth": 2, "kernels": ((1, 3, 3), (3, 3, 3)), "pools": ((1, 2, 2),)}
UNEVEN = {"kernels": ((3, 3, 3),), "pools": ((1, 2, 4), (2, 3, 1)), "classes": 3}

CASES: list[Case] = [
    UNetPasses("slices", SLICES, 2, (1, 16, 24), seed=10),
    UNetPasses(
        "three classes, groups",
        SLICES | {"classes": 3},
        4,
        (1, 8, 16),
        2,
        SegmentationLoss(over_batch=True, smooth=0.5),
    ),
    UNetPasses(
        "Dice alone, no batch norm",
        SLICES | {"batch_norm": False},
        2,
        (1, 16, 8),
        loss=SegmentationLoss(cross_entropy=0, background=True),
    ),
    UNetPasses(
        "cross-entropy alone, channels",
        SLICES | {"in_channels": 3, "classes": 3},
        2,
        (1, 8, 8),
        2,
        SegmentationLoss(dice=0),
    ),
    UNetPasses("one level", SLICES | {"depth": 1}, 3, (1, 7, 5)),
    UNetPasses(
        "affinities",
        ANISOTROPIC,
        2,
        (4, 12, 16),
        2,
        SegmentationLoss(dice=0.5, over_batch=True),
        seed=49,
    ),
    UNetPasses("volumes, uneven pools", UNEVEN, 2, (4, 12, 8), seed=17),
    UNetTraining("training on slices", SLICES | {"depth": 2}, 4, (1, 8, 8), seed=8),
    UNetTraining("training on volumes", SHALLOW, 2, (2, 8, 8), seed=6),
    *(
        Losses(
            f"losses of {output}, {classes} classes, {'batch' if over_batch else 'image'}",
            output,
            over_batch,
            classes,
        )
        for output in ("softmax", "sigmoid")
        for over_batch in (False, True)
        for classes in (2, 3)
    ),
]
