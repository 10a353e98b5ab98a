# SPDX-License-Identifier: Apache-2.0
"""What `floodtide inspect` prints about an image with its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floodtide.base.counts import count_of

if TYPE_CHECKING:
    from floodtide.report.inspection import Inspection


def of_image(found: Inspection, verdict: str) -> str:
    """Return the main figures of an image and its labels as lines."""
    image, labels, aligned = found.image, found.labels, found.alignment
    lines = [
        f"image: {' x '.join(map(str, image.shape))} voxels of {image.dtype}, {image.minimum:g} to {image.maximum:g},"
        f" mean {image.mean:.2f}, standard deviation {image.std:.2f}",
        f"for the configuration: mean = {image.proposed_mean:.2f}, std = {image.proposed_std:.2f}"
        + (f" (without {image.left_out})" if image.left_out else ""),
    ]
    if labels is not None:
        lines.append(
            f"labels: {count_of(labels.objects, 'object', ',')}, {labels.at_least[3]:,} of at least 1,000 voxels,"
            f" {100 * labels.unlabelled:.2f} % unlabelled"
        )
    if aligned is not None and aligned.stored is not None:
        lines.append(
            f"alignment: {aligned.verdict}; boundaries of the labels differ by"
            f" {aligned.stored.difference:+.1f} grey levels from the inside of objects"
        )
    lines.append(verdict)
    lines += [f"{'mistake' if one.error else 'doubt'}: {one.text}" for one in found.problems]
    return "\n".join(lines)
