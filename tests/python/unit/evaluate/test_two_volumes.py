# SPDX-License-Identifier: Apache-2.0
"""Commands that take two volumes compare their geometry first; "no label" has one meaning everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore

from floodtide import cli, config, data, errors, evaluate
from floodtide.base import notes
from floodtide.base.tasks import Affinities, Classes
from floodtide.data import no_label
from floodtide.data.patches import UNLABELLED
from floodtide.report import planes
from floodtide.shapes.arrays import meshes_of
from floodtide.train.data_checks import require_volumes_fit
from floodtide.view.viewer import _Array, layers_of

LABELS = (np.indices((12, 12, 12)) // 4).sum(0).astype(np.uint32) + 1


def stored(path: Path, array: Any, **attributes: Any) -> str:
    """Write labels as another program does, with h5py, and return their name."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array).attrs.update(attributes)
    return f"{path}:x"


def scored(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.run(["evaluate", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# Voxel sizes


@pytest.mark.parametrize("command", ["evaluate", "lab compare"])
def test_volumes_of_other_voxels_are_refused(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    coarse = stored(tmp_path / "s.h5", LABELS[::2, ::2, ::2], resolution=(20.0, 20.0, 20.0))
    fine = stored(tmp_path / "t.h5", LABELS, element_size_um=(0.01, 0.01, 0.01))
    assert cli.run([*command.split(), coarse, fine]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "s.h5:x has voxels of 20 x 20 x 20 nm (attribute resolution)" in said
    assert "t.h5:x of 10 x 10 x 10 nm (attribute element_size_um)" in said


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"resolution": (8.0, 8.0, 8.0)}, "l.h5:x has voxels of 8 x 8 x 8 nm"),
        ({"box_start": np.int64([0, 3, 0])}, "l.h5:x begins at voxel (0, 3, 0)"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "init", "train"])
def test_labels_of_other_voxels_than_the_image_are_refused(
    tmp_path: Path, command: str, stated: Any, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grey = np.random.default_rng(0).integers(0, 255, LABELS.shape, np.uint8)
    image = stored(
        tmp_path / "i.h5", grey, resolution=(9.0, 9.0, 9.0), box_start=np.int64([1, 0, 0])
    )
    labels = stored(tmp_path / "l.h5", LABELS, **stated)
    arguments = [command, image, "--labels", labels, "--out", f"{tmp_path}/out.html"]
    if command == "train":
        volume = data.TrainingVolume(image, labels, name="v")
        with pytest.raises(errors.ShapeError) as refused:
            require_volumes_fit(config.Config(data=data.DataOptions(volumes=[volume])))
        assert says in str(refused.value)
        return
    if command == "init":
        arguments[-1] = f"{tmp_path}/out.toml"
    assert cli.run(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert says in said


@pytest.mark.parametrize(
    ("places", "start", "says"),
    [
        (([1, 0, 0], None), None, "i.h5:x begins at voxel (1, 0, 0) (attribute box_start), "),
        ((None, [0, 3, 0]), None, "l.h5:x begins at voxel (0, 3, 0) (attribute box_start), "),
        ((None, [0, 3, 0]), (0, 3, 0), ""),
        (([1, 0, 0], [1, 0, 0]), None, ""),
        (([1, 0, 0], [1, 3, 0]), (0, 3, 0), ""),
        ((None, [0, 2, 0]), (0, 3, 0), "the first voxel of"),
    ],
)
def test_a_place_that_one_volume_alone_states_is_noted(
    tmp_path: Path, places: Any, start: Any, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = (
        stored(tmp_path / f"{name}.h5", array, **({"box_start": place} if place else {}))
        for name, array, place in zip(
            "il", (LABELS.astype(np.uint8), LABELS[:, : -3 if start else None]), places, strict=True
        )
    )
    volume = data.TrainingVolume(image, labels, name="v", labels_start=start)
    data.Patches(volume, data.DataOptions(volumes=[volume], patch=(5, 5, 5)), task=Affinities())
    assert capsys.readouterr().err.count("\n") == bool(says)
    if not start:
        notes._shown.clear()
        require_volumes_fit(config.Config(data=data.DataOptions(volumes=[volume])))
        said = capsys.readouterr().err
        assert said.count("\n") == bool(says)
        assert says in said


def test_stated_places_must_agree_with_labels_start(tmp_path: Path) -> None:
    image = stored(tmp_path / "i.h5", LABELS.astype(np.uint8), box_start=[1, 0, 0])
    labels = stored(tmp_path / "l.h5", LABELS[:, :-3], box_start=[1, 2, 0])
    volume = data.TrainingVolume(image, labels, name="v", labels_start=(0, 3, 0))
    options = data.DataOptions(volumes=[volume], patch=(5, 5, 5))
    with pytest.raises(errors.ShapeError, match=r"expected \(0, 3, 0\) voxels between them"):
        data.Patches(volume, options, task=Affinities())


def test_rounded_and_unknown_voxel_sizes_are_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = stored(tmp_path / "t.h5", LABELS, resolution=(10.0, 10.0, 10.0))
    for name, stated in (("a", {"resolution": np.float32([10.001, 10, 10])}), ("b", {})):
        found = scored(capsys, stored(tmp_path / f"{name}.h5", LABELS, **stated), truth)
        assert found["adapted_rand_error"] == 0


# Places


def test_a_truth_that_is_a_crop_is_compared_in_the_common_box(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segmentation = stored(tmp_path / "s.h5", LABELS)
    truth = stored(tmp_path / "t.h5", LABELS[2:9, 3:9, 4:9], box_start=np.int64([2, 3, 4]))
    picture = tmp_path / "a.png"
    found = scored(capsys, segmentation, truth, "--picture", str(picture))
    assert found["adapted_rand_error"] == 0
    assert found["voxels"] == 7 * 6 * 5
    assert picture.exists()
    assert scored(capsys, segmentation, truth, "--box", "4:8,4:8,5:9")["voxels"] == 64
    assert cli.run(["evaluate", segmentation, truth]) == 0
    said = capsys.readouterr().out
    assert "compared: 2:9,3:9,4:9, which both volumes cover, 12.2 % of" in said
    assert cli.run(["evaluate", segmentation, truth, "--box", "0:8,4:8,5:9"]) == 2
    assert "is not inside" in capsys.readouterr().err


def test_offsets_of_any_sign_place_volumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = {"resolution": (4.0, 4.0, 4.0)}
    segmentation = stored(tmp_path / "s.h5", LABELS[:8], offset=(0.0, -40.0, 8.0), **size)
    scale = {
        "size": [12, 12, 8], "encoding": "raw", "chunk_size": [4] * 3, "resolution": [4] * 3,
        "voxel_offset": [2, -10, 4],
    }  # fmt: skip
    store = tensorstore.open(
        {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{tmp_path}/p/"},
            "multiscale_metadata": {
                "type": "segmentation", "data_type": "uint32", "num_channels": 1,
            },
            "scale_metadata": scale,
        },
        create=True,
    ).result()  # fmt: skip
    store[..., 0].write(LABELS[4:].T).result()
    found = scored(capsys, segmentation, f"precomputed://{tmp_path}/p")
    assert found["adapted_rand_error"] == 0
    assert found["voxels"] == 4 * 12 * 12


def test_volumes_without_common_voxels_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segmentation = stored(tmp_path / "s.h5", LABELS, box_start=np.int64([20, 0, 0]))
    truth = stored(tmp_path / "t.h5", LABELS, box_start=np.int64([0, 0, 0]))
    assert cli.run(["evaluate", segmentation, truth]) == 2
    assert "expected common voxels" in capsys.readouterr().err


def test_a_result_is_placed_by_the_offset_of_its_image(tmp_path: Path) -> None:
    image = stored(tmp_path / "i.h5", LABELS.astype(np.uint8), box_start=np.int64([100, 0, 5]))
    made = stored(tmp_path / "s.h5", LABELS[3:], image=image, box_start=np.int64([3, 0, 0]))
    truth = stored(tmp_path / "t.h5", LABELS[4:], box_start=np.int64([104, 0, 5]))
    assert (
        evaluate.Pair(data.Volume(made), data.Volume(truth)).table().scores()["adapted_rand_error"]
        == 0
    )
    drawn = planes.read_segmentation(data.Volume(made), image, "", None)
    for plane in drawn:
        np.testing.assert_array_equal(plane.image, plane.segmentation)


# No label

NONE = {
    "zero": ("u4", 0),
    "minus": ("i8", -1),
    "u8": ("u8", 2**64 - 1),
    "outside": ("u8", 2**64 - 3),
    "u4": ("u4", 2**32 - 1),
}


def unlabelled(kind: str) -> Any:
    dtype, value = NONE[kind]
    array = LABELS.astype(dtype)
    array[:, :, 6:] = np.array(value, dtype)
    return array


@pytest.mark.parametrize("kind", NONE)
def test_every_spelling_of_no_label_is_the_same(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    array = unlabelled(kind)
    name = stored(tmp_path / f"{kind}.h5", array)
    known = LABELS.copy()
    known[:, :, 6:] = 0
    assert scored(capsys, stored(tmp_path / "s.h5", LABELS), name)["objects"] == 6
    assert evaluate.scores(LABELS, array) == evaluate.scores(LABELS, known)
    np.testing.assert_array_equal(data.volumes.labels_of(name).read(), known)
    found = data.look.label_statistics(data.Volume(name))
    assert (found.objects, found.unlabelled) == (6, 0.5)
    assert {m.id for m in meshes_of(array)} == set(range(1, 7))


def test_other_spellings_are_noted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = stored(tmp_path / "a.h5", unlabelled("u8"))
    for _ in range(2):
        data.look.label_statistics(data.Volume(name))
    assert capsys.readouterr().err.count(f"{2**64 - 1} stands for no label") == 1


def test_training_and_partitions_see_no_label(tmp_path: Path) -> None:
    image = stored(tmp_path / "i.h5", np.zeros(LABELS.shape, np.uint8))
    made = []
    for kind in NONE:
        name = stored(tmp_path / f"{kind}.h5", unlabelled(kind))
        out = f"{tmp_path}/{kind}-out.h5:af"
        data.partition(name, out, lom_radius=(2, 2, 2), min_size=1)
        volume, options = data.TrainingVolume(image, name), data.DataOptions(patch=(12, 12, 12))
        targets = data.Patches(volume, options, task=Affinities()).fixed(0)
        made.append([data.Volume(out).read(), *targets])
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_labels_without_another_spelling_are_returned_as_they_are() -> None:
    for dtype in ("u1", "u2", "i4", "u8"):
        assert no_label.cleared(labels := LABELS.astype(dtype)) is labels
    image = data.Volume(np.full((4, 4, 4), -5, np.int16))
    grey = evaluate.Pair(image, image).read_image(image)
    assert grey.min() == -5


# Labels of some sections


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("touching", [True, False])
def test_sections_without_labels_are_no_boundaries(axis: int, touching: bool) -> None:
    along = np.indices((24, 24, 24)).sum(0)
    labels = (along // 6 + 1).astype(np.uint32)
    if not touching:
        labels[along % 6 < 2] = 0
    sparse = np.zeros_like(labels)
    np.moveaxis(sparse, axis, 0)[2::4] = np.moveaxis(labels, axis, 0)[2::4]
    found = data.look.label_statistics(data.Volume(sparse))
    assert (found.zero_between < 0.25) == touching
    assert found.form == "sections"
    assert len(found.boxes) == 6
    if axis == 0:
        assert found.empty_sections == 18
        (problem,) = data.look.problems.of_labels(found, "v")
        assert "only in 6 sections (2:3,0:24,0:24;" in problem.text
        assert "18 of 24 sections (z) have none" in problem.text
        assert "zero_is_boundary" not in problem.text


# Classes without a label


@pytest.mark.parametrize("kind", ["minus", "u8", "u4"])
def test_class_masks_do_not_count_pixels_without_a_label(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dtype, value = NONE[kind]
    classes = (LABELS % 2).astype(dtype)
    classes[:, :, 6:] = np.array(value, dtype)
    image = stored(tmp_path / "i.h5", np.zeros(LABELS.shape, np.uint8))
    name = stored(tmp_path / "m.h5", classes)
    options = data.DataOptions(patch="whole")
    patches = data.Patches(data.TrainingVolume(image, name), options, task=Classes())
    _, mask = patches.fixed(0)
    np.testing.assert_array_equal(mask[0, :, :6], LABELS[0, :, :6] % 2)
    assert (mask[..., 6:] == UNLABELLED).all()
    right = stored(tmp_path / "p.h5", (LABELS % 2).astype(np.uint8))
    _, row = scored(capsys, right, name, "--classes")["classes"]
    assert row["dice"] == 1
    assert row["true_voxels"] == row["predicted_voxels"] == int((LABELS[:, :, :6] % 2).sum())


def test_a_value_of_a_mask_that_is_no_class_is_still_refused(tmp_path: Path) -> None:
    image = stored(tmp_path / "i.h5", np.zeros(LABELS.shape, np.uint8))
    table = Classes(classes={"0": "background", "1": "object"})
    for value in (2, 255):
        masks = (LABELS % 2).astype(np.int64)
        masks[3, 4, 5] = value
        volume = data.TrainingVolume(image, stored(tmp_path / f"{value}.h5", masks))
        with pytest.raises(errors.InvalidFileError, match=rf"value {value} at \(3, 4, 5\)"):
            data.Patches(volume, data.DataOptions(patch="whole"), task=table)


@pytest.mark.parametrize("kind", NONE)
def test_viewers_show_voxels_without_a_label_as_background(kind: str) -> None:
    known = LABELS.copy()
    known[:, :, 6:] = 0
    shown = _Array(data.Volume(unlabelled(kind)), labels=True)
    np.testing.assert_array_equal(shown[0:12, 0:12, 0:12], known.T)


def test_a_16_bit_image_is_shown_as_an_image(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 4000, (40, 40, 40)).astype(np.uint16)
    (layer,), _ = layers_of(stored(tmp_path / "i.h5", noise))
    assert not layer.labels
    blocks = (np.indices((40, 40, 40)) // 10).sum(0).astype(np.uint16) + 1
    (layer,), _ = layers_of(stored(tmp_path / "l.h5", blocks))
    assert layer.labels


def test_an_image_that_nobody_asked_for_is_not_opened(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(1, 9, dtype=np.uint32), 8).reshape(4, 4, 4)
    (tmp_path / "image.tif").write_bytes(b"not a TIFF file")
    for name in ("s", "t"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["l"] = labels
            file["l"].attrs["image"] = f"{tmp_path}/image.tif"
    words = ["evaluate", f"{tmp_path}/s.h5:l", f"{tmp_path}/t.h5:l"]
    assert cli.run(words) == 0
    assert cli.run([*words, "--picture", f"{tmp_path}/p.png"]) == 2
