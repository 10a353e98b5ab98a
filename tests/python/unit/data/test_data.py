# SPDX-License-Identifier: Apache-2.0
"""Volumes, partitions and shards as Python sees them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from floodtide import _core, cli, data, errors


def write(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, chunks=True, compression="gzip", shuffle=True)
    return path


def reference_partition(
    labels: np.ndarray[Any, Any],
    thresholds: list[float],
    radius: tuple[int, int, int],
    min_size: int,
) -> np.ndarray[Any, Any]:
    """google/ffn's compute_partitions, step by step, from its description."""
    ids, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    large = (sizes >= min_size) & (ids != 0)
    numbers = np.where(large, np.arange(1, len(ids) + 1), 0)[inverse].reshape(labels.shape)
    window = tuple(2 * r + 1 for r in radius)
    boxes = np.lib.stride_tricks.sliding_window_view(numbers, window)
    inner = numbers[tuple(slice(r, n - r) for r, n in zip(radius, labels.shape, strict=True))]
    same = (boxes == inner[..., None, None, None]).sum(axis=(3, 4, 5))
    classes = np.digitize(same / np.prod(window), thresholds) + 1
    result = np.full(labels.shape, 255, np.uint8)
    valid = tuple(slice(r, n - r) for r, n in zip(radius, labels.shape, strict=True))
    result[valid] = np.where(inner == 0, 0, classes)
    return result


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "uint32", "int64", "uint64", "float32", ">f8", ">i4"]
)
def test_volume_reads_boxes_in_its_own_type(tmp_path: Path, dtype: str) -> None:
    array = np.arange(60).reshape(3, 4, 5).astype(dtype)
    write(tmp_path / "a.h5", d=array)
    volume = data.Volume(tmp_path / "a.h5", "d")
    assert volume.shape == (3, 4, 5)
    assert volume.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(volume.read(), array)
    np.testing.assert_array_equal(volume.read("1:3,0:2,2:5"), array[1:3, 0:2, 2:5])
    np.testing.assert_array_equal(volume.read(((1, 0, 2), (2, 2, 3))), array[1:3, 0:2, 2:5])


def test_volumes_know_if_they_are_the_same(tmp_path: Path) -> None:
    array = np.zeros((4, 5, 6), np.uint8)
    path = write(tmp_path / "v.h5", raw=array, labels=array)
    (tmp_path / "link.h5").symlink_to(path)
    raw = data.Volume(f"{path}:raw")

    assert raw.is_same(data.Volume(f"{tmp_path}/link.h5:/raw"))
    assert raw.is_same(data.Volume(path, "raw"))
    assert not raw.is_same(data.Volume(f"{path}:labels"))
    one, other = data.Volume(array), data.Volume(array)
    assert one.is_same(one)
    assert not one.is_same(other)


def test_write_volume_is_read_by_h5py(tmp_path: Path) -> None:
    image = np.arange(8 * 9 * 70, dtype=np.uint8).reshape(8, 9, 70)
    labels = image.astype(np.uint64) << np.uint64(56)
    arrays = {"raw": image, "labels": labels, "part": image[1:, ::2, 3:]}
    data.write_volume(tmp_path / "a.h5", arrays, voxel_size_nm=(40, 8, 4))
    assert data.Volume(tmp_path / "a.h5", "raw").geometry.voxel_size_nm == (40.0, 8.0, 4.0)
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["raw"][:], image)
        np.testing.assert_array_equal(file["labels"][:], labels)
        np.testing.assert_array_equal(file["part"][:], image[1:, ::2, 3:])
        assert file["raw"].chunks == (8, 9, 64)
    with pytest.raises(errors.InvalidArgumentError, match="float16"):
        data.write_volume(tmp_path / "b.h5", {"raw": np.zeros((2, 2, 2), np.float16)})
    with pytest.raises(errors.InvalidArgumentError, match=r"write_volume: voxel_size_nm.0 is 0"):
        data.write_volume(tmp_path / "b.h5", arrays, voxel_size_nm=(0, 1, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("0:190,0:250,0:250", ((0, 0, 0), (190, 250, 250))),
        (" 3:4, 5:7 ,0:1 ", ((3, 5, 0), (1, 2, 1))),
        ("", None),
    ],
)
def test_parse_box(text: str, box: data.Box | None) -> None:
    assert data.parse_box(text) == box


