# SPDX-License-Identifier: Apache-2.0
"""Decision points against a slow twin made of SciPy's distances and scikit-image's watershed."""

import heapq
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from skimage import segmentation as skimage_segmentation

from floodtide import errors
from floodtide.agglomerate.resegmenting import decision_points
from floodtide.data import Volume


def blobs(shape: tuple[int, int, int], count: int, seed: int) -> np.ndarray:
    """Return `count` blobs that do not touch each other (mostly), with ids in random order."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(shape, np.int64)
    for name in rng.permutation(np.arange(1, count + 1) * 7):
        centre = [rng.integers(0, n) for n in shape]
        away = np.linalg.norm(np.indices(shape).T - centre, axis=-1).T
        labels[away < rng.uniform(1.5, 4)] = name
    return labels


def watershed(labels: np.ndarray, distance: np.ndarray, most: float) -> np.ndarray:
    """Grow labels up to a distance: the nearest voxels first, of equal ones the one that was found first."""
    grown, queue, age = labels.copy(), [], itertools.count()
    steps = [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1), (0, 1, 0), (1, 0, 0)]

    def spread(place: tuple[int, ...]) -> None:
        for step in steps:
            at = tuple(p + s for p, s in zip(place, step, strict=True))
            inside = all(0 <= p < n for p, n in zip(at, labels.shape, strict=True))
            if inside and grown[at] == 0 and distance[at] <= most:
                grown[at] = grown[place]
                heapq.heappush(queue, (distance[at], next(age), at))

    for place in np.argwhere(labels > 0):
        spread(tuple(place))
    while queue:
        spread(heapq.heappop(queue)[2])
    return grown


def points_of(
    grown: np.ndarray, distance: np.ndarray
) -> list[tuple[int, int, tuple[int, ...], float]]:
    """Return (a, b, point, distance) of each pair that touches, by google/ffn's procedure."""
    found: dict[tuple[int, int], list[tuple[float, tuple[int, ...]]]] = {}
    for step in itertools.product((0, 1), repeat=3):
        here = tuple(slice(0, n - s) for n, s in zip(grown.shape, step, strict=True))
        there = tuple(slice(s, n) for n, s in zip(grown.shape, step, strict=True))
        a, b = grown[here], grown[there]
        mean = (distance[here] + distance[there]) / 2
        for place in np.argwhere((a > 0) & (b > 0) & (a != b)):
            at = tuple(map(int, place))
            pair = int(min(a[at], b[at])), int(max(a[at], b[at]))
            found.setdefault(pair, []).append((float(mean[at]), at))
    points = []
    for pair, rows in sorted(found.items()):
        least = min(rows)[0]
        places = np.array([at for mean, at in rows if mean == least])
        nearest = np.argmin(((places - places.mean(axis=0)) ** 2).sum(axis=1))
        points.append((*pair, tuple(map(int, places[nearest])), least))
    return points


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(2, 9),
    st.sampled_from([(1.0, 1.0, 1.0), (8.0, 8.0, 8.0), (40.0, 4.0, 4.0)]),
    st.sampled_from([1.0, 3.0, 50.0]),
)
def test_equal_those_of_the_slow_twin(
    seed: int, count: int, sizes: tuple[float, float, float], edges: float
) -> None:
    labels = blobs((9, 13, 14), count, seed)
    most = edges * max(sizes)
    distance = ndimage.distance_transform_edt(labels == 0, sampling=sizes)
    expected = points_of(watershed(labels, distance, most), distance)
    assert decision_points(labels, voxel_size=sizes, max_distance=most) == expected


def test_come_from_the_watershed_of_scikit_image() -> None:
    """Of voxels that are equally far from two segments, scikit-image's watershed may give some to the other one."""
    both = either = 0
    for seed in range(20):
        labels = blobs((13, 17, 19), 7, seed)
        distance = ndimage.distance_transform_edt(labels == 0)
        near = distance <= 4.0
        grown = skimage_segmentation.watershed(distance, labels, mask=near)
        theirs = {(a, b): distance for a, b, _, distance in points_of(grown, distance)}
        ours = {(p.a, p.b): p.distance for p in decision_points(labels, max_distance=4.0)}
        either += len(ours.keys() | theirs.keys())
        both += sum(abs(ours[pair] - theirs[pair]) <= 1 for pair in ours.keys() & theirs.keys())
    assert both >= 0.95 * either > 100


def test_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = blobs((40, 44, 48), 60, seed=1)
    whole = decision_points(labels, max_distance=4.0)
    assert len(whole) > 40
    monkeypatch.setattr("floodtide.agglomerate.resegmenting._BLOCK", 16)
    parts = decision_points(Volume(labels), max_distance=4.0)
    assert [(p.a, p.b) for p in parts] == [(p.a, p.b) for p in whole]
    assert [p.distance for p in parts] == [p.distance for p in whole]
    assert [(p.a, p.b) for p in whole] == sorted((p.a, p.b) for p in whole)


@pytest.mark.parametrize(
    ("labels", "arguments", "says"),
    [
        (
            np.zeros((3, 3, 3), np.float32),
            {"max_distance": 1.0},
            "holds float32, expected integers",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    labels: np.ndarray, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=says):
        decision_points(labels, **arguments)  # type: ignore[arg-type]
