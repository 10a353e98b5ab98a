# SPDX-License-Identifier: Apache-2.0
"""What does not fit into memory, or what the system does not give, is refused with one line by the real program."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from flat_unet import flat_unet
from training_volume import document, write_volume

import floodtide as ft
from floodtide import _core, config
from floodtide.errors import InvalidArgumentError
from floodtide.train import setup
from floodtide.train.learners import learner_of

ADDRESS_SPACE = 3 << 30


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resources")
    write_volume(folder)
    path = folder / "a.toml"
    path.write_text(tomli_w.dumps(document(folder, training={"steps": 1})))
    return path


@pytest.mark.parametrize(
    ("overrides", "status", "words"),
    [
        (["data.prefetch=4611686018427387904"], 2, "data.prefetch is 4611686018427387904"),
        (["model.features=4294967300"], 2, "model.features is 4294967300, expected 1 to 4096"),
        (["validation.centres=999999999"], 2, "the voxels of partition classes 1 to 13"),
        (["model.depth=1000", "model.features=4096"], 2, "on this host need about"),
        (["data.prefetch=1024", "training.walkers=20000"], 2, "on this host need about"),
        (["run.threads=4000"], 2, "threads: 4000 given, the system refuses more than"),
        (["data.readers=1024"], 1, "the system refuses: Resource temporarily unavailable"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_hostile_numbers_end_with_one_line(
    file: Path, overrides: list[str], status: int, words: str
) -> None:
    arguments = [word for text in overrides for word in ("--set", text)]
    done = subprocess.run(
        [sys.executable, "-m", "floodtide", "train", str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)),
    )
    lines = done.stderr.splitlines()
    assert done.returncode == status, done.stderr
    assert len(lines) == 1, done.stderr
    assert words in lines[0]


def test_parameters_are_counted_without_making_them() -> None:
    for task, model in (
        ({"kind": "flood"}, {"kind": "ffn", "depth": 3, "features": 5}),
        (
            {"kind": "classes", "classes": {str(i): f"class {i}" for i in range(4)}},
            {"kind": "unet", "depth": 3, "batch_norm": False, "kernels": [[1, 3, 3]]},
        ),
        ({"kind": "classes"}, {"kind": "unet", "depth": 2, "features": 32}),
        (
            {"kind": "lsd"},
            {"kind": "unet", "depth": 3, "kernels": [[1, 3, 3], [3, 3, 3], [1, 1, 1]]},
        ),
        ({"kind": "distance"}, {"kind": "unet", "pools": [[1, 2, 2]]}),
    ):
        channels = () if task["kind"] == "flood" else ({"image": "a.h5:b"},)
        data = {"volumes": [{"image": "a.h5:a", "channels": channels}]} if channels else {}
        settings = config.from_dict({"task": task, "model": model, "data": data})
        network = learner_of(settings.model).new_model(settings)
        assert setup.parameter_count(settings) == network.core.parameters().size


def test_a_training_is_compared_with_what_each_rank_of_the_host_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = config.from_dict({"training": {"walkers": 4}})
    needed = setup.training_bytes(settings, 2, _core.num_threads())
    monkeypatch.setattr(_core, "available_bytes", lambda: needed)
    setup.require_enough_memory(settings, 2)
    monkeypatch.setattr(setup.world, "places", lambda: (0, 2, 0, 1))
    with pytest.raises(InvalidArgumentError, match="2 ranks on this host need about"):
        setup.require_enough_memory(settings, 2)
    monkeypatch.setattr(_core, "available_bytes", lambda: None)
    setup.require_enough_memory(settings, 2)


def test_a_box_that_cannot_fit_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_core, "available_bytes", lambda: 1000)
    segmenter = ft.segment.Segmenter(
        ft.nn.FFN(depth=1, features=1, fov=(3, 3, 3), deltas=(1, 1, 1)),
        ft.segment.SegmentOptions(mean=0.0, std=1.0),
    )
    with pytest.raises(InvalidArgumentError, match=r"9 x 9 x 9 voxels need about 14\.2 KiB"):
        segmenter.segment(np.zeros((9, 9, 9), np.uint8))


def test_blocks_of_a_prediction_that_cannot_fit_are_refused_before_one_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_core, "available_bytes", lambda: 1000)
    predictor = ft.segment.Predictor(flat_unet(1), mean=0.0, std=1.0)
    with pytest.raises(InvalidArgumentError, match=r"a block of .* needs about .* are available"):
        predictor.probabilities(np.zeros((1, 16, 16), np.uint8))
