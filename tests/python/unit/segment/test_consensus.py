# SPDX-License-Identifier: Apache-2.0
"""Consensus of two segmentations, against a transcription of the published rule; and forward and reverse seeds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import bright_network
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from floodtide import _core, config, errors
from floodtide.cli import segment as segment_cli
from floodtide.data import Volume
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.canvas import read_seeds


def published_rule(a, b, min_size):
    """google/ffn's split_segmentation_by_intersection (docs of consensus.py), pair by pair."""
    pairs, counts = np.unique(np.stack([b.ravel(), a.ravel()]), axis=1, return_counts=True)
    order = [(int(y), int(x), int(n)) for (y, x), n in zip(pairs.T, counts, strict=True)]
    best = {}  # id of a: (voxels, id of b)
    for y, x, n in order:  # sorted by b, then a: the first one wins a tie
        if x and (x not in best or n > best[x][0]):
            best[x] = (n, y)
    names, largest = {}, int(a.max(initial=0))
    for y, x, n in order:
        if x == 0 or n < min_size:
            continue
        if best[x][1] == y:
            names[x, y] = x
        else:
            largest += 1
            names[x, y] = largest
    out = [names.get((int(x), int(y)), 0) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(out).reshape(a.shape)


@settings(deadline=None)
@given(
    st.tuples(*[st.integers(1, 6)] * 3),
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(0, 8),
)
def test_the_consensus_is_that_of_the_published_rule(shape, seed, ids, min_size):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, ids + 1, (2, *shape)) * rng.integers(1, 5)).astype(np.int32)
    found = _core.segment.split_consensus(a, b, min_size)
    np.testing.assert_array_equal(found, published_rule(a, b, min_size))


def test_a_merger_of_one_segmentation_is_split_and_its_larger_part_keeps_the_id():
    a = np.array([[[1, 1, 1, 1, 1, 2, 2, 0]]], np.int32)
    b = np.array([[[7, 7, 0, 0, 0, 7, 9, 9]]], np.int32)
    for least, expected in ((0, [3, 3, 1, 1, 1, 2, 4, 0]), (2, [3, 3, 1, 1, 1, 0, 0, 0])):
        np.testing.assert_array_equal(_core.segment.split_consensus(a, b, least), [[expected]])


@pytest.fixture
def bright(tmp_path: Path) -> tuple[SegmentOptions, Volume]:
    options = config.load(bright_network.configuration(tmp_path)).segment
    return options, Volume(options.image)


def test_the_second_segmentation_starts_from_the_seeds_of_the_first_in_reverse_order(
    bright: tuple[SegmentOptions, Volume],
) -> None:
    options, volume = bright
    box = ((0, 4, 6), (40, 36, 40))
    for reflect in (False, True):
        options = dataclasses.replace(options, consensus_min_size=5, reflect=reflect)
        segmenter = Segmenter(Segmenter.load(options).model, options)
        forward = segmenter.segment(volume, box)
        starts = [origin.start_zyx for origin in forward.origins]
        assert len(starts) > 3
        reverse = segmenter.segment(volume, box, seeds=starts[::-1])
        assert [o.start_zyx for o in reverse.origins] != starts
        both = dataclasses.replace(options, consensus="reverse")
        found = Segmenter(segmenter.model, both).segment(volume, box)
        expected = published_rule(forward.segmentation, reverse.segmentation, 5)
        np.testing.assert_array_equal(found.segmentation, expected)
        kept = {o.id: o.voxels for o in found.origins}
        assert kept == {o.id: n for o in forward.origins if (n := int((expected == o.id).sum()))}
        calls = "inference-calls"
        assert found.counters[calls] == forward.counters[calls] + reverse.counters[calls]


def test_the_command_makes_the_consensus(tmp_path: Path) -> None:
    file = str(bright_network.configuration(tmp_path, consensus_min_size=5))
    out = f"{tmp_path}/out.h5:labels"
    arguments = [file, "--out", out, "--set", "segment.consensus=reverse"]
    result = CliRunner().invoke(segment_cli.command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    options = config.load(file, ["segment.consensus='reverse'"]).segment
    expected = Segmenter.load(options).segment(Volume(options.image))
    np.testing.assert_array_equal(Volume(out).read(), expected.segmentation)


def test_progress_of_both_segmentations_is_one(bright: tuple[SegmentOptions, Volume]) -> None:
    options, volume = bright
    segmenter = Segmenter.load(dataclasses.replace(options, consensus="reverse"))
    seen: list[tuple[int, int]] = []
    segmenter.segment(volume, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2 * 40 * 44 * 48,) * 2
    assert (40 * 44 * 48, 2 * 40 * 44 * 48) in seen


def test_seeds_of_files(tmp_path: Path, bright: tuple[SegmentOptions, Volume]) -> None:
    options, volume = bright
    segmenter = Segmenter.load(options)
    found = segmenter.segment(volume)
    found.save(f"{tmp_path}/first.h5:labels")
    starts = [origin.start_zyx for origin in found.origins]
    assert read_seeds(f"{tmp_path}/first.h5").tolist() == [list(s) for s in starts[::-1]]
    (tmp_path / "seeds.txt").write_text("# z, y, x\n20, 21, 22\n\n  7 8 9  # a dendrite\n0,0,0\n")
    assert read_seeds(str(tmp_path / "seeds.txt")).tolist() == [[20, 21, 22], [7, 8, 9], [0, 0, 0]]
    for name in ("first.h5", "seeds.txt"):
        named = Segmenter(segmenter.model, dataclasses.replace(options, seeds=str(tmp_path / name)))
        np.testing.assert_array_equal(
            named.segment(volume).segmentation,
            segmenter.segment(volume, seeds=read_seeds(str(tmp_path / name))).segmentation,
        )


def test_seeds_where_no_field_of_view_fits_are_left_out(
    bright: tuple[SegmentOptions, Volume],
) -> None:
    options, volume = bright
    segmenter = Segmenter.load(options)
    assert (
        segmenter.segment(volume, seeds=[(0, 0, 0), (39, 43, 47)]).counters.get(
            "segment_at-loop-calls", 0
        )
        == 0
    )
    assert segmenter.segment(volume, seeds=[]).coverage == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"1, 2\n", "line 1: expected z, y, x"),
        ("a.txt", b"1,2,3\n4,5,-6\n", "line 2: expected z, y, x"),
        ("a.txt", b"\xff\xfe", "a.txt"),
        ("a.h5", b"no HDF5", "a.h5"),
        ("missing.txt", None, "missing.txt"),
        ("missing.h5", None, "missing.h5"),
    ],
)
def test_files_without_seeds_are_refused(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.InvalidFileError, match=says):
        read_seeds(str(tmp_path / name))


@pytest.mark.parametrize("seeds", [[(1.5, 2, 3)], [(1, 2)], [1, 2, 3]])
def test_seeds_that_are_no_rows_of_integers_are_refused(
    bright: tuple[SegmentOptions, Volume], seeds: list
) -> None:
    options, volume = bright
    with pytest.raises(errors.InvalidArgumentError, match=r"expected integers \(n, 3\)"):
        Segmenter.load(options).segment(volume, seeds=seeds)
