# SPDX-License-Identifier: Apache-2.0
"""Masks of google/ffn (MaskConfig), as options of this package. Source: google/ffn, inference.proto, storage.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floodtide.config.segment_options import MaskChannel, MaskOptions
from floodtide.segment.ffn_refuse import Refuse


def mask_options(
    masks: Sequence[Mapping[str, Any]], name: str, refuse: Refuse
) -> tuple[MaskOptions, ...]:
    """Return the masks of a repeated field `name` of a request."""
    return tuple(_mask(mask, f"{name}.{i}", refuse) for i, mask in enumerate(masks))


def _mask(mask: Mapping[str, Any], name: str, refuse: Refuse) -> MaskOptions:
    if "coordinate_expression" in mask:  # google/ffn runs it as a Python program
        refuse.field(f"{name}.coordinate_expression", "a volume or the image")
    sources = [key for key in ("volume", "image") if key in mask]
    if len(sources) != 1:
        refuse.field(f"{name} with {' and '.join(sources) or 'no source'}", "a volume or the image")
    source = mask[sources[0]]
    channels = tuple(_channel(channel) for channel in source.get("channels", ()))
    if not channels:
        refuse.field(f"{name}.{sources[0]} without channels", "channels { ... }")
    volume = ""
    if sources[0] == "volume":
        volume = refuse.volume(source.get("mask", {}), f"{name}.volume.mask")
    return MaskOptions(volume=volume, channels=channels, invert=mask.get("invert", False))


def _channel(channel: Mapping[str, Any]) -> MaskChannel:
    number, invert = channel.get("channel", 0), channel.get("invert", False)
    if channel.get("values"):
        return MaskChannel(channel=number, values=tuple(channel["values"]), invert=invert)
    # A bound that is not set is 0, also for google/ffn.
    low, high = channel.get("min_value", 0.0), channel.get("max_value", 0.0)
    return MaskChannel(channel=number, minimum=low, maximum=high, invert=invert)
