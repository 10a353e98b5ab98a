# SPDX-License-Identifier: Apache-2.0
"""What `floodtide inspect` prints about an image with its labels, and about a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def of_configuration(file: str, report: dict[str, Any]) -> str:
    """Return the report of `floodtide.plan.check` as lines."""
    lines = [
        f"{row['name']}: {row['image']}, {' x '.join(map(str, row['shape']))} voxels of {row['dtype']},"
        f" mean {row['image_mean']:.1f} and standard deviation {row['image_std']:.1f};"
        f" set: {row['mean']:g} and {row['std']:g}"
        for row in report["volumes"]
    ]
    lines += [f"error: {text}" for text in report["errors"]]
    lines += [f"warning: {text}" for text in report["warnings"]]
    errors, warnings = len(report["errors"]), len(report["warnings"])
    looked = " and ".join(name for name in ("training", "segmentation") if report[name])
    if not looked:
        lines.append(f"{file}: nothing to check: no labels to train on, and no segment.checkpoint")
    elif errors or warnings:
        lines.append(f"{file}: {errors} errors, {warnings} warnings ({looked})")
    else:
        lines.append(f"{file}: no mistake found ({looked})")
    return "\n".join(lines)
