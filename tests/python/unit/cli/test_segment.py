# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment`: a run end to end, and one line with exit status 2 for wrong input."""

from __future__ import annotations

import json
import sys

import h5py
import numpy as np
import pytest
import tomli_w
import training_volume
from flat_unet import flat_unet
from fuzz.tensorflow_files import write_bundle

from floodtide import cli, config, data, nn
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.train import Trainer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MODEL = nn.FFN(depth=2, fov=(7, 9, 7), deltas=(3, 4, 3), features=4, seed=1)


@pytest.fixture
def folder(tmp_path):
    """A small volume and a configuration whose checkpoint is MODEL."""
    MODEL.save(tmp_path / "model.h5")
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 255, (20, 24, 22)).astype(np.uint8)
    data.write_volume(tmp_path / "image.h5", {"raw": raw, "flat": raw.astype(np.float32)})
    document = {
        "data": {
            "volumes": [
                {"name": "sample", "image": f"{tmp_path}/image.h5:raw", "mean": 120.0, "std": 40.0}
            ]
        },
        "segment": {
            "checkpoint": f"{tmp_path}/model.h5",
            "image": "sample",
            "min_segment_size": 1,
            "move_threshold": 0.6,
            "disco_seed_threshold": -1.0,
        },
    }
    (tmp_path / "config.toml").write_text(tomli_w.dumps(document))
    return tmp_path


def run(folder, *arguments):
    out = f"{folder}/out.h5:ids"
    return cli.run(["segment", f"{folder}/config.toml", "--out", out, *arguments])


def overrides(*settings):
    return [word for setting in settings for word in ("--set", setting)]


def without(folder, *keys):
    """Remove keys from [segment]; "volumes" removes the [[data.volumes]]."""
    path = folder / "config.toml"
    document = tomllib.loads(path.read_text())
    for key in keys:
        del document["data" if key == "volumes" else "segment"][key]
    path.write_text(tomli_w.dumps(document))


def save_run(folder, volumes):
    """Make a run directory whose newest checkpoint is MODEL, trained on `volumes`: name -> (mean, std)."""
    checkpoints = folder / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    tables = [
        {"name": name, "image": f"{folder}/image.h5:{name}", "mean": mean, "std": std}
        for name, (mean, std) in volumes.items()
    ]
    other = nn.FFN(depth=1, fov=(5, 5, 5), deltas=(1, 1, 1), features=4)
    for network, step in ((other, 9), (MODEL, 10)):
        network.save(checkpoints / f"step-{step}.h5")
        with h5py.File(checkpoints / f"step-{step}.h5", "r+") as file:
            file.attrs["configuration"] = tomli_w.dumps({"data": {"volumes": tables}})


def of_run(folder, image="raw"):
    return overrides(f"segment.checkpoint={folder}/run", f"segment.image={folder}/image.h5:{image}")


