# SPDX-License-Identifier: Apache-2.0
"""Trainings that fit their steps to the time, by a clock that the tests set."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_volume

from floodtide import config
from floodtide.cli import run as command_line
from floodtide.errors import ConfigurationError
from floodtide.optim.lr import Schedule
from floodtide.train import Trainer, pace, read_log, read_run
from floodtide.train.learners.flood import FloodLearner
from floodtide.train.step_loop import StepLoop

LIMIT_S = 1000.0
PLANNED = 60

Speed = Callable[[int], float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pace")
    training_volume.write_volume(path)
    return path


class Clock:
    """A clock that stands still while nothing advances it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 5000.0
        self.step_s: Speed = lambda _: 1.0
        self.validation_s = 0.0
        step, validate = StepLoop.step, FloodLearner.validate

        def slow_step(loop: StepLoop) -> Any:
            done = step(loop)
            self.now_s += self.step_s(loop.steps_done)
            return done

        def slow_validate(learner: FloodLearner, model: Any) -> Any:
            self.now_s += self.validation_s
            return validate(learner, model)

        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(StepLoop, "step", slow_step)
        monkeypatch.setattr(FloodLearner, "validate", slow_validate)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def settings(folder: Path, directory: Path, **sections: dict[str, Any]) -> config.Config:
    given: dict[str, dict[str, Any]] = {
        "run": {"dir": str(directory), "log_every_s": 1e6, "stop_after_s": LIMIT_S},
        "training": {"steps": PLANNED, "fit_time": True, "average": 0.9},
        "schedule": {"name": "cosine", "warmup_steps": 6},
        "validation": {"every": 15},
    }
    laid = {key: {**values, **sections.pop(key, {})} for key, values in given.items()}
    return config.from_dict(training_volume.document(folder, **laid, **sections))


def trained(configuration: config.Config) -> tuple[Trainer, list[float]]:
    """Train to the end; return the trainer and the learning rates."""
    with Trainer.from_config(configuration) as trainer:
        return trainer, [step.lr for step in trainer]


def same_parameters(a: Trainer, b: Trainer) -> bool:
    pairs = (
        (one.state_dict(), other.state_dict())
        for one, other in ((a.model, b.model), (a.result, b.result))
    )
    return all(np.array_equal(x[name], y[name]) for x, y in pairs for name in x)


def records(directory: Path, kind: str) -> list[dict[str, Any]]:
    return [one for one in read_log(directory / "log.jsonl") if one["kind"] == kind]


def falls_to_its_end(rates: list[float]) -> bool:
    """Return True if rates rise, then fall without a jump, and the last one is near 0."""
    top = rates.index(max(rates))
    return (
        rates[:top] == sorted(rates[:top])
        and rates[top:] == sorted(rates[top:], reverse=True)
        and rates[-1] < 0.02 * max(rates)
    )


@pytest.mark.parametrize(("step_s", "validation_s"), [(40.0, 0.0), (5.0, 0.0), (20.0, 50.0)])
def test_the_rate_ends_when_the_time_ends(
    folder: Path, tmp_path: Path, clock: Clock, step_s: float, validation_s: float
) -> None:
    clock.step_s, clock.validation_s = lambda _: step_s, validation_s
    begin_s = clock.now_s

    trainer, rates = trained(settings(folder, tmp_path))

    assert trainer.complete
    assert trainer.config.training.total == trainer.steps_done == len(rates)
    took_s = clock.now_s - begin_s
    assert 0.9 * LIMIT_S < took_s <= LIMIT_S + 2 * step_s
    assert falls_to_its_end(rates)
    assert len(records(tmp_path, "validation")) == 4, "as many validations as were planned"
    corrections = records(tmp_path, "correction")
    assert [(one["step"], one["steps"]) for one in corrections] == list(
        trainer.config.training.corrections
    )
    assert corrections[0]["before"] == PLANNED
    assert read_run(tmp_path).total == trainer.steps_done


