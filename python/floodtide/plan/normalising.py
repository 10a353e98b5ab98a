# SPDX-License-Identifier: Apache-2.0
"""Mean and standard deviation for an image: those of a network's training if the image is alike, else its own."""

from __future__ import annotations

from floodtide.data.look import ImageStatistics
from floodtide.errors import InvalidArgumentError
from floodtide.plan import judging
from floodtide.plan.known import KnownNetwork


def levels_for(
    seen: ImageStatistics, start: KnownNetwork | None, where: str
) -> tuple[float, float, str]:
    """Return mean, standard deviation and the reason.

    Args:
        seen: Statistics of the image.
        start: The network that will see the image; None for a new one.
        where: What was measured: "the training box".

    Raises:
        InvalidArgumentError: If the image has one grey level.
    """
    mean, std = round(seen.proposed_mean, 4), round(seen.proposed_std, 4)
    if seen.proposed_std <= 0 or std <= 0:
        raise InvalidArgumentError(
            f"{seen.name}: all voxels have one grey level, expected an image"
        )
    left_out = f" (without {seen.left_out})" if seen.left_out else ""
    own = f"Measured in {where}{left_out}."
    if start is None or start.mean is None or start.std is None:
        return mean, std, own
    if judging.same_levels(mean, std, start.mean, start.std):
        why = f"As {start.name} was trained; {where} has mean {mean:g}, standard deviation {std:g}."
        return start.mean, start.std, why
    why = (
        f"{own} {start.name} was trained on mean {start.mean:g}, standard deviation {start.std:g}: with the image's own"
        " numbers, the network receives the same range of values."
    )
    return mean, std, why