def report_of(folder, capsys, *arguments):
    assert run(folder, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def refusal(folder, capsys, *arguments):
    assert run(folder, *arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert not list(folder.glob("out.h5*"))
    return lines[0]


def test_a_box_of_a_named_volume_is_segmented(folder, capsys):
    assert run(folder, "--box", "1:20,2:24,3:22", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    options = SegmentOptions(
        mean=120.0, std=40.0, min_segment_size=1, move_threshold=0.6, disco_seed_threshold=-1.0
    )
    volume = data.Volume(folder / "image.h5", "raw")
    expected = Segmenter(MODEL, options).segment(volume, ((1, 2, 3), (19, 22, 19)))
    assert report["network_calls"] == expected.counters["inference-calls"] > 0
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["ids"][:], expected.segmentation)
        assert tuple(file["ids"].attrs["box_start"]) == (1, 2, 3)
        assert file["ids"].attrs["image"] == f"{folder}/image.h5:raw"
        assert json.loads(file["ids"].attrs["options"])["mean"] == 120.0


def test_a_segmentation_without_a_segment_says_what_to_lower(folder, capsys):
    assert run(folder, *overrides("segment.move_threshold=0.99")) == 0
    said = capsys.readouterr().err
    assert (
        f"{folder}/out.h5:ids: no segment was found; expected a lower segment.move_threshold"
        in said
    )
    assert "(now 0.99," in said
    assert run(folder) == 0
    assert "no segment" not in capsys.readouterr().err


def test_files_may_be_named_directly_and_the_report_has_a_line_a_value(folder, capsys):
    settings = [f"segment.image={folder}/image.h5:flat", "segment.mean=128", "segment.std=33"]
    assert run(folder, *overrides(*settings, "run.threads=1")) == 0
    text = capsys.readouterr().out
    assert "\nnetwork calls: " in text
    assert "\nout: " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--box", "0:6,0:24,0:22"], "larger than the volume"),
        (["--box", "0:21,0:24,0:22"], "not inside"),
        (["--box", "nonsense"], "expected z0:z1"),
        (["--set", "segment.image=other.h5:raw"], "other.h5"),
        (["--set", "segment.image=sampel"], "'sampel': expected file:dataset"),
        (
            ["--set", "segment.checkpoint=other.h5"],
            "other.h5 is neither a checkpoint nor a run directory",
        ),
        (["--set", "segment.checkpoint="], "segment.checkpoint is missing"),
        (
            ["--set", "segment.seed_policy=spiral"],
            "expected 'peaks', 'peaks2d', 'grid', 'grid2d', 'max', 'max_peaks', 'dense', 'image_peaks',"
            " 'disk_peaks', 'fill_empty' or 'listed'",
        ),
        (["--set", "segment.grid_step=8"], "unknown key 'segment.grid_step'"),
        (
            ["--set", "segment.seed_policy=grid", "--set", "segment.grid_step=0"],
            "segment.grid_step is 0, expected 1 to 4096 (voxels)",
        ),
        (["--set", "segment.move_treshold=0.8"], "segment.move_threshold"),
        (["--set", "segment.move_threshold=1.5"], "is 1.5, expected above 0 and below 1"),
        (["--out", "out.h5"], "out.h5"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(folder, capsys, arguments, message):
    assert run(folder, *arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("floodtide segment: ")
    assert message in lines[0]
    assert not list(folder.glob("out.h5*"))


def test_a_run_directory_gives_network_and_normalisation(folder, capsys):
    save_run(folder, {"raw": (110.0, 50.0)})
    report = report_of(folder, capsys, *of_run(folder))
    assert report["checkpoint"] == f"{folder}/run/checkpoints/step-10.h5"
    assert (report["mean"], report["std"]) == (110.0, 50.0)
    options = SegmentOptions(
        mean=110.0, std=50.0, min_segment_size=1, move_threshold=0.6, disco_seed_threshold=-1.0
    )
    expected = Segmenter(MODEL, options).segment(data.Volume(folder / "image.h5", "raw"))
    assert expected.origins
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["ids"][:], expected.segmentation)
        assert file["ids"].attrs["checkpoint"] == report["checkpoint"]


def test_a_trained_run_is_segmented_by_its_directory_and_image_alone(tmp_path, capsys):
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 2}, validation={"every": 0})
    document["data"]["volumes"][0] |= {"mean": 100.0, "std": 44.0}
    Trainer.from_config(config.from_dict(document)).run()
    section = {"checkpoint": f"{tmp_path}/run", "image": f"{tmp_path}/volume.h5:raw"}
    (tmp_path / "config.toml").write_text(tomli_w.dumps({"segment": section}))
    report = report_of(tmp_path, capsys, "--box", "0:12,0:12,0:12")
    assert report["checkpoint"].endswith("/run/checkpoints/step-2.h5")
    assert (report["mean"], report["std"]) == (100.0, 44.0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["segment.image=sample"], (120.0, 40.0)),
        (["segment.image=sample", "segment.mean=100", "segment.std=35"], (100.0, 35.0)),
        (["segment.mean=100"], (100.0, 50.0)),
        (["segment.std=35"], (110.0, 35.0)),
    ],
)
def test_what_the_file_says_wins_over_the_run(folder, capsys, settings, expected):
    save_run(folder, {"raw": (110.0, 50.0)})
    report = report_of(folder, capsys, *of_run(folder), *overrides(*settings))
    assert (report["mean"], report["std"]) == expected


