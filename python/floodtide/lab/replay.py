# SPDX-License-Identifier: Apache-2.0
"""Objects of another segmentation flooded again, to find the network call where a flooding leaves the other one.

A segmentation stores voxels, seeds and numbers of network calls, but no logits. So a call can be named in two ways.
The replay itself shows the first call with a wrong voxel that no later call changes. And if the two programs differ by
rounding alone, a replay with other roundings can reproduce the other object in all voxels. Then the two replays show in
which call they leave each other.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import config
from floodtide.base.notes import count_of
from floodtide.config import SegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab.compared import compared
from floodtide.segment import Move, Object, Seeded, Segmenter, read_origins

_ROUNDING = 2e-6  # standard deviation of the rounding of logits of a 24-layer network in float32
_LEFT = 0.01  # logits that differ by more than this are not explained by rounding of this call
_CONTEXT = 3  # fields of view around an object


@dataclass(frozen=True)
class Replay:
    """An object flooded again from its seed, among the objects that were found before it.

    Attributes:
        id: The object.
        calls: Network calls of the replay. Calls are counted from 1.
        voxels: Voxels that differ from the stored object.
        visible_call: First call with a voxel that differs and that no later call changes; 0 if no voxel differs.
        visible_zyx: Centre of the field of view of that call.
        margin: Smallest distance of the logit of such a voxel from the threshold; NaN without one.
        rounding: Number of the replay with other roundings, from 1, that has all voxels and as many calls as the stored
            object; 0 if there is none.
        left_call: Call in which that replay leaves the first one; 0 if it never does.
        left_zyx: Centre of the field of view of that call in the first replay.
    """

    id: int
    calls: int
    voxels: int
    visible_call: int = 0
    visible_zyx: Vec3 | None = None
    margin: float = float("nan")
    rounding: int = 0
    left_call: int = 0
    left_zyx: Vec3 | None = None

    def moved_by(self, start: Vec3) -> Replay:
        """Return the replay with positions in a volume in which its first voxel is `start`."""
        visible, left = (
            None if zyx is None else _shifted(zyx, start)
            for zyx in (self.visible_zyx, self.left_zyx)
        )
        return dataclasses.replace(self, visible_zyx=visible, left_zyx=left)

    def row(self) -> dict[str, Any]:
        """Return the values for JSON, in which there is no NaN."""
        values = dataclasses.asdict(self)
        return values | {"margin": None if math.isnan(self.margin) else self.margin}

    def told(self, calls: int) -> str:
        """Return in words what the replay tells about an object of this number of network calls."""
        made = count_of(self.calls, "call")
        if self.voxels == 0:
            return f"flooded again it is equal ({made}): an earlier object differs"
        text = f"flooded again, it differs in {count_of(self.voxels, 'voxel')} ({made}, reference {calls})"
        if self.visible_call > 0:
            where = _place(self.visible_zyx)
            text += f", visible from call {self.visible_call} at {where} on, {self.margin:.1e} from the threshold"
        if self.rounding == 0:
            return f"{text}; no other rounding reproduces it"
        if self.left_call == 0:
            return f"{text}; another rounding reproduces it, with the same calls"
        where = _place(self.left_zyx)
        return f"{text}; another rounding reproduces it, which leaves in call {self.left_call} at {where}"


def replays(
    segmentation: str, reference: str, roundings: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[Replay, Seeded]]:
    """Flood each object of a reference that differs again, and yield replays with origins in the reference.

    Objects of few network calls come first. Image, network and options are those that the segmentation states.

    Args:
        segmentation: A segmentation of `floodtide segment`, "file:dataset".
        reference: Another one of the same voxels, with origins.
        roundings: Most replays with other roundings of each object.
        progress: Called as progress(calls done, calls), with the calls of all replays that may follow.

    Raises:
        InvalidFileError: If the segmentation states no image and options.
        InvalidArgumentError: If it cannot be repeated for single objects.
        ShapeError: If the two have other voxels.
    """
    pair = compared(segmentation, reference)
    found, start = pair.found, pair.start
    ids = {difference.object for difference in pair.differences}
    origins = [origin for origin in read_origins(reference) if origin.id in ids]
    options = _options(found)
    volume = Volume(options.image)
    if options.reflect and found.shape != volume.shape:
        raise InvalidArgumentError(
            "replay: a box with segment.reflect, expected a segmentation of the whole image"
        )
    segmenter = Segmenter.load(dataclasses.replace(options, initial=""))
    voxels = Volume(volume.read((start, found.shape)), name=options.image)
    total, before = sum((1 + roundings) * origin.calls for origin in origins), 0

    def shown(calls: int, _: int) -> None:
        progress(before + calls, total)

    for origin in sorted(origins, key=lambda origin: origin.calls):
        local = origin._replace(zyx=_shifted(origin.zyx, start, -1))
        row = replay(segmenter, voxels, pair.stored, local, roundings=roundings, progress=shown)
        before += (1 + roundings) * origin.calls
        yield row.moved_by(start), origin


def _options(found: Volume) -> SegmentOptions:
    """Return the options with which a segmentation was made, with its image."""
    text, image = found.text("options"), found.text("image")
    if not text or not image:
        raise InvalidFileError(
            f"{found.name}: states no image and options, expected a segmentation of `floodtide segment`"
        )
    document = {"segment": json.loads(text)}
    options = config.from_dict(document, f"{found.name}: options").segment
    if options.masks or options.shift_mask:
        raise InvalidArgumentError(
            "replay: a segmentation with segment.masks or segment.shift_mask, expected one without masks"
        )
    return dataclasses.replace(options, image=image)


def replay(
    segmenter: Segmenter,
    volume: Volume,
    labels: NDArray[np.integer[Any]],
    origin: Seeded,
    *,
    roundings: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Flood an object of a segmentation again.

    Args:
        segmenter: Network and options of the segmentation.
        volume: The image.
        labels: The segmentation (z, y, x) of the whole volume; ids in the order in which objects were found.
        origin: The object.
        roundings: Most replays with other roundings, if the first one differs.
        progress: Called as progress(calls done, calls), with the calls of all replays that may follow.

    Raises:
        OutOfRangeError: If no field of view fits at the seed.
        InvalidFileError: If the object has no voxel.
    """
    box = _surroundings(labels, origin.id, segmenter.model.fov)
    whole, count = (1 + roundings) * origin.calls, 0

    def counted() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(min(count, whole), whole)

    first = _History(box, counted)
    grown = _flooded(segmenter, volume, labels, origin, box, first)
    wrong, distance = _compared(segmenter, grown, labels, origin.id, box)
    result = Replay(origin.id, len(grown.moves), int(np.count_nonzero(wrong)))
    seen = wrong & (first.last_call > 0)
    if seen.any():
        call = int(first.last_call[seen].min())
        result = dataclasses.replace(
            result,
            visible_call=call,
            visible_zyx=grown.moves[call - 1],
            margin=float(distance[seen].min()),
        )
    for number in range(1, roundings + 1) if result.voxels > 0 else ():
        other = Segmenter(_Rounded(segmenter, number), segmenter.options)
        second = _History(box, counted, first)
        again = _flooded(other, volume, labels, origin, box, second)
        wrong, _ = _compared(segmenter, again, labels, origin.id, box)
        if not wrong.any() and len(again.moves) == origin.calls:
            left = second.left_call
            return dataclasses.replace(
                result,
                rounding=number,
                left_call=left,
                left_zyx=grown.moves[min(left, len(grown.moves)) - 1] if left > 0 else None,
            )
    return result


