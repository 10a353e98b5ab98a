# SPDX-License-Identifier: Apache-2.0
"""A picture of what a network sees in training: augmented examples with what it learns of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from floodtide import config
from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, reserved
from floodtide.comm import world
from floodtide.data.samples import Seen
from floodtide.report import drawing
from floodtide.report.drawing import Floats
from floodtide.train.data_checks import with_partitions
from floodtide.train.learners import learner_of
from floodtide.train.setup import with_task

_ROWS, _COLUMNS = 4, 6
COUNT = _ROWS * _COLUMNS
"""Number of examples in the picture."""
_INCHES = 1.7


def write_patches(settings: config.Config, out: Path) -> None:
    """Draw the first training examples of a configuration to a PNG: middle sections above targets. Collective.

    Classes and labels are coloured, three channels of other targets are red, green and blue, and what has no label is
    dark.

    Args:
        settings: The configuration.
        out: The file.

    Raises:
        floodtide.errors.Error: If the training could not start with these data, or the file cannot be written.
    """
    settings = with_partitions(with_task(settings))
    with world.agreed():
        if world.rank() > 0:
            return
        data = learner_of(settings).data_of(settings, 1)
        with reserved("inspect", out, PICTURES[".png"], []):
            examples = [_pictures(data.seen(number)) for number in range(min(COUNT, len(data)))]
            replace_bytes(out, _drawn(examples))


def _pictures(seen: Seen) -> tuple[Floats, Floats]:
    """Return the pictures (y, x, 3) of the middle section of an example, and of its truth."""
    z = len(seen.image) // 2
    image = drawing.grey(seen.image[z], seen.image)
    truth, known = seen.truth[z], seen.known[z]
    if truth.ndim > 2:
        return image, np.where(known.any(-1, keepdims=True), drawing.colours(truth), 0.0)
    painted = drawing.overlay(image, np.where(known, truth, 0).astype(np.int64))
    return image, np.where(known[..., None], painted, 0.3 * image)


def _drawn(examples: list[tuple[Floats, Floats]]) -> bytes:
    rows = 2 * (-(-len(examples) // _COLUMNS))
    height, width, _ = examples[0][0].shape
    ratio = style.bounded_ratio(height / width)
    with style.figure(_COLUMNS * _INCHES, rows * _INCHES * ratio + 0.3) as drawn:
        drawn.set_layout_engine("compressed")
        axes = drawn.subplots(rows, _COLUMNS, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for number, pictures in enumerate(examples):
            row, column = divmod(number, _COLUMNS)
            for below, picture in enumerate(pictures):
                drawing.show(axes[2 * row + below, column], np.clip(picture, 0.0, 1.0))
        return style.rendered(drawn, "png")
