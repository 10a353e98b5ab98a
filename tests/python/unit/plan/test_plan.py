# SPDX-License-Identifier: Apache-2.0
"""Plans: geometry for any voxel size, configurations that train, and wrong input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bright_network
import h5py
import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import planned, refused
from scipy import ndimage

from floodtide import cli, config, data, nn
from floodtide.base.networks import FfnOptions, UNetConfig
from floodtide.base.tasks import BY_KIND, Affinities
from floodtide.data import Volume, parse_box
from floodtide.data.boxes import intersection
from floodtide.errors import InvalidArgumentError
from floodtide.plan import geometry, planner, unets
from floodtide.plan.networks import known_network, levels_for
from floodtide.train import read_log

SHAPE = (40, 64, 100)  # of the fixture `stack`
pytestmark = pytest.mark.usefixtures("fast")


shapes = st.tuples(*[st.integers(12, 300)] * 3)
sizes = st.tuples(*[st.sampled_from([4.0, 8.0, 10.0, 40.0])] * 3)


@given(shape=shapes, size=sizes, largest=st.sampled_from([17, 33]))
@settings(max_examples=150, deadline=None)
def test_parts_hold_patches_and_are_apart(
    shape: tuple[int, int, int], size: tuple[float, float, float], largest: int
) -> None:
    try:
        view = geometry.view_for(shape, geometry.view_of(largest, largest // 4, size))
    except InvalidArgumentError as error:
        assert "too small" in str(error)  # noqa: PT017
        return
    assert all(f % 2 == 1 and 5 <= f <= largest for f in view.fov)
    assert all(1 <= d <= (f - 1) // 2 for f, d in zip(view.fov, view.deltas, strict=True))
    needs = geometry.Needs(patch=view.patch_size, guard=view.fov)
    for axis, guard, training, validation in geometry.cuts(((0, 0, 0), shape), needs):
        for start, extent in (training, validation):
            assert all(n >= p for n, p in zip(extent, view.patch_size, strict=True))
            assert all(a >= 0 and a + n <= m for a, n, m in zip(start, extent, shape, strict=True))
        first, second = sorted((training, validation), key=lambda box: box[0][axis])
        between = second[0][axis] - first[0][axis] - first[1][axis]
        assert between == guard == view.fov[axis]


boxes = st.tuples(st.tuples(*[st.integers(0, 50)] * 3), st.tuples(*[st.integers(1, 60)] * 3))


@given(
    volumes=st.lists(st.lists(boxes, min_size=1, max_size=6, unique=True), min_size=1, max_size=3),
    inside=st.booleans(),
    sections=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_parts_of_labelled_boxes_are_apart(
    volumes: list[list[Any]], inside: bool, sections: bool
) -> None:
    """Boxes of one volume do not overlap here if they come from different ones, so only cut boxes are compared."""
    needs = geometry.Needs(patch=(8, 16, 16), guard=(4, 8, 8), inside=inside, sections=sections)
    for split in geometry.splits(volumes, needs):
        assert split.validation
        assert split.training
        known = [box for own in volumes for box in own]
        for box in [*split.validation, *(box for _, box in split.training)]:
            assert any(intersection(box, one) == box for one in known)
        if len(known) == 1:
            ((_, training),) = split.training
            (validation,) = split.validation
            assert intersection(training, validation) is None


def test_fields_of_view_are_cubes_of_tissue() -> None:
    assert geometry.view_of(33, 8, (10, 10, 10)) == FfnOptions(fov=(33, 33, 33), deltas=(8, 8, 8))
    thick = geometry.view_of(33, 8, (40, 4, 4))
    assert thick.fov == (5, 33, 33)
    assert thick.deltas == (1, 8, 8)
    assert geometry.view_of(33, 8, (8, 4, 4)).fov == (17, 33, 33)


def test_a_name_with_a_line_break_stays_in_its_comment() -> None:
    text = planner.comment("That of a\n[run] network.")
    assert text == "# That of a [run] network.\n"
    long = planner.comment("word " * 60)
    assert all(line.startswith("# ") and len(line) <= 100 for line in long.splitlines())


def require_reasons(plan: Path) -> None:
    """Check that a reason stands above every value."""
    lines = plan.read_text().splitlines()
    for index, row in enumerate(lines):
        if " = " in row and not row.startswith("#"):
            assert lines[index - 1].startswith("# "), row


@pytest.mark.parametrize("kind", [kind for kind, task in BY_KIND.items() if task.of_objects])
def test_every_task_of_objects_is_planned(
    kind: str, stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [str(stack / "stack.tif"), "--labels", str(stack / "labels.tif"), "--task", kind]
    out = tmp_path / "plan.toml"
    planned(*line, "--voxel-nm", "20,20,20", "--out", str(out), capsys=capsys)
    assert config.load(out).task.kind == kind
    require_reasons(out)


def test_a_new_user_gets_a_scored_validation(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """init and train a flood-filling network, with nothing but a TIFF stack and labels."""
    monkeypatch.chdir(tmp_path)
    image, labels = str(stack / "stack.tif"), str(stack / "labels.tif")
    line = ["init", image, "--labels", labels, "--voxel-nm", "8,8,8", "--minutes", "1"]
    line += ["--task", "flood"]
    assert cli.run(line) == 0
    printed = capsys.readouterr().out
    assert "stack.toml is written" in printed
    assert Path("stack.toml").read_text() in printed
    require_reasons(Path("stack.toml"))
    settings = config.load("stack.toml")
    assert settings.data.volumes[0].partitions == ""
    assert settings.segment.reflect
    mean, std = settings.data.volumes[0].mean, settings.data.volumes[0].std
    start, size = parse_box(settings.data.volumes[0].box) or ((0, 0, 0), SHAPE)
    seen = Volume(image).read((start, size))
    assert (mean, std) == pytest.approx((seen.mean(), seen.std()), rel=0.02)
    few = ["--set", "validation.centres=4", "--set", "validation.every=0"]
    few += ["--set", "schedule.warmup_steps=0"]
    small = ["--set", "training.steps=2", *few]
    assert cli.run(["train", "stack.toml", *small]) == 0
    said = f"the training is complete: 2 steps. Next: floodtide segment stack.toml {' '.join(small)} --out"
    said += " segments.h5:segments, then floodtide report runs/stack\n"
    assert said in capsys.readouterr().err
    record = read_log(Path("runs/stack/log.jsonl"))[-1]
    assert record["kind"] == "validation"
    assert cli.run(["train", "stack.toml", *small]) == 0  # nothing is left to train
    assert said in capsys.readouterr().err
    files = list(Path("runs/stack").glob("partitions-*.h5"))
    assert len(files) == 1
    changed = files[0].stat().st_mtime_ns
    more = ["--set", "training.steps=3", *few]
    assert cli.run(["train", "stack.toml", *more]) == 0  # resumes, with the same partitions
    assert [path.stat().st_mtime_ns for path in Path("runs/stack").glob("partitions-*")] == [
        changed
    ]
    capsys.readouterr()
    written = Path("stack.toml").read_bytes()
    assert "or --replace to write over it" in refused(*line, capsys=capsys)
    assert Path("stack.toml").read_bytes() == written
    assert cli.run([*line, "--replace"]) == 0
    assert "NOTE: runs/stack holds a training already" in capsys.readouterr().out
    Path("stack.toml").write_text("[run]\n")
    assert "not replaced" in refused(*line, "--replace", capsys=capsys)


def test_a_new_user_gets_segments(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """init, train and segment with affinities, which are the default: the held-out box is segmented and scored."""
    monkeypatch.chdir(tmp_path)
    image, labels = str(stack / "stack.tif"), str(stack / "labels.tif")
    line = ["init", image, "--labels", labels, "--voxel-nm", "20,20,20", "--minutes", "1"]
    assert cli.run(line) == 0
    settings = config.load("stack.toml")
    assert isinstance(settings.model, UNetConfig)
    assert isinstance(settings.task, Affinities)
    assert settings.task.zero_is_boundary  # the cells are separated by membranes of label 0
    assert settings.training.steps == 60 * 0.8 * 10 / settings.training.walkers
    short = ["--set", "training.steps=3", "--set", "schedule.warmup_steps=1"]
    assert cli.run(["train", "stack.toml", *short]) == 0
    assert cli.run(["segment", "stack.toml", "--out", "out.h5:segments", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["prediction"] == "out.predicted.h5:predicted"
    made = Volume("out.h5:segments")
    start, size = parse_box(settings.validation.test_box) or ((0, 0, 0), SHAPE)
    assert (made.geometry.offset or (0, 0, 0), made.shape) == (start, size)
    assert made.geometry.voxel_size_nm == (20.0, 20.0, 20.0)
    assert "the validation box has 8 objects of at least 100 voxels" in found["decoding"]
    assert "optimistic" not in found["decoding"]
    assert cli.run(["agglomerate", found["prediction"], "again.h5:s"]) == 0
    np.testing.assert_array_equal(Volume("again.h5:s").read(), made.read())
    line = ["agglomerate", found["prediction"], "split.h5:s"]
    assert cli.run([*line, "--threshold", "0.6"]) == 0
    assert Volume("split.h5:s").shape == made.shape
    assert cli.run(["evaluate", "out.h5:segments", labels, "--picture", "stack.png"]) == 0
    assert "all voxels" in capsys.readouterr().out
    assert Path("stack.png").read_bytes()[:4] == b"\x89PNG"
    assert cli.run(["report", "runs/stack"]) == 0
    assert "better than trivial" in Path("runs/stack/report.html").read_text("utf-8")
    line = ["segment", "stack.toml", "--out", "pieces", "--set", "segment.subvolume=[32,32,32]"]
    assert cli.run([*line, "--estimate"]) == 0
    assert cli.run(line) == 0
    assert cli.run(["reconcile", "pieces", "whole.zarr"]) == 0
    assert Volume("whole.zarr").shape == SHAPE  # not only the held-out box
    assert cli.run(["segment", image, "--model", "runs/stack", "--out", "w.tif"]) == 2
    assert "states no voxel size" in capsys.readouterr().err
    line = ["segment", image, "--model", "runs/stack", "--voxel-nm", "20,20,20"]
    assert cli.run([*line, "--out", "w.tif", "--box", "0:16,0:32,0:32"]) == 0
    assert Volume("w.tif").geometry.voxel_size_nm == (20.0, 20.0, 20.0)
    monkeypatch.setitem(sys.modules, "waterz", None)
    text = refused("segment", "stack.toml", "--out", "a.h5:b", capsys=capsys)
    assert "in floodtide's source tree: pip install '.[affinities]'" in text


def test_three_parts_where_the_labels_allow_it(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, whole = str(stack / "stack.tif"), tifffile.imread(stack / "labels.tif")

    def parts(labels: Any, task: str) -> tuple[list[Any], str]:
        tifffile.imwrite(tmp_path / "l.tif", labels)
        line = [image, "--labels", f"{tmp_path}/l.tif", "--voxel-nm", "20,20,20", "--task", task]
        found = planned(*line, "--out", f"{tmp_path}/p.toml", capsys=capsys)["config"]
        held = found["validation"]
        boxes = found["data"]["volumes"][0]["box"], held["box"], held.get("test_box", "")
        text = " ".join((tmp_path / "p.toml").read_text().replace("# ", "").split())
        return [parse_box(box) for box in boxes], text

    for task in ("affinities", "lsd"):
        (training, choice, test), text = parts(whole, task)
        assert None not in (training, choice, test)
        for a, b in ((training, choice), (training, test), (choice, test)):
            assert intersection(a, b) is None
        for _, box in (training, choice, test):
            assert min(box) > 8
        assert "Held out for an honest score: neither learnt from nor chosen on" in text
    (_, _, test), text = parts(whole, "distance")
    assert test is None  # nothing is chosen
    few = np.where(whole > 0, whole % 2 + 1, 0).astype(np.int32)
    (_, choice, test), text = parts(few, "affinities")
    assert choice is not None
    assert test is None
    assert "too few for a third part" in text
    assert "its score is optimistic" in text


def test_small_voxels_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def coarser(shape: tuple[int, int, int], *size: float) -> tuple[float, float, float]:
        return unets.coarser(shape, shape, (size[0], size[-1], size[-1]))

    assert coarser((250, 250, 250), 8.0) == (16.0, 16.0, 16.0)
    assert coarser((190, 250, 250), 8.0) == (8.0, 8.0, 8.0)
    assert coarser((50, 400, 400), 40.0, 4.0) == (40.0, 16.0, 16.0)
    assert coarser((50, 400, 150), 40.0, 4.0) == (40.0, 4.0, 4.0)
    assert coarser((99, 99, 99), 20.0) == (20.0, 20.0, 20.0)
    assert unets.coarser((250, 250, 250), (3, 250, 250), (8.0, 8.0, 8.0)) == (8.0, 8.0, 8.0)
    monkeypatch.setattr(unets, "_LEFT", 32)
    monkeypatch.chdir(tmp_path)
    image, labels = data.synth((64, 64, 96), seed=5)
    data.write_volume("v.h5", {"raw": image, "labels": labels.astype(np.int32)})
    line = ["v.h5:raw", "--labels", "v.h5:labels", "--voxel-nm", "8,8,8"]
    found = planned(*line, capsys=capsys)
    volume = found["config"]["data"]["volumes"][0]
    assert volume["voxel_size_nm"] == [16, 16, 16]
    assert Volume(volume["image"]).shape == (32, 32, 48)
    short = ["--set", "training.steps=2", "--set", "schedule.warmup_steps=1"]
    assert cli.run(["train", "v.toml", *short]) == 0
    assert cli.run(["segment", "v.toml", "--out", "held_out.h5:s"]) == 0
    assert cli.run(["segment", "v.toml", "--out", "part.h5:s", "--box", "3:9,0:7,1:12"]) == 0
    held_out = found["config"]["validation"]
    box = parse_box(held_out["test_box"] or held_out["box"])
    assert box is not None
    line = ["agglomerate", "held_out.predicted.h5:predicted", "held_out.coarse.h5:segments"]
    assert cli.run(line) == 0
    coarse = Volume(line[-1]).read()
    fine = Volume("held_out.h5:s")  # at the voxels of the image
    assert fine.geometry.voxel_size_nm == (8.0, 8.0, 8.0)
    assert fine.geometry.offset == tuple(2 * a for a in box[0])
    np.testing.assert_array_equal(fine.read(), coarse.repeat(2, 0).repeat(2, 1).repeat(2, 2))
    part = Volume("part.h5:s")
    assert (part.geometry.offset, part.shape) == ((3, 0, 1), (6, 7, 11))
    assert cli.run(["evaluate", "held_out.h5:s", "v.h5:labels"]) == 0


def test_objects_may_touch_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scipy import ndimage

    image, labels = data.synth(SHAPE, seed=3)
    nearest = ndimage.distance_transform_edt(
        labels == 0, return_distances=False, return_indices=True
    )
    grown = labels[tuple(nearest)].astype(np.int32)
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": grown})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels"]
    found = planned(*line, "--voxel-nm", "20,20,20", "--out", f"{tmp_path}/v.toml", capsys=capsys)
    assert not found["config"]["task"]["zero_is_boundary"]


def test_the_kind_of_network(
    stack: Path, tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Objects are learnt by affinities, however long the training; flood filling has to be asked for."""
    line = [
        str(stack / "stack.tif"),
        "--labels",
        str(stack / "labels.tif"),
        "--voxel-nm",
        "20,20,20",
    ]
    line += ["--out", f"{tmp_path}/v.toml"]
    kinds = [
        planned(*line, *more, capsys=capsys)["config"]["model"].get("kind")
        for more in (("--minutes", "5000"), ("--task", "flood", "--replace"))
    ]
    assert kinds == ["unet", None]
    more = ["--replace", "--from", network, "--task", "affinities"]
    text = refused("init", *line, *more, capsys=capsys)
    assert "only flood-filling networks are trained further" in text


