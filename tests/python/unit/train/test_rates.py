# SPDX-License-Identifier: Apache-2.0
"""Learning rates, optimizers and clipping in a training: resuming, the gradient noise scale, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_volume

from floodtide import _core, config
from floodtide.errors import ConfigurationError, Error, InvalidArgumentError, UnsupportedError
from floodtide.optim import lr
from floodtide.train import Trainer, read_log

WALKERS = 4
AUTO: dict[str, Any] = {
    "schedule": {"scale": "auto", "warmup_steps": 3},
    "comm": {"exactness": "workers"},
    "optimizer": {"name": "momentum", "lr": 0.01},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rates")
    training_volume.write_volume(path)
    return path


def train(folder: Path, directory: Path, stops: tuple[int, ...] = (), **sections: Any) -> Trainer:
    """Train 40 steps, with a new trainer after each of `stops`."""
    for steps in (*stops, 40):
        document = training_volume.document(
            folder,
            run={"dir": str(directory), "log_every_s": 0.0, "threads": 1},
            training={"steps": 40, "walkers": WALKERS} | sections.get("training", {}),
            **{name: value for name, value in sections.items() if name != "training"},
        )
        trainer = Trainer.from_config(config.from_dict(document))
        while trainer.steps_done < steps:
            trainer.step()
        trainer.save()
        trainer.close()
    return trainer


def parameters(trainer: Trainer) -> dict[str, Any]:
    return trainer.model.state_dict()


@pytest.mark.parametrize("row", _core.optimizer_rows(), ids=lambda row: row["name"])
def test_every_optimizer_trains_and_resumes_bit_for_bit(
    folder: Path, tmp_path: Path, row: dict[str, Any]
) -> None:
    section = {"optimizer": {"name": row["name"], "lr": 1e-3}}
    whole = parameters(train(folder, tmp_path / "whole", **section))
    parts = parameters(train(folder, tmp_path / "parts", (13,), **section))
    for name, values in whole.items():
        np.testing.assert_array_equal(parts[name], values)
        assert np.isfinite(values).all()


@pytest.mark.parametrize("row", _core.schedule_rows(), ids=lambda row: row["name"])
def test_a_resumed_schedule_has_the_rates_of_the_uninterrupted_one(
    folder: Path, tmp_path: Path, row: dict[str, Any]
) -> None:
    section = {"schedule": {"name": row["name"], "scale": "sqrt"}}
    train(folder, tmp_path / "run", (13, 27), **section)
    schedule = lr.Schedule(row["name"], scale="sqrt").for_training(1e-3, 40)
    rates = [
        record for record in read_log(tmp_path / "run" / "log.jsonl") if record["kind"] == "train"
    ]
    assert [record["step"] for record in rates] == list(range(1, 41))
    for record in rates:
        assert record["lr"] == schedule(record["step"] - 1, workers=WALKERS)


def test_the_noise_scale_is_measured_logged_and_resumed(folder: Path, tmp_path: Path) -> None:
    whole = train(folder, tmp_path / "whole", **AUTO)
    parts = train(folder, tmp_path / "parts", (13, 31), **AUTO)
    for name, values in parameters(whole).items():
        np.testing.assert_array_equal(parameters(parts)[name], values)
    records = [r for r in read_log(tmp_path / "whole" / "log.jsonl") if r["kind"] == "train"]
    measured = [record for record in records if "noise_scale" in record]
    assert measured
    assert all(record["step"] >= 20 for record in measured)
    for record in measured:
        high = record["noise_scale_high"]
        assert record["noise_scale_low"] <= record["noise_scale"]
        assert high is None or high >= record["noise_scale"]
    # The rate of a step comes from the noise scale before it.
    before, after = measured[-2:]
    factor = lr.scale("auto")(WALKERS, noise_scale=before["noise_scale"])
    assert after["lr"] == pytest.approx(0.01 * factor, rel=1e-12)
    assert records[10]["lr"] == 0.01


def test_measuring_does_not_change_the_training(folder: Path, tmp_path: Path) -> None:
    section = {"comm": {"exactness": "workers"}}
    without = parameters(train(folder, tmp_path / "without", **section))
    measured = parameters(
        train(folder, tmp_path / "with", training={"noise_scale": True}, **section)
    )
    for name, values in without.items():
        np.testing.assert_array_equal(measured[name], values)


def test_the_gradient_norm_is_limited(folder: Path, tmp_path: Path) -> None:
    sgd = {"optimizer": {"name": "sgd", "lr": 1.0}}
    first = Trainer.from_config(config.from_dict(_document(folder, tmp_path / "none")))
    start = parameters(first)
    first.close()
    limited = train(folder, tmp_path / "norm", training={"clip_norm": 1e-4}, **sgd)
    moved = np.sqrt(sum(((parameters(limited)[name] - start[name]) ** 2).sum() for name in start))
    assert 1e-4 < moved <= 40 * 1e-4 * 1.001
    norms = [
        r["gradient_norm"]
        for r in read_log(tmp_path / "norm" / "log.jsonl")
        if r["kind"] == "train"
    ]
    assert min(norms) > 1e-4


def _document(folder: Path, directory: Path, **sections: Any) -> dict[str, Any]:
    return training_volume.document(
        folder, run={"dir": str(directory)}, training={"steps": 4, "walkers": 2}, **sections
    )


@pytest.mark.parametrize(
    ("sections", "error", "message"),
    [
        (
            {"schedule": {"warmup_steps": 5}},
            InvalidArgumentError,
            "warm-up of 5 training steps is longer",
        ),
        (
            {"schedule": {"scale": "adam_sqrt"}, "optimizer": {"name": "sgd"}},
            InvalidArgumentError,
            "is for adam",
        ),
        (
            {"schedule": {"scale": "auto"}},
            UnsupportedError,
            "needs gradients of several small batches",
        ),
        (
            {"schedule": {"name": "step", "milestones": "9,3"}},
            InvalidArgumentError,
            "milestones are '9,3'",
        ),
        ({"optimizer": {"lr": -1.0}}, ConfigurationError, "optimizer.lr is -1"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    folder: Path, tmp_path: Path, sections: dict[str, Any], error: type[Error], message: str
) -> None:
    with pytest.raises(error, match=message):
        Trainer.from_config(config.from_dict(_document(folder, tmp_path / "run", **sections)))
    assert not (tmp_path / "run" / "checkpoints").exists() or not any(
        (tmp_path / "run" / "checkpoints").iterdir()
    )
