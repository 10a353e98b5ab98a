# SPDX-License-Identifier: Apache-2.0
"""Registry of the kinds of networks that floodtide trains: one file and one row for each value of `model.kind`."""

from __future__ import annotations

from floodtide.config import Config
from floodtide.train.kinds.ffn import FfnKind
from floodtide.train.kinds.kind import Kind, Model
from floodtide.train.kinds.unet2d import UNet2DKind
from floodtide.train.kinds.unet3d import UNet3DKind

KINDS: tuple[Kind, ...] = (FfnKind(), UNet2DKind(), UNet3DKind())


def kind_of(config: Config) -> Kind:
    """Return the kind of network that a configuration describes."""
    return next(kind for kind in KINDS if type(config.model) is kind.section)


def kind_of_model(model: Model) -> Kind:
    """Return the kind of a network."""
    return next(kind for kind in KINDS if isinstance(model, kind.model))