def test_the_bar_counts_down_to_the_end_that_the_steps_are_fitted_to(
    folder: Path, tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    clock.step_s = lambda _: 5.0
    given = settings(folder, tmp_path / "run", run={"log_every_s": 20.0})
    (tmp_path / "fit.toml").write_text(str(given))
    assert command_line(["train", str(tmp_path / "fit.toml")]) == 0
    lines = capfd.readouterr().err
    assert "step 5 of 60:" in lines  # 275 s by the steps of the plan
    assert re.search(r"train: \d+ of 60 steps, about 16 min left", lines)

    assert command_line(["train", str(tmp_path / "fit.toml")]) == 0
    more = "and twice the run.stop_after_s, which training.fit_time has fitted the steps to"
    assert more in capfd.readouterr().err


def test_validations_that_were_not_measured_do_not_halve_the_plan(
    folder: Path, tmp_path: Path, clock: Clock
) -> None:
    clock.step_s = lambda _: 10.0
    trained(settings(folder, tmp_path))
    second = records(tmp_path, "correction")[1]
    assert second["step"] < records(tmp_path, "validation")[0]["step"]
    assert second["steps"] >= 0.95 * LIMIT_S / 10.0


def test_a_machine_that_becomes_slow_is_noticed(folder: Path, tmp_path: Path, clock: Clock) -> None:
    clock.step_s = lambda step: 5.0 if step < 60 else 30.0
    _, rates = trained(settings(folder, tmp_path))
    assert falls_to_its_end(rates)
    assert clock.now_s - 5000 <= LIMIT_S + 30


def test_the_recorded_configuration_repeats_the_run_at_any_speed(
    folder: Path, tmp_path: Path, clock: Clock
) -> None:
    clock.step_s = lambda step: 8.0 + step % 3
    first, rates = trained(settings(folder, tmp_path / "first"))
    recorded = config.load(tmp_path / "first/config.toml", [f"run.dir={tmp_path / 'again'}"])
    assert not recorded.fits_time

    clock.step_s = lambda _: 70.0
    again, same = trained(recorded)

    assert rates == same
    assert same_parameters(first, again)
    assert len(first.config.training.corrections) >= 2


def test_a_repeated_run_that_is_interrupted_goes_on_with_the_same_bits(
    folder: Path, tmp_path: Path, clock: Clock
) -> None:
    clock.step_s = lambda _: 12.0
    whole, rates = trained(settings(folder, tmp_path / "whole"))
    recorded = config.load(tmp_path / "whole/config.toml", [f"run.dir={tmp_path / 'parts'}"])
    with Trainer.from_config(recorded) as trainer:
        first = [trainer.step().lr for _ in range(9)]
        trainer.save()
    parts, rest = trained(recorded)
    assert first + rest == rates
    assert same_parameters(whole, parts)


def test_a_resumed_run_has_the_time_that_is_left(
    folder: Path, tmp_path: Path, clock: Clock
) -> None:
    given = settings(folder, tmp_path)
    clock.step_s = lambda _: 10.0
    with Trainer.from_config(given) as trainer:
        first = []
        for step in trainer:
            first.append(step.lr)
            if trainer.steps_done == 40:
                trainer.stop()
    assert (trainer.steps_done, trainer.complete) == (41, False)
    before = trainer.config.training.corrections
    assert len(before) >= 1
    assert 0.3 < trainer.lr_share < 0.99
    clock.now_s += 1e5  # nobody trains
    clock.step_s = lambda _: 20.0

    resumed, rest = trained(given)

    assert resumed.config.training.corrections[: len(before)] == before
    assert len(resumed.config.training.corrections) > len(before)
    assert 40 + 20 <= resumed.steps_done <= 40 + 32  # 590 s of 1000 s are left for steps of 20 s
    assert falls_to_its_end(first + rest)


def test_a_run_without_time_left_trains_the_rest_of_its_plan(
    folder: Path, tmp_path: Path, clock: Clock
) -> None:
    given = settings(folder, tmp_path)
    clock.step_s = lambda step: 5.0 if step < 190 else 300.0
    trainer, first = trained(given)
    assert not trainer.complete
    total = trainer.config.training.total
    clock.step_s = lambda _: 1.0
    resumed, rest = trained(given)
    assert (resumed.complete, resumed.steps_done) == (True, total)
    assert falls_to_its_end(first + rest)


def test_the_same_corrections_give_the_same_bits_on_resuming_at_other_steps(
    folder: Path, tmp_path: Path
) -> None:
    training = {"steps": 20, "fit_time": False, "corrections": [[5, 12], [8, 30]]}
    whole, rates = trained(settings(folder, tmp_path / "whole", training=training))
    assert len(rates) == 30
    planned = [pace.planned_step(whole.config.training, step)[0] for step in range(31)]
    assert planned[5] == 5
    assert planned[30] == pytest.approx(20)
    assert rates == pytest.approx(
        [
            Schedule("cosine", warmup_steps=6, total_steps=20, base_lr=1e-3)(one)
            for one in planned[:-1]
        ]
    )


def test_a_run_that_is_cut_short_says_at_which_rate(
    folder: Path, tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    clock.step_s = lambda _: 50.0
    given = settings(folder, tmp_path / "run", training={"fit_time": False})
    (tmp_path / "cut.toml").write_text(str(given))
    assert command_line(["train", str(tmp_path / "cut.toml")]) == 0
    assert capfd.readouterr().err.splitlines()[-1] == (
        "stopped at step 21 of 60 with a checkpoint, its learning rate still at 82 % of the highest, so that scores are"
        " worse than at its end: the same command resumes from there"
    )
    assert "still at 82 %" in read_run(tmp_path / "run").cut_short
    clock.step_s = lambda _: 1.0
    assert command_line(["train", str(tmp_path / "cut.toml")]) == 0
    assert "the training is complete: 60 steps" in capfd.readouterr().err
    assert read_run(tmp_path / "run").cut_short == ""


@pytest.mark.parametrize("step_s", [250.0, 700.0])
def test_a_time_of_few_steps_does_not_make_a_run_complete(
    folder: Path, tmp_path: Path, clock: Clock, step_s: float
) -> None:
    clock.step_s = lambda _: step_s
    trainer, _ = trained(settings(folder, tmp_path))
    assert not trainer.complete
    assert "of the highest" in read_run(tmp_path).cut_short


def test_more_steps_for_a_complete_run_need_other_corrections(folder: Path, tmp_path: Path) -> None:
    rows = {"fit_time": False, "corrections": [[3, 10]]}
    trained(settings(folder, tmp_path, training={**rows, "steps": 20}))
    with pytest.raises(ConfigurationError, match="expected the same, or none"):
        trained(settings(folder, tmp_path, training={**rows, "steps": 40}))


def test_without_corrections_planned_steps_are_the_steps() -> None:
    training = config.TrainingConfig(steps=7)
    assert [pace.planned_step(training, step) for step in range(9)] == [
        (float(step), 1.0) for step in range(9)
    ]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"schedule": {"name": "constant"}}, "training.fit_time needs a rate that falls to an end"),
        ({"comm": {"mode": "partial"}}, "comm.mode 'synchronous'"),
    ],
)
def test_a_time_that_cannot_be_fitted_is_refused(
    folder: Path, tmp_path: Path, sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Trainer.from_config(settings(folder, tmp_path, **sections))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "rows", [[[0, 5]], [[9, 9]], [[4, 30], [4, 40]], [[4, 12], [13, 40]], [[25, 40]], [[3]]]
)
def test_wrong_corrections_are_refused(folder: Path, tmp_path: Path, rows: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"training\.corrections\.\d") as raised:
        settings(folder, tmp_path, training={"steps": 20, "corrections": rows})
    assert "\n" not in str(raised.value)


def test_corrections_that_the_checkpoint_does_not_have_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    rows = {"fit_time": False, "steps": 20}
    trained(settings(folder, tmp_path, training={**rows, "corrections": [[3, 10]]}))
    with pytest.raises(ConfigurationError, match="expected the same, or none"):
        trained(settings(folder, tmp_path, training={**rows, "corrections": [[4, 15]]}))
