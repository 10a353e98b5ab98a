# SPDX-License-Identifier: Apache-2.0
"""Global ids of segments in overlapping subvolumes, against a slow twin and known segmentations."""

from collections import Counter
from unittest import mock

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, sparse

from floodtide import _core, data, errors, evaluate
from floodtide.segment import Pieces, reconcile, reconciling, write_reconciled
from floodtide.segment.pieces import Cut
from floodtide.segment.reconciling import read_reconciled


def store(directory, cut, labels_of, shape=None, settings=None):
    """Write the labels that labels_of(number) returns as if `floodtide segment` had made them."""
    pieces = Pieces.create(directory, cut, shape or cut.box[1], settings or {})
    for number in range(len(cut)):
        path = pieces.path(number)
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("segmentation", data=labels_of(number))
            dataset.attrs["box_start"] = np.array(cut.subvolume(number)[0], np.int64)
    return pieces


def part(volume, box, origin):
    z, y, x = (slice(a - b, a - b + n) for a, b, n in zip(box[0], origin, box[1], strict=True))
    return volume[z, y, x]


def renumbered(labels, rng):
    """Return the labels with other ids, as another process would have given them; 0 stays."""
    ids = np.unique(labels[labels > 0])
    names = np.zeros(int(labels.max(initial=0)) + 1, np.uint32)
    names[ids] = rng.permutation(len(ids)) + 1
    return names[labels]


def objects(shape, seed, count=40):
    """Return compact objects in space that touch, with some empty voxels."""
    rng = np.random.default_rng(seed)
    seeds = np.zeros(shape, int)
    for i in range(count):
        seeds[tuple(rng.integers(0, n) for n in shape)] = i + 1
    _, nearest = ndimage.distance_transform_edt(seeds == 0, return_indices=True)
    labels = seeds[tuple(nearest)].astype(np.uint32)
    labels[rng.random(shape) < 0.1] = 0
    return labels


def same_partition(a, b):
    pairs = {(int(i), int(j)) for i, j in zip(a.ravel(), b.ravel(), strict=True)}
    return (
        len(pairs) == len({i for i, _ in pairs}) == len({j for _, j in pairs})
        and ((a == 0) == (b == 0)).all()
    )


def test_a_segmentation_that_was_cut_into_27_comes_back_whole(tmp_path):
    labels = objects((40, 44, 48), 1)
    cut = Cut(((0, 0, 0), labels.shape), (18, 20, 22), (6, 6, 6))
    assert len(cut) == 27
    rng = np.random.default_rng(2)
    pieces = store(
        tmp_path / "pieces",
        cut,
        lambda n: renumbered(part(labels, cut.subvolume(n), (0, 0, 0)), rng),
    )
    found = reconcile(pieces)
    whole = read_reconciled(pieces, found, cut.box)
    assert same_partition(whole, labels)
    assert found.objects == len(np.unique(labels[labels > 0]))
    assert found.splits == 0
    assert sorted(np.unique(whole)) == list(range(found.objects + 1))


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    inside_voxels=st.sampled_from([0, 1, 20]),
)
def test_ids_are_those_of_a_slow_twin(tmp_path_factory, seed, inside_voxels):
    """Subvolumes disagree here: each has its own objects."""
    rng = np.random.default_rng(seed)
    start = tuple(int(n) for n in rng.integers(0, 4, 3))
    cut = Cut((start, (14, 15, 16)), (8, 9, 16), (3, 4, 0))
    stored = [objects(cut.size, seed + n, 6) for n in range(len(cut))]
    pieces = store(
        tmp_path_factory.mktemp("twin") / "pieces", cut, stored.__getitem__, shape=(30, 30, 30)
    )
    with mock.patch.object(reconciling, "_RULE", (1, 0.5, inside_voxels)):
        found = reconcile(pieces)
    expected, splits = twin(cut, stored, inside_voxels)
    np.testing.assert_array_equal(read_reconciled(pieces, found, cut.box), expected)
    assert found.splits == splits


def twin(cut, stored, inside_voxels):
    """Voxel by voxel, with SciPy's connected components."""

    def one_object(common, of_first, of_second):
        shares = common / of_first, common / of_second
        if min(shares) >= 0.5:
            return True
        inside = max(shares) >= 0.95 and min(shares) >= 0.2
        return inside and 0 < inside_voxels <= common

    items = [(n, int(i)) for n, labels in enumerate(stored) for i in np.unique(labels) if i]
    place = {item: k for k, item in enumerate(items)}
    edges, splits = [], 0
    for a, b in cut.neighbours():
        box = cut.shared(a, b)
        one = part(stored[a], box, cut.subvolume(a)[0]).ravel()
        two = part(stored[b], box, cut.subvolume(b)[0]).ravel()
        both = [(int(i), int(j)) for i, j in zip(one, two, strict=True) if i and j]
        common = Counter(both)
        sizes = Counter(i for i, _ in both), Counter(j for _, j in both)
        agreed = [
            (i, j)
            for (i, j), voxels in common.items()
            if one_object(voxels, sizes[0][i], sizes[1][j])
        ]
        edges += [(place[a, i], place[b, j]) for i, j in agreed]
        for side in range(2):
            splits += len(sizes[side].keys() - {pair[side] for pair in agreed})
    matrix = sparse.coo_matrix(
        (np.ones(len(edges)), ([a for a, _ in edges], [b for _, b in edges])),
        shape=(len(items), len(items)),
    )
    _, group = sparse.csgraph.connected_components(matrix, directed=False)
    whole = np.zeros(cut.box[1], np.int64)
    for number, labels in enumerate(stored):
        core = cut.core(number)
        of_item = np.zeros(int(labels.max()) + 1, np.int64)
        for i in np.unique(labels[labels > 0]):
            of_item[i] = group[place[number, int(i)]] + 1
        z, y, x = (
            slice(a - b, a - b + n) for a, b, n in zip(core[0], cut.box[0], core[1], strict=True)
        )
        whole[z, y, x] = of_item[part(labels, core, cut.subvolume(number)[0])]
    first = {int(group[k]): k for k in reversed(range(len(items)))}  # first item of each group
    names = sorted((first[int(g) - 1], int(g)) for g in np.unique(whole) if g)
    numbers = np.zeros(int(whole.max()) + 1, np.int64)
    for number, (_, g) in enumerate(names, start=1):
        numbers[g] = number
    return numbers[whole], splits


