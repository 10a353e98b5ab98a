# SPDX-License-Identifier: Apache-2.0
"""A picture of what a network sees in training: augmented examples with what it learns of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from floodtide import config
from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import PICTURES, reserved
from floodtide.comm import world
from floodtide.data.samples import Samples, Seen
from floodtide.report import drawing
from floodtide.report.drawing import Floats
from floodtide.train.learners import learner_of
from floodtide.train.setup import prepared

_ROWS, _COLUMNS = 4, 6
COUNT = _ROWS * _COLUMNS
"""Number of examples in the picture."""
_INCHES = 1.7
_FONT = 7
_COLOURS = 3  # targets of a picture
_DARK = 0.3  # of what has no label


def write_patches(settings: config.Config, out: Path) -> None:
    """Draw the first training examples of a configuration to a PNG: middle sections above targets. Collective.

    Classes and labels are coloured. Other targets are red, green and blue, three in a picture. What has no label is
    dark, also if only some of the three have none.
    """
    settings = prepared(settings)
    with world.agreed():
        if world.rank() > 0:
            return
        data = learner_of(settings.model).data_of(settings, 1)
        with reserved("inspect", out, PICTURES[".png"], []):
            examples = [_pictures(data.seen(number)) for number in range(min(COUNT, len(data)))]
            replace_bytes(out, _drawn(examples, _names(data)))


def _names(data: Samples) -> list[str]:
    """Return what the pictures of an example show."""
    task = getattr(data, "task", None)
    names = [] if task is None or task.truth_values == 1 else task.channels
    groups = ["\n".join(names[k : k + _COLOURS]) for k in range(0, len(names), _COLOURS)]
    return ["image", *(groups or ["labels"])]


def _pictures(seen: Seen) -> list[Floats]:
    """Return the pictures (y, x, 3) of the middle section of an example, and of its truth."""
    z = len(seen.image) // 2
    image = drawing.grey(seen.image[z], seen.image)
    truth, known = seen.truth[z], seen.known[z]
    if truth.ndim > 2:
        groups = [slice(k, k + _COLOURS) for k in range(0, truth.shape[-1], _COLOURS)]
        parts = ((truth[..., group], known[..., group]) for group in groups)
        return [image, *(_coloured(image, *part) for part in parts)]
    painted = drawing.overlay(image, np.where(known, truth, 0).astype(np.int64))
    return [image, np.where(known[..., None], painted, _DARK * image)]


def _coloured(image: Floats, targets: Floats, known: npt.NDArray[np.bool_]) -> Floats:
    """Return up to three targets (y, x, targets) as a picture: the image, darker, where all of them have no label."""
    picture = drawing.colours(np.where(known, targets, 0.0))
    picture = np.where(known.any(-1, keepdims=True), picture, image)
    return np.where(known.all(-1, keepdims=True), picture, _DARK * picture)


def _drawn(examples: list[list[Floats]], names: list[str]) -> bytes:
    rows = len(names) * (-(-len(examples) // _COLUMNS))
    height, width, _ = examples[0][0].shape
    ratio = style.bounded_ratio(height / width)
    size = (_COLUMNS * _INCHES, rows * _INCHES * ratio + 0.3)
    with drawing.grid(rows, _COLUMNS, *size) as (drawn, axes):
        for number, pictures in enumerate(examples):
            row, column = divmod(number, _COLUMNS)
            for below, picture in enumerate(pictures):
                axis = axes[len(names) * row + below, column]
                drawing.show(axis, np.clip(picture, 0.0, 1.0))
                if column == 0:
                    axis.set_ylabel(names[below], fontsize=_FONT)
        return style.rendered(drawn, "png")
