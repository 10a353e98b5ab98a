# SPDX-License-Identifier: Apache-2.0
"""What every network has in common: its architecture, and the section [model] of a configuration."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from floodtide.base.options import FOLDER, PATCHES, Checked, option

Vec3 = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Architecture(Checked):
    """The architecture of a network: options that a configuration, a script and the core share.

    Attributes:
        examples: What the network learns from: FLOOD or PATCHES. It can learn each task of these examples.
        core_options: Class of the core's options, which have all fields of the architecture.
        core_network: Class of the core's network, which is made of such options.
    """

    examples: ClassVar[str] = PATCHES
    core_options: ClassVar[Callable[..., Any]]
    core_network: ClassVar[Callable[..., Any]]

    @classmethod
    def architecture(cls) -> list[str]:
        """Return the names of the fields of the architecture."""
        others = ("kind", "initial_weights")
        return [field.name for field in dataclasses.fields(cls) if field.name not in others]

    def core(self, **others: Any) -> Any:
        """Return the options of the core's network: these, and `others` by their names in the core."""
        own = {name: getattr(self, name) for name in self.architecture()}
        return self.core_options(**own, **others)

    @property
    def flat(self) -> bool:
        """True if the network is two-dimensional: the sections of an image are independent."""
        return False

    @property
    def total_pool(self) -> Vec3:
        """Of what sizes (z, y, x) of training images must be multiples."""
        return 1, 1, 1

    @property
    def moves(self) -> dict[str, Any]:
        """The arguments of `floodtide.nn.load` that files of other programs do not say."""
        return {}

    @property
    @abstractmethod
    def context(self) -> Vec3:
        """Distance (z, y, x) within which an output depends on the input, a multiple of `total_pool`."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Architecture):
    """The keys of every network beside its architecture."""

    kind: str = option("", "Kind of network")
    initial_weights: str = option(
        "",
        "Start from these weights: a floodtide checkpoint, for flood filling also the prefix of a TensorFlow"
        " checkpoint; empty: random weights",
        path=True,
        differs=FOLDER,
    )
