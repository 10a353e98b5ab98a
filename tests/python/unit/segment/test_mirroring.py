# SPDX-License-Identifier: Apache-2.0
"""Means over mirrored copies: exact for networks that do not care, and the same pairs of voxels for affinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flat_unet import flat_unet
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import nn
from floodtide.base.tasks import Affinities, Classes, Distance, PatchTask, ShapeDescriptors
from floodtide.errors import InvalidArgumentError
from floodtide.segment.predict import Predictor, bytes_per_voxel, mirrored_mean

Array = np.ndarray[Any, Any]
OFFSETS = [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, -3), (2, 0, 0), (-1, -1, 0), (-1, 1, 0)]
SINGLE = [(0, -2, 1)]  # a mirrored copy has no channel for its pairs, unless two axes are mirrored


def affinities(image: Array, offsets: list[tuple[int, int, int]]) -> Array:
    """Return the mean grey level of each pair of voxels, and 0 if one voxel is outside of the image."""
    result = np.zeros((*image.shape, len(offsets)), np.float32)
    for channel, offset in enumerate(offsets):
        for p in np.ndindex(*image.shape):
            q = tuple(a + b for a, b in zip(p, offset, strict=True))
            if all(0 <= at < n for at, n in zip(q, image.shape, strict=True)):
                result[(*p, channel)] = (image[p] + image[q]) / 2
    return result


@settings(deadline=None)
@given(
    st.tuples(*[st.integers(1, 6)] * 3),
    st.sets(st.integers(0, 2)),
    st.sampled_from([OFFSETS, SINGLE]),
    st.integers(0, 100),
)
def test_a_network_that_is_right_is_right_about_every_pair_in_mirrored_copies(
    shape: tuple[int, int, int], axes: set[int], offsets: list[tuple[int, int, int]], seed: int
) -> None:
    image = np.random.default_rng(seed).integers(0, 64, shape).astype(np.float32)
    expected = affinities(image, offsets)
    mean = mirrored_mean(lambda copy: affinities(copy, offsets), image, sorted(axes), offsets)
    np.testing.assert_array_equal(mean, expected)  # small integers and halves: no rounding


def test_each_copy_has_the_same_say() -> None:
    image = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    first = np.array([1, 0, 0, 0], np.float32).reshape(
        1, 1, 4, 1
    )  # marks the first voxel of what it is given
    classes = mirrored_mean(lambda _: first, image, (2,), None)
    assert classes.ravel().tolist() == [0.5, 0.0, 0.0, 0.5]
    # With the offset -1, the second value of the copy is about its first two voxels: the last two voxels of the image,
    # whose pair is stored at the last one.
    second = np.array([0, 1, 0, 0], np.float32).reshape(1, 1, 4, 1)
    pairs = mirrored_mean(lambda _: second, image, (2,), [(0, 0, -1)])
    assert pairs.ravel().tolist() == [0.0, 0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    "task",
    [
        Classes(classes={0: "background", 9: "mitochondria"}),
        Affinities(offsets=((-1, 0, 0), (0, -1, 0), (0, 0, -3))),
        ShapeDescriptors(),
        Distance(),
    ],
    ids=lambda task: task.kind,
)
def test_mirrored_blocks_give_what_one_pass_gives(task: PatchTask) -> None:
    options = nn.UNetOptions(depth=2, kernels=((1, 3, 3), (3, 3, 3)), pools=((1, 2, 2),))
    model = nn.UNet(options, classes=len(task.channels), output=task.output, seed=2)
    image = np.random.default_rng(3).integers(0, 256, (11, 45, 37)).astype(np.uint8)
    settings: dict[str, Any] = {"mean": 100.0, "std": 50.0, "mirror": (0, 1, 2), "task": task}
    whole = Predictor(model, **settings).probabilities(image)
    plain = Predictor(model, mean=100.0, std=50.0, task=task).probabilities(image)
    assert len(plain) == task.predicted
    assert np.abs(whole - plain).max() > 1e-3
    memory_mib = 1.5 * bytes_per_voxel(model) * 14 * 30 * 30 / 2**20
    predictor = Predictor(model, **settings, memory_mib=memory_mib)
    assert len(list(predictor.blocks(image))) > 1
    # As in test_predict.py, for the mean of eight predictions.
    np.testing.assert_allclose(
        predictor.probabilities(image), whole, rtol=0, atol=100 * np.finfo(np.float32).eps
    )


def test_what_cannot_be_mirrored_is_refused() -> None:
    unknown = nn.UNet(nn.UNetOptions(depth=2), classes=3, output="sigmoid")
    with pytest.raises(InvalidArgumentError, match="mirror needs to know what the 3 outputs are"):
        Predictor(unknown, mean=0.0, std=1.0, mirror=(0,))
    with pytest.raises(InvalidArgumentError, match="mirror"):
        Predictor(flat_unet(), mean=0.0, std=1.0, mirror=(3,))


def test_sections_mirrored_along_z_are_the_same_sections() -> None:
    image = np.random.default_rng(3).integers(0, 256, (3, 16, 20)).astype(np.uint8)
    plain, mirrored = (
        Predictor(flat_unet(), mean=100.0, std=50.0, mirror=axes).probabilities(image)
        for axes in ((), (0,))
    )
    np.testing.assert_allclose(mirrored, plain, atol=1e-6)
