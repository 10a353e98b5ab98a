# SPDX-License-Identifier: Apache-2.0
"""Figures of the page about an image and its labels."""

from __future__ import annotations

import numpy as np

from floodtide.base import style
from floodtide.data.look.image import ImageStatistics

_MOST_POINTS = 2000  # of a curve


def histogram(image: ImageStatistics) -> str:
    """Return the histogram with the proposed mean and standard deviation. SVG as data URI."""
    edges = np.linspace(image.minimum, image.maximum, len(image.histogram) + 1)
    if image.maximum == image.minimum:
        edges = image.minimum + np.arange(len(image.histogram) + 1.0)
    share = 100.0 * np.asarray(image.histogram) / sum(image.histogram)
    with style.figure(7.2, 2.9) as drawn:
        axes = drawn.subplots()
        axes.stairs(share, edges, fill=True, color=style.SERIES[5], alpha=0.8)
        mean, std = image.proposed_mean, image.proposed_std
        axes.axvspan(mean - std, mean + std, color=style.SERIES[1], alpha=0.15, lw=0)
        axes.axvline(mean, color=style.SERIES[1], label=f"proposed mean {mean:.1f} ± std {std:.1f}")
        axes.set_xlabel("grey level")
        axes.set_ylabel("voxels (%)")
        axes.margins(x=0)
        axes.legend(loc="upper right")
        return style.data_uri(drawn, "svg")


def sections(image: ImageStatistics) -> str | None:
    """Return brightness and likeness of the sections along z. SVG as data URI; None for a single section."""
    found = image.sections
    if found is None or len(found.means) < 2:
        return None
    step = -(-len(found.means) // _MOST_POINTS)
    z = found.first + np.arange(len(found.means))
    means, stds = np.asarray(found.means), np.asarray(found.stds)
    with style.figure(7.2, 4.2) as drawn:
        upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.fill_between(
            z[::step],
            (means - stds)[::step],
            (means + stds)[::step],
            color=style.SERIES[0],
            alpha=0.18,
            lw=0,
            label="± standard deviation",
        )
        upper.plot(z[::step], means[::step], color=style.SERIES[0], lw=1.2, label="mean")
        upper.set_ylabel("grey level")
        lower.plot(
            z[:-1:step] + 0.5,
            np.asarray(found.correlations)[::step],
            color=style.SERIES[2],
            lw=1.2,
        )
        lower.set_ylabel("correlation with\nthe next section")
        lower.set_xlabel("section (z)")
        lower.set_ylim(min(0.0, np.nanmin([0.0, *found.correlations])), 1.02)
        bad = [one.section for one in found.findings]
        if bad:
            at = np.asarray(bad) - found.first
            upper.plot(bad, means[at], "x", color=style.SERIES[1], ms=7, mew=2, label="bad section")
            for section in bad[:50]:
                lower.axvline(section, color=style.SERIES[1], lw=0.8, ls=":")
        upper.legend(loc="upper right", ncols=3)
        return style.data_uri(drawn, "svg")
