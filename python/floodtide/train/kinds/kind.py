# SPDX-License-Identifier: Apache-2.0
"""What a kind of network provides: the objects of a training from a configuration, and a configuration from objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from floodtide import _core, nn
from floodtide.config import Config
from floodtide.config.sections import AugmentationConfig, DataConfig, ModelConfig, ValidationConfig
from floodtide.data import Affinities, Shards, Slices
from floodtide.optim import Optimizer
from floodtide.optim.lr import Schedule
from floodtide.train.kinds.flood_task import FloodValidation
from floodtide.train.task import Task

Model = nn.FFN | nn.UNet
Data = Shards | Slices | Affinities
HeldOut = FloodValidation | Slices | Affinities


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Network, training data, held-out data, loss, optimizer and schedule of a training.

    `loss` is of U-Nets; flood-filling networks always minimise the sigmoid cross-entropy.
    """

    model: Model
    data: Data
    validation: HeldOut | None
    loss: nn.SegmentationLoss
    optimizer: Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a job trains.

    Attributes:
        config: The configuration, with the partitions that the job has made itself.
        parts: The objects that it describes.
        task: The network with its training and validation data.
        average: Receives the averaged parameters; None without `training.average`.
        statistics: Grey values of the training data for the checkpoints; empty on ranks above 0.
        warnings: What the checks of the data have found; empty on ranks above 0.
    """

    config: Config
    parts: Parts
    task: Task
    average: Model | None
    statistics: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DescribedSections:
    """The sections of a configuration that describe network and data.

    Attributes:
        model: Section [model].
        data: Section [data].
        training: Keys of section [training] that the objects decide.
        validation: Section [validation].
        augmentation: Section [augmentation].
    """

    model: ModelConfig
    data: DataConfig
    training: dict[str, Any]
    validation: ValidationConfig
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)


class Kind(ABC):
    """A kind of network: a row of the registry.

    Attributes:
        section: Class of the section [model] of a configuration. Its `kind` is the name of the row.
        model: Class of the network.
        data: Class of the training data.
        held_out: Class of the held-out data.
    """

    section: type[ModelConfig]
    model: type[Model]
    data: type[Data]
    held_out: type[HeldOut]

    @abstractmethod
    def new_model(self, config: Config) -> Model:
        """Return a new network with random weights."""

    @abstractmethod
    def initial_model(self, config: Config) -> Model:
        """Load the network that `model.initial_weights` names.

        Raises:
            ConfigurationError: If the file holds another network than the configuration describes.
            InvalidFileError: If the file cannot be read.
        """

    @abstractmethod
    def data_of(self, config: Config, walkers: int) -> Data:
        """Return the training data for a number of walkers."""

    @abstractmethod
    def held_out_of(self, config: Config) -> HeldOut | None:
        """Return the held-out data; None if the configuration holds nothing out."""

    @abstractmethod
    def task_of(self, parts: Parts, config: Config) -> Task:
        """Return the training task of a network and its data."""

    @abstractmethod
    def describe(self, parts: Parts, validate_every: int) -> DescribedSections:
        """Return the sections from which `new_model`, `data_of` and `held_out_of` build the same objects.

        Raises:
            InvalidArgumentError: If no configuration describes the objects together.
        """

    @abstractmethod
    def options_of(self, config: Config) -> _core.FfnOptions | _core.UNetOptions:
        """Return the properties of the network from which the core computes sizes."""

    @abstractmethod
    def pass_bytes(self, config: Config, walkers: int, threads: int) -> int:
        """Return the bytes of activations and gradients in a training pass of the walkers of a rank."""

    @abstractmethod
    def example_bytes(self, config: Config) -> int:
        """Return the bytes of the training examples that a walker needs for one pass."""

    def canvas_voxels(self, config: Config) -> int:
        """Return the voxels of a walker that a checkpoint stores."""
        return 0
