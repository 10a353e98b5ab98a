# SPDX-License-Identifier: Apache-2.0
"""Networks as options: each is one file here, with its row in NETWORKS. `model.kind` of a configuration names it."""

from __future__ import annotations

from typing import Any

from floodtide.base.networks.ffn import FfnConfig, FfnOptions
from floodtide.base.networks.network import NetworkConfig
from floodtide.base.networks.unet import UNetConfig, UNetOptions

NETWORKS: tuple[type[NetworkConfig], ...] = (FfnConfig, UNetConfig)
"""The sections [model] of a configuration: one for each network."""


def section_of(core: Any, initial_weights: str = "") -> NetworkConfig:
    """Return the section [model] that describes a network of the core."""
    row = next(one for one in NETWORKS if one.core_network is type(core))
    own = {name: getattr(core.options, name) for name in row.architecture()}
    return row(**own, initial_weights=initial_weights)


__all__ = [
    "NETWORKS", "FfnConfig", "FfnOptions", "NetworkConfig", "UNetConfig", "UNetOptions",
    "section_of",
]  # fmt: skip