@pytest.mark.parametrize(
    "text", ["1:2,3:4", "1:1,0:2,0:2", "2:1,0:2,0:2", "-1:2,0:2,0:2", "a", "1:2,3:4,5:6,"]
)
def test_parse_box_refuses(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="z0:z1,y0:y1,x0:x1"):
        data.parse_box(text)


@settings(max_examples=40, deadline=None)
@given(
    labels=hnp.arrays(
        np.uint64,
        hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=9),
        elements=st.sampled_from([0, 1, 2, 2**63 + 5, 2**64 - 4]),
    ),
    share=st.tuples(*[st.floats(0, 0.49)] * 3),
    min_size=st.integers(0, 60),
    thresholds=st.lists(st.floats(0, 1), min_size=1, max_size=5, unique=True).map(sorted),
)
def test_partition_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    labels: np.ndarray[Any, Any],
    share: tuple[float, float, float],
    min_size: int,
    thresholds: list[float],
) -> None:
    z, y, x = (int(s * (n - 1)) for s, n in zip(share, labels.shape, strict=True))
    folder = tmp_path_factory.mktemp("partition")
    path = write(folder / "labels.h5", stack=labels)
    counts = data.partition(
        f"{path}:stack",
        f"{folder / 'out.h5'}:af",
        thresholds=thresholds,
        lom_radius=(z, y, x),
        min_size=min_size,
    )
    expected = reference_partition(labels, thresholds, (z, y, x), min_size)
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["af"][:], expected)
        values, voxels = np.unique(expected[expected != 255], return_counts=True)
        np.testing.assert_array_equal(file["af"].attrs["partition_counts"], [values, voxels])
        assert counts == dict(zip(values.tolist(), voxels.tolist(), strict=True))
        np.testing.assert_array_equal(file["af"].attrs["bounding_boxes"][0][0], (x, y, z))