def test_partitions_of_the_training_are_those_of_the_command(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bit for bit the same training, whoever makes the partitions."""
    monkeypatch.chdir(tmp_path)
    labels = str(stack / "labels.tif")
    planned(
        str(stack / "stack.tif"),
        "--labels",
        labels,
        "--voxel-nm",
        "8,8,8",
        "--task",
        "flood",
        "--out",
        "p.toml",
        capsys=capsys,
    )
    settings = config.load("p.toml")
    least = settings.data.min_object_size
    fov = settings.model.fov  # type: ignore[union-attr]
    radius = ",".join(str(f // 2 + d) for f, d in zip(fov, settings.model.deltas, strict=True))  # type: ignore[union-attr]
    line = ["partition", labels, "af.h5:af", "--lom-radius", radius, "--min-size", str(least)]
    assert cli.run(line) == 0
    short = ["--set", "training.steps=2", "--set", "validation.box=", "--set", "run.threads=1"]
    short += ["--set", "schedule.warmup_steps=0"]
    for name, more in (("own", []), ("named", ["--set", "data.volumes.0.partitions=af.h5:af"])):
        assert cli.run(["train", "p.toml", *short, *more, "--set", f"run.dir={name}"]) == 0
    own, named = (
        nn.load(f"{name}/checkpoints/step-2.h5").parameters() for name in ("own", "named")
    )
    for name, values in own.items():
        np.testing.assert_array_equal(values, named[name], err_msg=name)
    made = next(Path("own").glob("partitions-*.h5"))
    np.testing.assert_array_equal(Volume(made, "partitions").read(), Volume("af.h5", "af").read())


def test_flood_filling_learns_a_membrane_where_labels_touch(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = tifffile.imread(stack / "labels.tif")
    nearest = ndimage.distance_transform_edt(
        labels == 0, return_distances=False, return_indices=True
    )
    touching = labels[tuple(nearest)]
    tifffile.imwrite("touching.tif", touching)
    for name, array in (("fine", tifffile.imread(stack / "stack.tif")), ("pairs", touching)):
        tifffile.imwrite(f"{name}.tif", array.repeat(3, axis=1).repeat(3, axis=2))
    whole, apart = str(stack / "stack.tif"), str(stack / "labels.tif")
    plans = {
        name: planned(
            *[image, "--labels", objects, "--voxel-nm", size, "--task", "flood"],
            *["--out", f"{name}.toml"],
            capsys=capsys,
        )
        for name, image, objects, size in (
            ("apart", whole, apart, "20,20,20"),
            ("same", whole, "touching.tif", "20,20,20"),
            ("coarse", "fine.tif", "pairs.tif", "20,10,10"),
        )
    }
    volumes = {name: plan["config"]["data"]["volumes"][0] for name, plan in plans.items()}
    assert volumes["apart"]["labels"] == apart
    assert "grow" not in plans["apart"]["config"]["segment"]
    for name in ("same", "coarse"):
        assert plans[name]["config"]["segment"]["grow"] == 3
        assert any(
            "needs about 150,000 before its segments" in note for note in plans[name]["notes"]
        )
        require_reasons(Path(f"{name}.toml"))
    assert volumes["same"]["image"] == whole
    assert volumes["same"]["labels"] == "same-labels.h5:labels"
    eroded = Volume("same-labels.h5", "labels").read()
    assert 0 < np.count_nonzero(eroded) < np.count_nonzero(touching)
    np.testing.assert_array_equal(eroded[eroded > 0], touching[eroded > 0])
    assert volumes["coarse"]["voxel_size_nm"] == [20.0, 20.0, 20.0]
    assert not (Volume("coarse-20x20x20nm.h5", "labels").read() > 0).all()


def test_thick_sections(stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [str(stack / "stack.tif"), "--labels", str(stack / "labels.tif"), "--voxel-nm", "40,4,4"]
    out = ["--out", f"{tmp_path}/thick.toml"]
    found = planned(*line, *out, "--task", "flood", capsys=capsys)
    assert found["config"]["model"]["fov"] == [5, 17, 17]
    assert found["config"]["augmentation"]["permutable_axes"] == [1, 2]
    assert any(
        "the voxel size or the order of the axes" in note for note in found["notes"]
    )  # the cells are round
    found = planned(*line, *out, capsys=capsys)
    assert found["config"]["augmentation"]["permutable_axes"] == [1, 2]
    model = found["config"]["model"]
    assert model["kernels"] == [[1, 3, 3]] * 3 + [[3, 3, 3]]
    assert model["pools"] == [[1, 2, 2]]
    assert found["config"]["task"]["offsets"][3:] == [
        [-2, 0, 0],
        [0, -3, 0],
        [0, 0, -3],
        [0, -8, 0],
        [0, 0, -8],
    ]


def test_a_voxel_size_that_the_image_states_needs_no_option(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for name, source in (("raw", "stack"), ("label", "labels")):
            dataset = file.create_dataset(name, data=tifffile.imread(stack / f"{source}.tif"))
            dataset.attrs["element_size_um"] = (0.235, 0.15, 0.15)
    line = [
        f"{tmp_path}/v.h5:raw",
        "--labels",
        f"{tmp_path}/v.h5:label",
        "--out",
        f"{tmp_path}/v.toml",
    ]
    found = planned(*line, capsys=capsys)
    assert found["config"]["data"]["volumes"][0]["voxel_size_nm"] == [235, 150, 150]
    text = " ".join((tmp_path / "v.toml").read_text().replace("\n# ", " ").split())
    assert "(as stored); voxels of 235 x 150 x 150 nm (attribute element_size_um)." in text
    planned(*line, "--voxel-nm", "200,150,150", capsys=capsys)
    assert "200 x 150 x 150 nm (--voxel-nm)" in (tmp_path / "v.toml").read_text()


def test_a_network_for_other_voxels(
    stack: Path, tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [str(stack / "stack.tif"), "--labels", str(stack / "labels.tif"), "--from", network]
    found = planned(*line, "--voxel-nm", "4,8,8", "--out", f"{tmp_path}/a.toml", capsys=capsys)
    volume = found["config"]["data"]["volumes"][0]
    assert volume["voxel_size_nm"] == [8, 8, 8]
    image, labels = Volume(volume["image"]), Volume(volume["labels"])
    assert image.shape == labels.shape == (20, 64, 100)
    stored = Volume(str(stack / "stack.tif")).read()
    np.testing.assert_allclose(image.read(), stored.reshape(20, 2, 64, 100).mean(1), atol=0.6)
    assert found["config"]["model"]["depth"] == 2
    assert found["config"]["optimizer"]["name"] == "sgd"
    same = planned(*line, "--voxel-nm", "8,8,8.5", "--out", f"{tmp_path}/b.toml", capsys=capsys)
    assert same["config"]["data"]["volumes"][0]["image"] == line[0]  # near enough


def test_a_checkpoint_without_statistics_is_noted(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bright_network.save(tmp_path / "bright.h5")
    line = [str(stack / "stack.tif"), "--labels", str(stack / "labels.tif"), "--voxel-nm", "8,8,8"]
    bare = planned(
        *line, "--from", f"{tmp_path}/bright.h5", "--out", f"{tmp_path}/a.toml", capsys=capsys
    )
    assert any("does not keep what its training images looked like" in n for n in bare["notes"])
    fresh = planned(*line, "--out", f"{tmp_path}/b.toml", capsys=capsys)
    assert not any("does not keep" in n for n in fresh["notes"])


def test_wrong_input_is_one_line(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, labels = str(stack / "stack.tif"), str(stack / "labels.tif")
    out = ["--out", f"{tmp_path}/x.toml"]
    size = ["--voxel-nm", "8,8,8"]
    text = refused("init", image, "--labels", labels, *out, capsys=capsys)
    assert "expected --voxel-nm z,y,x" in text
    micrometres = ["--voxel-nm", "0.008,0.008,0.008"]
    text = refused("init", image, "--labels", labels, *micrometres, *out, capsys=capsys)
    assert "nm" in text
    text = refused("init", labels, "--labels", image, *size, *out, capsys=capsys)
    assert "as labels do" in text
    tifffile.imwrite(tmp_path / "floats.tif", np.full(SHAPE, 0.5, np.float32))
    text = refused("init", image, "--labels", f"{tmp_path}/floats.tif", *size, *out, capsys=capsys)
    assert "expected whole numbers" in text
    tifffile.imwrite(tmp_path / "cut.tif", np.ones((40, 64, 99), np.int32))
    text = refused("init", image, "--labels", f"{tmp_path}/cut.tif", *size, *out, capsys=capsys)
    assert "(40, 64, 99)" in text
    tifffile.imwrite(tmp_path / "turned.tif", np.ones(SHAPE[::-1], np.int32))
    text = refused("init", image, "--labels", f"{tmp_path}/turned.tif", *size, *out, capsys=capsys)
    assert "store labels.transpose(2, " in text
    tifffile.imwrite(tmp_path / "none.tif", np.zeros(SHAPE, np.int32))
    text = refused("init", image, "--labels", f"{tmp_path}/none.tif", *size, *out, capsys=capsys)
    assert "no voxel is labelled, expected labels" in text
    tifffile.imwrite(tmp_path / "colour.tif", np.zeros((9, 20, 20, 3), np.uint8), photometric="rgb")
    text = refused("init", f"{tmp_path}/colour.tif", "--labels", labels, *size, *out, capsys=capsys)
    assert "one channel" in text
    assert not (tmp_path / "x.toml").exists()


def test_transposed_labels_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, labels = data.synth((40, 96, 96), seed=5)
    turned = np.ascontiguousarray(labels.transpose(0, 2, 1)).astype(np.int32)
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": turned})
    line = [
        "init",
        f"{tmp_path}/v.h5:raw",
        "--labels",
        f"{tmp_path}/v.h5:labels",
        "--voxel-nm",
        "8,8,8",
    ]
    text = refused(*line, "--out", f"{tmp_path}/x.toml", capsys=capsys)
    assert "labels.transpose(0, 2, 1)" in text


def test_bad_sections_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, labels = data.synth((64, 64, 64), seed=5)
    clean = image.astype(np.float64)
    image[12], image[30] = 0, 255
    data.write_volume(tmp_path / "v.h5", {"raw": image, "labels": labels.astype(np.int32)})
    line = [f"{tmp_path}/v.h5:raw", "--labels", f"{tmp_path}/v.h5:labels", "--voxel-nm", "8,8,8"]
    found = planned(*line, "--out", f"{tmp_path}/x.toml", capsys=capsys)
    note = next(note for note in found["notes"] if "bad sections" in note)
    assert "12 (" in note
    assert "30 (" in note
    volume = found["config"]["data"]["volumes"][0]
    assert volume["mean"] == pytest.approx(clean.mean(), rel=0.05)
    assert volume["std"] == pytest.approx(clean.std(), rel=0.05)


def test_levels_are_compared() -> None:
    network: Any = SimpleNamespace(name="network", levels=(128.0, 33.0))
    for mean, std, expected in ((130, 35, (128, 33)), (148, 55, (148, 55)), (0.5, 0.2, (0.5, 0.2))):
        seen: Any = SimpleNamespace(proposed_mean=mean, proposed_std=std, left_out="")
        assert levels_for(seen, network, "the image")[:2] == expected


def test_a_run_is_a_known_network(
    stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = [
        "init",
        str(stack / "stack.tif"),
        "--labels",
        str(stack / "labels.tif"),
        "--voxel-nm",
        "8,8,8",
        "--task",
        "flood",
    ]
    assert cli.run([*line, "--out", "r.toml"]) == 0
    short = ["--set", "training.steps=1", "--set", "validation.box="]
    short += ["--set", "schedule.warmup_steps=0"]
    assert cli.run(["train", "r.toml", *short]) == 0
    found = known_network("runs/r")
    settings = config.load("r.toml")
    assert found.voxel_size_nm == (8.0, 8.0, 8.0)
    assert found.levels == (settings.data.volumes[0].mean, settings.data.volumes[0].std)
    assert [image.voxel_size_nm for image in found.images] == 2 * [(8.0, 8.0, 8.0)]  # whole and box