@settings(deadline=None)
@given(st.integers(1, 40), st.data())
def test_connected_items_are_those_of_scipy(count, data):
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=40)
    )
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    roots = _core.segment.connected(count, rows)
    matrix = sparse.coo_matrix((np.ones(len(rows)), rows.T), shape=(count, count))
    _, group = sparse.csgraph.connected_components(matrix, directed=False)
    expected = [int(np.flatnonzero(group == g)[0]) for g in group]
    assert roots.tolist() == expected


def test_pairs_of_items_that_do_not_exist_are_refused():
    with pytest.raises(errors.OutOfRangeError, match="expected items from 0 to 2"):
        _core.segment.connected(3, np.array([[0, 3]], np.int64))


@pytest.mark.parametrize("name", ["out.h5:group/labels", "out.zarr", "out.n5", "precomputed://out"])
def test_every_format_gets_ids_placement_and_voxel_size(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    if not name.startswith("out.h5"):
        pytest.importorskip("tensorstore")
    labels = objects((20, 24, 70), 3)
    cut = Cut(((4, 5, 6), labels.shape), (12, 24, 40), (4, 0, 8))
    pieces = store(
        tmp_path / "pieces",
        cut,
        lambda n: part(labels, cut.subvolume(n), (4, 5, 6)),
        shape=(100, 100, 100),
        settings={"geometry": {"voxel_size_nm": [30.0, 4.0, 4.0], "offset": None}, "image": "a"},
    )
    write_reconciled(pieces, reconcile(pieces), name)
    volume = data.Volume(name)
    assert same_partition(volume.read(), labels)
    assert volume.geometry.offset == (4, 5, 6)
    assert volume.geometry.voxel_size_nm == (30.0, 4.0, 4.0)
    assert volume.dtype == np.uint32
    assert evaluate.scores(volume.read(), labels)["adapted_rand_error"] == 0


def test_ids_may_be_large(tmp_path):
    labels = objects((20, 10, 10), 3).astype(np.uint64)
    large = np.where(labels > 0, labels * np.uint64(2**50) + np.uint64(7), 0).astype(np.uint64)
    cut = Cut(((0, 0, 0), labels.shape), (12, 10, 10), (4, 0, 0))
    pieces = store(tmp_path / "pieces", cut, lambda n: part(large, cut.subvolume(n), (0, 0, 0)))
    assert same_partition(read_reconciled(pieces, reconcile(pieces), cut.box), labels)


def test_a_subvolume_that_changes_meanwhile_is_noticed(tmp_path):
    cut = Cut(((0, 0, 0), (20, 10, 10)), (12, 10, 10), (4, 0, 0))
    pieces = store(tmp_path / "pieces", cut, lambda n: np.full(cut.size, 2 * n + 1, np.uint8))
    found = reconcile(pieces)
    for other in (2, 200):
        with h5py.File(pieces.path(1), "r+") as file:
            file["segmentation"][0, 0, 0] = 0
            file["segmentation"][-1, 0, 0] = other
        with pytest.raises(errors.InvalidFileError, match="has changed"):
            read_reconciled(pieces, found, cut.box)


def test_missing_subvolumes_are_named(tmp_path):
    labels = objects((20, 10, 10), 3)
    cut = Cut(((0, 0, 0), labels.shape), (12, 10, 10), (4, 0, 0))
    pieces = store(tmp_path / "pieces", cut, lambda n: part(labels, cut.subvolume(n), (0, 0, 0)))
    pieces.path(1).unlink()
    with pytest.raises(errors.InvalidArgumentError, match=r"1 of 2 subvolumes.*8_0_0.h5"):
        reconcile(pieces)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:700]), "8_0_0.h5"),
        (
            lambda path: path.write_bytes(path.with_name("0_0_0.h5").read_bytes()),
            "from \\(8, 0, 0\\)",
        ),
    ],
    ids=["truncated", "of another subvolume"],
)
def test_files_that_do_not_belong_there_are_refused(tmp_path, spoil, says):
    labels = objects((20, 10, 10), 3)
    cut = Cut(((0, 0, 0), labels.shape), (12, 10, 10), (4, 0, 0))
    pieces = store(tmp_path / "pieces", cut, lambda n: part(labels, cut.subvolume(n), (0, 0, 0)))
    spoil(pieces.path(1))
    with pytest.raises(errors.InvalidFileError, match=says):
        reconcile(pieces)
