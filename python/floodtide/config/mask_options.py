# SPDX-License-Identifier: Apache-2.0
"""Masks of the [segment] section. Source: google/ffn, MaskConfig in inference.proto."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide.base import limits
from floodtide.base.options import FOLDER, Checked, option


@dataclass(frozen=True, kw_only=True)
class MaskChannel(Checked):
    """Values of one channel that are masked: `values`, else those from `minimum` to `maximum`, else all but 0."""

    channel: int = option(
        0, "Index of the channel; a volume of three axes has channel 0 only", range=limits.CHANNEL
    )
    values: tuple[int, ...] = option((), "Masked values", range=limits.LABEL)
    minimum: float | None = option(
        None, "Smallest masked value; left out: none, if `maximum` is given", range=limits.INTENSITY
    )
    maximum: float | None = option(
        None, "Largest masked value; left out: none, if `minimum` is given", range=limits.INTENSITY
    )
    invert: bool = option(False, "Mask the other values instead")


@dataclass(frozen=True, kw_only=True)
class MaskOptions(Checked):
    """A mask: the voxels that one of its channels masks. Without channels: where channel 0 is not 0."""

    volume: str = option(
        "",
        "Volume, file:dataset, with the axes z, y, x or channel, z, y, x; empty: the image, before normalisation",
        path=True,
        differs=FOLDER,
    )
    channels: tuple[MaskChannel, ...] = option((), "Channels, one table each")
    invert: bool = option(False, "Mask the voxels that no channel masks instead")
