# SPDX-License-Identifier: Apache-2.0
"""The [model] section of a configuration: one dataclass for each kind of network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from floodtide.base.network_options import FfnOptions, UNetOptions
from floodtide.base.options import FLOOD, FOLDER, PATCHES, Checked, option


@dataclass(frozen=True, kw_only=True)
class _Kind(Checked):
    """The keys of every network beside its architecture.

    Attributes:
        examples: What the network learns from: FLOOD or PATCHES. A task of these examples can be learnt.
    """

    kind: str = option("", "Kind of network")
    initial_weights: str = option(
        "",
        "Start from the weights of this checkpoint; empty: random (He-normal) weights",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class FfnConfig(FfnOptions, _Kind):
    """A flood-filling network."""

    kind: str = option("ffn", "Flood-filling network", choices=("ffn",))
    examples: ClassVar[str] = FLOOD
    initial_weights: str = option(
        "",
        "Start from these weights: a floodtide checkpoint, or the prefix of a TensorFlow checkpoint; empty: random"
        " (Glorot-uniform) weights",
        path=True,
        differs=FOLDER,
    )


@dataclass(frozen=True, kw_only=True)
class UNetConfig(UNetOptions, _Kind):
    """A U-Net, of two or three dimensions."""

    kind: str = option("unet", "U-Net", choices=("unet",))
    examples: ClassVar[str] = PATCHES


NETWORKS: tuple[type[FfnConfig | UNetConfig], ...] = (FfnConfig, UNetConfig)
"""The sections [model] of a configuration: one for each network."""