def _shifted(zyx: Vec3, by: Vec3, sign: int = 1) -> Vec3:
    z, y, x = (a + sign * b for a, b in zip(zyx, by, strict=True))
    return z, y, x


def _place(zyx: Vec3 | None) -> str:
    return "" if zyx is None else ",".join(map(str, zyx))


class _History:
    """The network calls of a replay, compared with those of an earlier replay, if one is given."""

    def __init__(
        self, box: Box, counted: Callable[[], None], before: _History | None = None
    ) -> None:
        self._start, self._counted, self._before = box[0], counted, before
        self._calls: list[tuple[Vec3, NDArray[np.float16]]] = []
        self.last_call = np.zeros(box[1], np.int32)  # that wrote a voxel; 0: none
        self.left_call = 0  # first call that is another one in the earlier replay

    def __call__(self, move: Move) -> None:
        start = [
            at - n // 2 - first
            for at, n, first in zip(move.position_zyx, move.logits.shape, self._start, strict=True)
        ]
        # Where faces are reflected, fields of view reach beyond the box.
        view = tuple(
            slice(max(0, a), max(0, a + n)) for a, n in zip(start, move.logits.shape, strict=True)
        )
        self.last_call[view] = move.step + 1
        if self._before is None:
            self._calls.append((move.position_zyx, move.logits.astype(np.float16)))
        elif self.left_call == 0 and self._before._differs(move):
            self.left_call = move.step + 1
        self._counted()

    def _differs(self, move: Move) -> bool:
        if move.step >= len(self._calls):
            return True
        position, logits = self._calls[move.step]
        if position != move.position_zyx:
            return True
        known = logits.astype(np.float32)
        # 16-bit floats keep a thousandth of a logit.
        return bool((np.abs(known - move.logits) > _LEFT + np.abs(known) / 1000).any())