def test_partition_stores_what_google_ffn_reads_and_its_own_options(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.h5", stack=np.full((9, 10, 11), 4, np.int32))
    with h5py.File(path, "r+") as file:  # x, y, z; the second box becomes empty
        file["stack"].attrs["bounding_boxes"] = [[[1, 2, 3], [9, 8, 6]], [[0, 0, 0], [2, 2, 2]]]
    settings = {"thresholds": [0.5, 1.0], "lom_radius": (1, 2, 3), "min_size": 10}
    data.partition(f"{path}:stack", f"{tmp_path / 'out.h5'}:af", **settings)
    with h5py.File(tmp_path / "out.h5") as file:
        stored = dict(file["af"].attrs)
        assert (file["af"].fillvalue, file["af"].chunks) == (255, (9, 10, 11))
    assert stored["bounding_boxes"].tolist() == [[[4, 4, 4], [3, 4, 4]]]
    assert stored["partition_counts"].tolist() == [[3], [7 * 6 * 5]]
    assert stored["thresholds"].tolist() == [0.5, 1.0]
    assert stored["lom_radius_zyx"].tolist() == [1, 2, 3]
    assert (stored["min_size"], stored["min_size"].dtype) == (10, np.int64)


@pytest.mark.extra
@pytest.mark.data
def test_partition_of_real_labels_has_the_published_counts(
    tmp_path: Path, data_folder: Path
) -> None:
    counts = data.partition(
        f"{data_folder / 'fib25/training_sample2/groundtruth.h5'}:stack",
        f"{tmp_path / 'out.h5'}:af",
    )
    # Source: google/ffn's compute_partitions on these labels (thresholds of its README, radius 24).
    expected = [113468, 10433, 101709, 180884, 291180, 969320, 605822, 751844, 926390, 943965]
    expected += [796382, 714182, 665511, 1171318]
    assert counts == dict(enumerate(expected))


def test_partition_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.h5", stack=np.ones((64, 64, 64), np.int32))
    with h5py.File(path, "r+") as file:  # damage the chunks, not the headers
        offset = file["stack"].id.get_chunk_info(0).byte_offset
    with open(path, "r+b") as raw:
        raw.seek(offset)
        raw.write(b"\x5a" * 30)
    with pytest.raises(errors.InvalidFileError, match=r"labels\.h5:stack"):
        data.partition(f"{path}:stack", f"{tmp_path / 'out.h5'}:af", lom_radius=(1, 1, 1))
    assert [entry.name for entry in tmp_path.iterdir()] == ["labels.h5"]


@settings(max_examples=25, deadline=None)
@given(
    classes=hnp.arrays(np.uint8, (6, 7, 8), elements=st.sampled_from([0, 1, 5, 255])),
    walkers=st.integers(1, 9),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 3),
)
def test_shards_are_disjoint_complete_and_balanced(
    tmp_path_factory: pytest.TempPathFactory,
    classes: np.ndarray[Any, Any],
    walkers: int,
    seed: int,
    epoch: int,
) -> None:
    classes[2, 3, 4] = 1  # at least one valid centre
    folder = tmp_path_factory.mktemp("shards")
    zeros = np.zeros(classes.shape, np.uint8)
    path = write(folder / "a.h5", raw=zeros, labels=zeros, partitions=classes)
    volume = _core.data.SourceOptions(
        name="a", image=f"{path}:raw", labels=f"{path}:labels", partitions=f"{path}:partitions"
    )

    def source_for(walkers: int) -> _core.data.ExampleSource:
        return _core.data.ExampleSource(
            [volume],
            _core.data.ExampleOptions(patch_size=(3, 3, 3), seed=seed, walkers=walkers),
            progress=None,
        )

    inner = Counter(classes[1:-1, 1:-1, 1:-1].ravel().tolist())
    del inner[255]
    count, largest = len(inner), max(inner.values())
    if walkers > count * largest:
        with pytest.raises(errors.InvalidArgumentError, match="walkers"):
            source_for(walkers)
        return
    source = source_for(walkers)
    assert source.examples == count * largest
    shards = [
        [
            tuple(source.centre(walker, epoch, index)[1])
            for index in range(source.per_walker(walker))
        ]
        for walker in range(walkers)
    ]
    assert sum(map(len, shards)) == source.examples
    for shard in shards:
        shares = Counter(int(classes[centre]) for centre in shard)
        assert all(0 <= shares[value] - largest // walkers <= 1 for value in inner)
    per_class: dict[int, Counter[Any]] = {}
    for centre in itertools.chain.from_iterable(shards):
        per_class.setdefault(int(classes[centre]), Counter())[centre] += 1
    assert 255 not in per_class
    for voxels in per_class.values():
        assert sum(voxels.values()) == largest
        assert max(voxels.values()) - min(voxels.values()) <= 1


BAD_INPUT = {
    "missing.h5:d": "no such file",
    "a.h5:none": "its datasets are: flat, float, image",
    "a.h5:flat": "expected three",
    "a.h5:float": "labels are float64, and 0.5 at 0, 0, 0 (z, y, x); expected whole numbers",
    "empty.h5:d": "cannot be opened as an HDF5 file",
    "text.h5:d": "signature",
    "truncated.h5:image": "truncated",
    "a.h5": "expected file:dataset",
}


@pytest.mark.parametrize(("name", "reason"), BAD_INPUT.items())
def test_bad_input_is_one_line_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    image = np.zeros((40, 40, 40), np.int32)
    write(tmp_path / "a.h5", flat=np.zeros((4, 4)), float=np.full((9, 9, 9), 0.5), image=image)
    (tmp_path / "empty.h5").touch()
    (tmp_path / "text.h5").write_text("no HDF5 here " * 100)
    whole = write(tmp_path / "whole.h5", image=image).read_bytes()
    (tmp_path / "truncated.h5").write_bytes(whole[:-100])
    before = sorted(tmp_path.iterdir())
    status = cli.run(
        ["partition", str(tmp_path / name), f"{tmp_path}/out.h5:af", "--lom-radius", "1,1,1"]
    )
    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("floodtide partition: ")
    assert error.count("\n") == 1
    assert reason in error
    assert name.split(":")[0] in error
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_is_not_utf8_is_one_line_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.h5", image=np.zeros((9, 9, 9), np.int32))
    arguments = [f"{tmp_path}/a.h5:image", f"{tmp_path}/out.h5:\udcff", "--lom-radius", "1,1,1"]
    assert cli.run(["partition", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is not valid UTF-8; expected FILE:DATASET" in error


def test_partition_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.zeros((20, 20, 20), np.uint16)
    labels[:, :, 10:] = 7
    path = write(tmp_path / "labels.h5", stack=labels)
    out = f"{tmp_path}/out.h5:af"
    arguments = ["partition", f"{path}:stack", out, "--lom-radius", "2,3,4", "--min-size", "100"]
    assert (
        cli.run([*arguments, "--thresholds", "0.5,0.9", "--box", "0:18,0:20,0:20", "--json"]) == 0
    )
    result = json.loads(capsys.readouterr().out)
    counts = {int(value): voxels for value, voxels in result["partition_counts"].items()}
    assert sum(counts.values()) == (18 - 4) * (20 - 6) * (20 - 8)
    expected = reference_partition(labels[:18], [0.5, 0.9], (2, 3, 4), 100)
    np.testing.assert_array_equal(data.Volume(out).read()[:18], expected)
    assert (data.Volume(out).read()[18:] == 255).all()
    assert cli.run(["partition", f"{path}:stack", out, "--lom-radius", "2,3"]) == 2
    assert "'2,3', expected 1 or 3 numbers" in capsys.readouterr().err


def test_synth_command_writes_a_volume_that_partition_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "volume.h5"
    assert cli.run(["lab", "synth", str(out), "--shape", "24,32,40", "--seed", "5", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    image, labels = data.synth((24, 32, 40), seed=5)
    np.testing.assert_array_equal(data.Volume(out, "raw").read(), image)
    np.testing.assert_array_equal(data.Volume(out, "labels").read(), labels)
    assert figures["shape"] == [24, 32, 40]
    assert figures["cells"] == labels.max()
    assert cli.run(["lab", "synth", str(out), "--shape", "24,32"]) == 2
    assert "'--shape': '24,32', expected" in capsys.readouterr().err


def test_shards_give_patches_around_their_centres(tmp_path: Path) -> None:
    image, labels = data.synth((24, 24, 24), seed=1)
    classes = np.full(image.shape, 4, np.uint8)
    path = write(tmp_path / "a.h5", raw=image, labels=labels, partitions=classes)
    names = [f"{path}:{name}" for name in ("raw", "labels", "partitions")]
    shards = data.Shards(
        data.TrainingVolume(*names, mean=100, std=10),
        augmentation=data.Augmentation(permutable_axes=(), reflectable_axes=()),
        patch_size=(5, 7, 9),
        walkers=3,
    )
    assert len(shards) == 20 * 18 * 16 == sum(shards.core.per_walker(w) for w in range(3))
    index = next(i for i in range(100) if labels[tuple(shards.core.centre(2, 1, i)[1])] > 0)
    z, y, x = shards.core.centre(2, 1, index)[1]
    box = (slice(z - 2, z + 3), slice(y - 3, y + 4), slice(x - 4, x + 5))
    patch, soft = shards.load(2, index, epoch=1)
    np.testing.assert_array_equal(patch, (image[box].astype(np.float32) - 100) * np.float32(0.1))
    expected = np.where(labels[box] == labels[z, y, x], np.float32(0.95), np.float32(0.05))
    np.testing.assert_array_equal(soft, expected)
