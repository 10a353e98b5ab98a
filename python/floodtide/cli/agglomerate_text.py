# SPDX-License-Identifier: Apache-2.0
"""What `floodtide agglomerate` reads from its options and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from floodtide.base.counts import count_of


def parse_offsets(text: str) -> list[list[int]]:
    """Return the offsets (z, y, x) of a list in JSON."""
    try:
        return [[int(z), int(y), int(x)] for z, y, x in json.loads(text)]
    except (ValueError, TypeError):
        raise click.UsageError(
            f"--offsets {text[:60]}: expected [[z, y, x], ...], for example [[-1,0,0],[0,-1,0],[0,0,-1]]"
        ) from None


def of_segments(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.agglomerate.agglomerate` as a line."""
    if "segments" in report:
        found = count_of(report["segments"], "segment")
        return f"{found}, {100 * report['coverage']:.1f} % of the voxels: {report['out']}"
    cut = count_of(report["subvolumes"], "subvolume")
    return f"{cut}: {report['out']}; `floodtide reconcile` makes one segmentation of them"


def of_pairs(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.agglomerate.resegment` as a line."""
    where = report["folder"] + (f", {report['out']}" if report["out"] else "")
    return (
        f"{report['scored']} of {count_of(report['pairs'], 'pair')} flooded again in"
        f" {count_of(report['network_calls'], 'network call')}; {count_of(report['merged_pairs'], 'pair')} merged, from"
        f" {count_of(report['merged_segments'], 'segment')} to {count_of(report['objects_of_them'], 'object')}: {where}"
    )