class _Rounded:
    """A network whose logits are rounded as by another implementation."""

    def __init__(self, segmenter: Segmenter, number: int) -> None:
        self._segmenter = segmenter
        self.fov, self.deltas = segmenter.model.fov, segmenter.model.deltas
        self._random = np.random.default_rng(number)

    def forward(
        self, image: NDArray[np.float32], logits: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        answer = self._segmenter.evaluate(image, logits)
        return answer + self._random.normal(0.0, _ROUNDING, answer.shape).astype(np.float32)


def _surroundings(labels: NDArray[np.integer[Any]], name: int, fov: Vec3) -> Box:
    """Return the box around an object, with three fields of view on each side."""
    low, high = [], []
    for axis in range(3):
        others = tuple(i for i in range(3) if i != axis)
        planes = np.flatnonzero((labels == name).any(axis=others))
        if len(planes) == 0:
            raise InvalidFileError(f"object {name} has an origin, but no voxel")
        low.append(max(int(planes[0]) - _CONTEXT * fov[axis], 0))
        high.append(min(int(planes[-1]) + 1 + _CONTEXT * fov[axis], labels.shape[axis]))
    (z, y, x), (z_end, y_end, x_end) = low, high
    return (z, y, x), (z_end - z, y_end - y, x_end - x)


def _flooded(
    segmenter: Segmenter,
    volume: Volume,
    labels: NDArray[np.integer[Any]],
    origin: Seeded,
    box: Box,
    history: _History,
) -> Object:
    earlier = np.where(labels < origin.id, labels, 0)
    return segmenter.segment_at(volume, origin.zyx, history, box, earlier)


def _compared(
    segmenter: Segmenter, grown: Object, labels: NDArray[np.integer[Any]], name: int, box: Box
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return the voxels of the box that differ from the stored object, and how far logits are from the threshold."""
    z, y, x = (slice(a, a + n) for a, n in zip(*box, strict=True))
    stored = labels[z, y, x]
    share = segmenter.options.segment_threshold
    threshold = np.float32(math.log(share / (1 - share)))
    logits = np.nan_to_num(grown.logits, nan=-np.inf)  # NaN where no field of view was
    found = (logits >= threshold) & ((stored == 0) | (stored >= name))
    return found != (stored == name), np.abs(logits - threshold)
