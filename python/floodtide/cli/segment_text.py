# SPDX-License-Identifier: Apache-2.0
"""What `floodtide segment` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floodtide.base.counts import count_of


def of_volume(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.segment.segment_volume` as a line."""
    before = report["network_calls_before"]
    continued = f" ({before} of them before a checkpoint)" if before else ""
    faster = ""
    if report["forward"] == "fft" and report["fft_speedup"] is not None:
        faster = (
            f" (by Fourier transforms, {report['fft_speedup']:.2f} times as fast as layer by layer)"
        )
    calls = count_of(report["network_calls"], "network call")
    return (
        f"{count_of(report['segments'], 'segment')}, {100 * report['coverage']:.1f} % of the voxels, in"
        f" {calls}{continued}{faster} and {report['seconds']:.0f} s:"
        f" {report['out']}"
    )


def of_subvolumes(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.segment.segment_subvolumes` as a line."""
    rest = f", {report['missing']} are missing" if report["missing"] else ""
    cut = count_of(report["subvolumes"], "subvolume")
    calls = count_of(report["network_calls"], "network call")
    return (
        f"{report['segmented']} of {cut} segmented in {calls}"
        f" and {report['seconds']:.0f} s{rest}: {report['out']}"
    )


def of_estimate(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.segment.estimate` as a line."""
    counts = " x ".join(map(str, report["counts"]))
    size = " x ".join(map(str, report["size"]))
    calls = f"about {count_of(report['network_calls'], 'network call')}"
    if report["network_calls_from"] == "subvolumes":
        calls += f" for the missing {report['subvolumes'] - report['segmented']}, if they are like the others"
    return (
        f"{count_of(report['subvolumes'], 'subvolume')} ({counts}) of {size} voxels;"
        f" {report['memory_bytes_per_rank'] / 2**20:.0f} MiB of memory for each rank; {calls},"
        f" {report['network_calls_per_s']:.1f} per second and rank here; {report['hours']:.2f} hours on"
        f" {count_of(report['ranks'], 'rank')}"
    )


def of_affinities(report: Mapping[str, Any]) -> str:
    """Return the report of `floodtide.agglomerate.segment_affinities` as a line."""
    found = count_of(report["segments"], "segment")
    return (
        f"{found}, {100 * report['coverage']:.1f} % of the voxels, in {report['seconds']:.0f} s:"
        f" {report['out']}; affinities: {report['affinities']}"
        " (`floodtide agglomerate` makes other segments of them)"
    )


def of_preview(report: Mapping[str, Any]) -> str:
    """Return the report of a preview as lines."""
    text = [
        f"{count_of(report['segments'], 'segment')}, {100 * report['coverage']:.1f} % of the voxels of the box"
        f" {report['box']}, in {count_of(report['network_calls'], 'network call')} and {report['seconds']:.0f} s",
        f"the whole image would take about {_duration(report['whole_hours'])} on this machine",
    ]
    if report["stopped"]:
        text.append(
            "the time was over before the whole box was settled: empty parts may not have been reached; expected a"
            " smaller --box"
        )
    return "\n".join([*text, f"segmentation: {report['out']}", f"picture: {report['picture']}"])


def _duration(hours: float) -> str:
    minutes = max(round(60 * hours), 1)
    return count_of(minutes, "minute") if hours < 2 else f"{hours:.1f} hours"