def test_of_several_volumes_of_a_run_the_one_with_the_image_counts(folder, capsys):
    save_run(folder, {"raw": (110.0, 50.0), "other": (90.0, 50.0)})
    report = report_of(folder, capsys, *of_run(folder))
    assert (report["mean"], report["std"]) == (110.0, 50.0)


def test_volumes_of_different_normalisation_are_no_answer_for_another_image(folder, capsys):
    save_run(folder, {"raw": (110.0, 50.0), "other": (90.0, 50.0)})
    line = refusal(folder, capsys, *of_run(folder, "flat"))
    assert "config.toml: segment.mean and segment.std are missing, expected the mean" in line
    assert line.endswith(
        f"{folder}/run/checkpoints/step-10.h5 does not store how {folder}/image.h5:flat is normalised"
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ([], "segment.mean and segment.std are missing"),
        (["segment.mean=128"], "segment.std is missing"),
        (["segment.std=33"], "segment.mean is missing"),
    ],
)
@pytest.mark.parametrize("checkpoint", ["model.h5", "model.ckpt-1", "model.ckpt-1.index"])
def test_a_network_without_a_run_needs_its_normalisation(
    folder, capsys, checkpoint, given, missing
):
    write_bundle(folder / "model.ckpt-1", dict(MODEL.state_dict()))
    settings = [f"segment.checkpoint={folder}/{checkpoint}", f"segment.image={folder}/image.h5:raw"]
    line = refusal(folder, capsys, *overrides(*settings, *given))
    assert f"config.toml: {missing}, expected the" in line
    assert f"{checkpoint} does not store how" in line


def test_a_tensorflow_checkpoint_is_segmented_with_what_the_file_says(folder, capsys):
    write_bundle(folder / "model.ckpt-1", dict(MODEL.state_dict()))
    settings = [f"segment.checkpoint={folder}/model.ckpt-1", "segment.fov=[7,9,7]"]
    report = report_of(folder, capsys, *overrides(*settings, "segment.deltas=[3,4,3]"))
    assert report["checkpoint"] == f"{folder}/model.ckpt-1"
    assert (report["mean"], report["std"]) == (120.0, 40.0)
    ours = report_of(folder, capsys)
    assert report["network_calls"] == ours["network_calls"] > 0


def test_the_only_volume_of_the_file_is_segmented(folder, capsys):
    without(folder, "image")
    report = report_of(folder, capsys)
    assert (report["mean"], report["std"]) == (120.0, 40.0)
    with h5py.File(folder / "out.h5") as file:
        assert file["ids"].attrs["image"] == f"{folder}/image.h5:raw"


def test_of_several_volumes_the_image_must_name_one(folder, capsys):
    path = folder / "config.toml"
    document = tomllib.loads(path.read_text())
    document["data"]["volumes"].append({"name": "second", "image": f"{folder}/image.h5:flat"})
    path.write_text(tomli_w.dumps(document))
    without(folder, "image")
    line = refusal(folder, capsys)
    assert line.endswith(
        "segment.image is missing, expected file:dataset or the name of one of the [[data.volumes]]"
    )


@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        (["checkpoint", "image", "volumes"], "segment.checkpoint is missing"),
        (["image", "volumes"], "segment.image is missing"),
    ],
)
def test_the_first_missing_key_is_named(folder, capsys, removed, missing):
    without(folder, *removed)
    line = refusal(folder, capsys)
    assert f"config.toml: {missing}, expected " in line


def test_a_run_without_checkpoints_and_a_u_net_are_refused(folder, capsys):
    (folder / "empty").mkdir()
    line = refusal(folder, capsys, "--set", f"segment.checkpoint={folder}/empty")
    assert "nor a run directory with one in checkpoints/" in line
    flat_unet(1).save(folder / "unet.h5")
    line = refusal(folder, capsys, "--set", f"segment.checkpoint={folder}/unet.h5")
    assert "expected a flood-filling network" in line
