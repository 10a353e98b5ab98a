# SPDX-License-Identifier: Apache-2.0
"""A run directory belongs to one Trainer, keeps what others wrote, and takes its times from a steady clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from training_volume import document, write_volume

from floodtide import cli, config
from floodtide.base.network_files import checkpoints
from floodtide.errors import Interrupted, LockedError
from floodtide.train import Trainer, read_log
from floodtide.train.run_directory import LOCK, MARK


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("directory")
    write_volume(path)
    return path


def written(folder: Path, run: Path, steps: int) -> Path:
    """A configuration file for a training in `run`."""
    sections: dict[str, dict[str, Any]] = {
        "run": {"dir": str(run), "log_every_s": 0.0},
        "training": {"steps": steps, "walkers": 2},
        "validation": {"box": ""},
    }
    path = run.with_suffix(".toml")
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return path


def test_times_do_not_follow_the_time_of_day(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorboardX.event_file_writer  # noqa: F401  # its libraries look at the date

    wall = iter(range(2_000_000_000, 0, -1_000_000))  # set back at every look
    monkeypatch.setattr(time, "time", lambda: float(next(wall)))
    run = tmp_path / "run"
    for steps in (3, 6):  # the second goes on from the first
        assert cli.run(["train", str(written(folder, run, steps))]) == 0
    times = [record["time_s"] for record in read_log(run / "log.jsonl")]
    assert len(times) == 8
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 3600


def test_a_configuration_that_a_person_wrote_is_not_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    own = run / "config.toml"
    plain = written(folder, run, 2).read_text()
    resolved = str(config.load(run.with_suffix(".toml")))
    for text in (plain, f"# my notes\n{resolved}", "notes", ""):
        own.write_text(text)
        for given in (str(own), str(run.with_suffix(".toml"))):
            assert cli.run(["train", given]) == 2
            assert capsys.readouterr().err.count("\n") == 1
        assert own.read_text() == text
    assert [path.name for path in run.iterdir()] == ["config.toml"]


def test_a_resolved_configuration_goes_on_and_is_replaced(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cli.run(["train", str(written(folder, run, 2))]) == 0
    own = run / "config.toml"
    assert own.read_text().startswith(MARK)
    assert cli.run(["train", str(own), "--set", "training.steps=4"]) == 0
    assert own.read_text().startswith(MARK)
    assert config.load(own).training.steps == 4
    assert checkpoints(run)[-1].name == "step-4.h5"


def test_a_log_of_something_else_is_not_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "log.jsonl").write_text("measurements of a person\n")
    assert cli.run(["train", str(written(folder, run, 2))]) == 2
    assert "log.jsonl" in capsys.readouterr().err
    assert (run / "log.jsonl").read_text() == "measurements of a person\n"


def test_a_second_trainer_of_the_process_takes_over_and_the_first_writes_no_more(
    folder: Path, tmp_path: Path
) -> None:
    settings = config.load(written(folder, tmp_path / "run", 9))
    first = Trainer.from_config(settings)
    first.step()
    second = Trainer.from_config(settings)
    with pytest.raises(LockedError, match="another Trainer"):
        first.save()
    with pytest.raises(LockedError, match="another Trainer"):
        first.step()
    second.run()
    assert not (tmp_path / "run" / LOCK).exists()
    steps = [r["step"] for r in read_log(tmp_path / "run" / "log.jsonl") if r["kind"] == "train"]
    assert steps == list(range(1, 10))


def test_an_interrupted_trainer_takes_the_directory_again_unless_another_has_gone_on(
    folder: Path, tmp_path: Path
) -> None:
    def interrupt(_: Trainer, record: Mapping[str, Any]) -> None:
        if record["kind"] == "train" and record["step"] in (2, 4):
            signal.raise_signal(signal.SIGINT)

    path = written(folder, tmp_path / "run", 9)
    lock = tmp_path / "run" / LOCK
    held: list[bool] = []

    def look(_: Trainer, __: Mapping[str, Any]) -> None:
        held.append(lock.exists())

    trainer = Trainer.from_config(config.load(path), callbacks=[interrupt, look])
    for _ in range(2):
        with pytest.raises(Interrupted):
            trainer.run()
        assert not lock.exists()
    assert cli.run(["train", str(path)]) == 0
    with pytest.raises(LockedError, match="another run has written checkpoints"):
        trainer.run()
    assert not lock.exists()
    assert all(held)
    steps = [r["step"] for r in read_log(tmp_path / "run" / "log.jsonl") if r["kind"] == "train"]
    assert steps == list(range(1, 10))


def test_a_failed_start_gives_the_directory_back_and_leaves_no_folders(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, tmp_path / "run", 2)
    nested = tmp_path / "a" / "b"
    arguments = ["--set", f"run.dir={nested}", "--set", "schedule.name=nonsense"]
    assert cli.run(["train", str(path), *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_the_checkpoint_that_a_run_began_from_is_not_removed(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    start = run / "checkpoints" / "step-2.h5"
    assert cli.run(["train", str(written(folder, run, 2))]) == 0
    path = str(written(folder, run, 8))
    again = tmp_path / "again"
    again.symlink_to(run)
    more = ["run.checkpoint_every_s=0.0", "run.keep_checkpoints=1"]
    more.append(f"model.initial_weights={again}/checkpoints/{start.name}")
    for steps in (5, 8):  # the second one reads the weights again
        given = [*more, f"training.steps={steps}"]
        assert cli.run(["train", path, *(word for key in given for word in ("--set", key))]) == 0
        left = sorted(path.name for path in start.parent.iterdir())
        assert left == [start.name, f"step-{steps}.h5"]
