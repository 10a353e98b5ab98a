# SPDX-License-Identifier: Apache-2.0
"""Training runs from a configuration: run directory, log, resuming, mistakes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from training_volume import document, write_volume

from floodtide import config, errors, nn
from floodtide.cli import run as command_line
from floodtide.train import Trainer, read_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("training")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, **sections: dict[str, Any]) -> config.Config:
    sections["run"] = {**sections.get("run", {}), "dir": str(folder / name)}
    return config.from_dict(document(folder, **sections))


def trained(folder: Path, name: str, **sections: dict[str, Any]) -> Trainer:
    trainer = Trainer.from_config(configuration(folder, name, **sections))
    trainer.run()
    return trainer


def same_parameters(a: nn.FFN, b: nn.FFN) -> bool:
    return all(np.array_equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


def test_average_is_that_of_the_steps_and_what_readers_of_the_checkpoint_get(folder: Path) -> None:
    sections = {"training": {"steps": 12, "average": 0.3}, "run": {"dir": str(folder / "average")}}
    trainer = Trainer.from_config(config.from_dict(document(folder, **sections)))
    expected = {name: array.copy() for name, array in trainer.model.state_dict().items()}
    for step in range(12):
        trainer.step()
        keep = min(0.3, (1 + step) / (10 + step))
        for name, array in trainer.model.state_dict().items():
            expected[name] = keep * expected[name] + (1 - keep) * array
    trainer.close()
    assert not same_parameters(trainer.model, trainer.result)
    for name, array in trainer.result.state_dict().items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-7)
    loaded = nn.load(folder / "average" / "checkpoints" / "step-12.h5")
    assert same_parameters(loaded, trainer.result)


def test_average_goes_on_after_a_resumed_checkpoint(folder: Path) -> None:
    whole = trained(folder, "average-whole", training={"steps": 10, "average": 0.9})
    trained(folder, "average-parts", training={"steps": 4, "average": 0.9})
    parts = trained(folder, "average-parts", training={"steps": 10, "average": 0.9})
    assert same_parameters(whole.model, parts.model)
    assert same_parameters(whole.result, parts.result)


def test_threads_share_fields_of_view_or_voxels_with_the_same_bits(folder: Path) -> None:
    sections = {"training": {"steps": 20, "walkers": 5}}
    alone = trained(folder, "one-thread", **sections, run={"threads": 1})
    for parallel in ("fovs", "voxels"):
        shared = trained(folder, parallel, **sections, run={"threads": 2, "parallel": parallel})
        assert same_parameters(alone.model, shared.model)


def test_run_directory_holds_configuration_log_events_and_checkpoint(folder: Path) -> None:
    trainer = trained(folder, "whole", training={"steps": 40})
    directory = folder / "whole"
    assert config.load(directory / "config.toml") == trainer.config
    records = read_log(directory / "log.jsonl")
    kinds = [record["kind"] for record in records]
    assert kinds[0] == "start"
    assert kinds.count("train") == 40
    assert kinds[-1] == "validation"
    assert len(list(directory.glob("events.out.tfevents.*"))) == 1
    with h5py.File(directory / "checkpoints" / "step-40.h5") as file:
        assert file.attrs["step"] == 40
        assert "parameters/seed_update/conv0_a/weights" in file
    assert same_parameters(nn.load(directory / "checkpoints" / "step-40.h5"), trainer.model)


def test_log_counts_every_voxel(folder: Path) -> None:
    trained(folder, "counts", training={"steps": 3, "walkers": 3})
    for record in read_log(folder / "counts" / "log.jsonl"):
        if record["kind"] == "train":
            assert record["fovs"] == 3
            assert sum(record[key] for key in ("tp", "fp", "fn", "tn")) == 3 * 7**3


def test_interrupted_run_resumes_with_the_same_bits(folder: Path) -> None:
    whole = trained(folder, "uninterrupted", training={"steps": 50})
    trained(folder, "interrupted", training={"steps": 17})
    resumed = trained(folder, "interrupted", training={"steps": 50})
    assert same_parameters(whole.model, resumed.model)
    steps = [
        record["step"]
        for record in read_log(folder / "interrupted" / "log.jsonl")
        if record["kind"] == "train"
    ]
    assert steps == list(range(1, 51)), "no step is logged twice"


def test_stops_after_its_time_with_a_checkpoint(folder: Path) -> None:
    trainer = trained(folder, "short", run={"stop_after_s": 0.01}, training={"steps": 10**9})
    assert trainer.steps_done >= 1
    assert (folder / "short" / "checkpoints" / f"step-{trainer.steps_done}.h5").exists()


def test_a_callback_stops_the_run_with_a_checkpoint_and_another_goes_on(folder: Path) -> None:
    def stop(trainer: Trainer, record: Any) -> None:
        if record["kind"] == "train" and record["step"] == 2:
            trainer.stop()

    settings = configuration(folder, "stopped", training={"steps": 6})
    first = Trainer.from_config(settings, callbacks=[stop])
    first.run()
    assert (first.steps_done, first.complete, first.stopped) == (3, False, True)
    assert (folder / "stopped/checkpoints/step-3.h5").exists()
    second = Trainer.from_config(settings)
    second.run()
    assert second.complete
    whole = trained(folder, "not-stopped", training={"steps": 6})
    assert same_parameters(second.model, whole.model)


def test_a_run_that_was_killed_before_its_last_validation_is_validated(folder: Path) -> None:
    trained(folder, "unvalidated", training={"steps": 2})
    log = folder / "unvalidated" / "log.jsonl"
    whole = log.read_text().splitlines(keepends=True)
    assert '"validation"' in whole[-1]
    log.write_text("".join(whole[:-1]))

    trained(folder, "unvalidated", training={"steps": 2})

    first, again = json.loads(whole[-1]), read_log(log)[-1]
    for record in (first, again):
        del record["time_s"]
    assert again == first


def test_a_complete_run_says_that_nothing_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = trained(folder, "complete", training={"steps": 2})
    assert "nothing is trained" not in capsys.readouterr().err

    first.run()
    says = f"note: {folder}/complete: the training is complete at step 2: nothing is trained"
    assert (
        f"{says}; expected another run.dir, or for twice as much training: --set training.steps=4\n"
        in capsys.readouterr().err
    )


def test_another_number_of_walkers_needs_another_run_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(folder, "walkers", training={"steps": 2, "walkers": 2})
    more = configuration(folder, "walkers", training={"steps": 4, "walkers": 3})
    says = (
        f"{folder}/walkers/checkpoints/step-2.h5: was written with 2 walkers, this run has 3: another number of walkers"
        " (training.walkers, else the number of ranks) needs another run.dir"
    )
    with pytest.raises(errors.ConfigurationError) as refused:
        Trainer.from_config(more)
    assert str(refused.value) == says

    monkeypatch.chdir(folder)
    Path("walkers.toml").write_text(str(more))
    job = ["job", "slurm", "walkers.toml", "--nodes", "1", "--time", "01:00:00"]
    assert command_line(job) == 2
    assert capsys.readouterr().err == f"floodtide job: {says}\n"
    assert not Path("walkers.slurm").exists()
    assert command_line([*job, "--set", "training.walkers=2"]) == 0


def test_iterating_is_running(folder: Path) -> None:
    with Trainer.from_config(configuration(folder, "iterated", training={"steps": 4})) as trainer:
        steps = [step.number for step in trainer]
    assert steps == [0, 1, 2, 3]
    assert trainer.complete
    assert not list(trainer)  # there is nothing left to do
    assert (folder / "iterated/checkpoints/step-4.h5").exists()
    assert same_parameters(trainer.model, trained(folder, "run-whole", training={"steps": 4}).model)


def test_a_with_block_gives_the_run_directory_back_after_an_error(folder: Path) -> None:
    settings = configuration(folder, "left", training={"steps": 4})

    def fail() -> None:
        with Trainer.from_config(settings) as trainer:
            trainer.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    Trainer.from_config(settings).run()  # not locked any more


def test_a_misspelt_attribute_is_an_error(folder: Path) -> None:
    with Trainer.from_config(configuration(folder, "misspelt", training={"steps": 1})) as trainer:
        with pytest.raises(AttributeError, match="modle"):
            trainer.modle = trainer.model  # type: ignore[attr-defined]
        trainer.step()


def test_only_the_newest_checkpoints_are_kept(folder: Path) -> None:
    trained(
        folder,
        "pruned",
        run={"checkpoint_every_s": 0.0, "keep_checkpoints": 2},
        training={"steps": 6},
    )
    names = sorted(path.name for path in (folder / "pruned" / "checkpoints").iterdir())
    assert names == ["step-5.h5", "step-6.h5"]


def test_initial_weights_are_loaded(folder: Path) -> None:
    first = trained(folder, "first", training={"steps": 5})
    path = folder / "first" / "checkpoints" / "step-5.h5"
    second = Trainer.from_config(
        config.from_dict(
            document(
                folder, run={"dir": str(folder / "second")}, model={"initial_weights": str(path)}
            )
        )
    )
    second.close()
    assert same_parameters(first.model, second.model)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"training": {"walkers": 10**9}}, "walkers"),
        ({"schedule": {"name": "cosine", "warmup_steps": 10**6}}, "more than the 1000000 of"),
        ({"schedule": {"name": "cosine", "power": 2}}, "unknown key 'schedule.power'"),
        ({"schedule": {"name": "polynomial", "power": -1}}, "schedule.power is -1"),
        ({"schedule": {"warmup_start": "half"}}, "expected 'base' or 'zero'"),
        ({"model": {"fov": [8, 7, 7]}}, "odd"),
        ({"model": {"fov": [41, 41, 41]}}, "box"),
        ({"training": {"threshold": 0.99}}, "threshold"),
        ({"validation": {"volume": "other"}}, "validation.volume"),
        ({"data": {"volumes": []}}, "data.volumes"),
        ({"augmentation": {"permutable_axes": [0, 3]}}, "axes"),
        ({"model": {"initial_weights": "absent.h5"}}, "absent.h5"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    folder: Path,
    sections: dict[str, Any],
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    path = tmp_path / "wrong.toml"
    path.write_text(tomli_w.dumps(document(folder, **{**sections, "run": {"dir": str(run)}})))
    assert command_line(["train", str(path)]) == 2
    error = capfd.readouterr().err
    assert error.startswith("floodtide train: ")
    assert error.count("\n") == 1
    assert words in error
    assert not run.exists()


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "version", "network", "step"])
def test_damaged_checkpoints_exit_2(
    folder: Path, damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    settings = document(folder, run={"dir": str(run)}, training={"steps": 2})
    Trainer.from_config(config.from_dict(settings)).run()
    checkpoint = run / "checkpoints" / "step-2.h5"
    content = checkpoint.read_bytes()
    if damage == "truncated":
        checkpoint.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        checkpoint.write_bytes(b"")
    elif damage == "text":
        checkpoint.write_text("not a checkpoint")
    elif damage == "version":
        with h5py.File(checkpoint, "r+") as file:
            file.attrs["format_version"] = np.int64(99)
    elif damage == "step":
        with h5py.File(checkpoint, "r+") as file:
            file.attrs["step"] = np.int64(2**31)
    else:
        settings["model"]["depth"] = 3
    path = tmp_path / "run.toml"
    settings["training"]["steps"] = 4
    path.write_text(tomli_w.dumps(settings))
    capfd.readouterr()
    assert command_line(["train", str(path)]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert str(checkpoint) in error


def test_a_damaged_checkpoint_is_moved_away_to_resume_from_the_one_before(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    path = tmp_path / "run.toml"
    for steps in (2, 4):
        settings = document(folder, run={"dir": str(run)}, training={"steps": steps})
        Trainer.from_config(config.from_dict(settings)).run()
    path.write_text(tomli_w.dumps(settings))
    newest = run / "checkpoints" / "step-4.h5"
    newest.write_bytes(newest.read_bytes()[:-100])

    capfd.readouterr()
    assert command_line(["train", str(path)]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "if the file is damaged, move it away to resume from the checkpoint before it" in error

    newest.rename(run / "checkpoints" / "damaged")
    assert command_line(["train", str(path)]) == 0
    assert newest.exists()


def test_help_of_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    from floodtide.cli import COMMANDS

    for name in COMMANDS:
        assert command_line([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Example" in text, name
        assert f"floodtide {name}" in text, name


def test_a_run_of_join_takes_each_example_once_and_stops(folder: Path) -> None:
    sections = {"training": {"steps": 10**6, "walkers": 3, "on_exhausted": "join"}}
    sections["run"] = {"dir": str(folder / "join")}
    settings = document(folder, **sections)
    settings["data"]["volumes"][0]["box"] = "2:15,2:15,2:15"  # few centres
    trainer = Trainer.from_config(config.from_dict(settings))
    trainer.run()
    sums = [r for r in read_log(folder / "join" / "log.jsonl") if r["kind"] == "train"]
    assert sum(r["examples"] for r in sums) == len(trainer.data)


def test_accumulated_fovs_and_traces(folder: Path) -> None:
    trained(
        folder,
        "accumulated",
        training={"steps": 4, "walkers": 2, "accumulate": 3},
        run={"trace": True},
    )
    sums = [r for r in read_log(folder / "accumulated" / "log.jsonl") if r["kind"] == "train"]
    assert sum(r["fovs"] for r in sums) == 4 * 2 * 3
    trace = json.loads((folder / "accumulated" / "trace.json").read_text())
    names = [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert names.count("compute") == 4 * 3
    assert names.count("update") == 4


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("training.accumulate", 0, "accumulate is 0, expected 1 to 65536"),
        ("data.prefetch", -1, "prefetch is -1, expected 0 to 1024 (examples)"),
        ("data.readers", 0, "readers is 0, expected 1 to 1024 (threads)"),
        ("training.epochs", 0, "epochs is 0, expected 1 to 1000000000 (epochs)"),
        ("training.on_exhausted", "wait", "expected 'cycle', 'join' or 'stop'"),
        ("comm.exactness", "bits", "expected 'run' or 'workers'"),
        ("comm.wire", "fp8", "expected 'native' or 'bf16'"),
        ("comm.timeout_s", -1.0, "timeout_s is -1.0, expected 0 to 1e+09 (s)"),
        ("comm.bucket_mib", 0.0, "bucket_mib is 0.0, expected 1e-05 to 1e+06 (MiB)"),
        ("comm.algorithm", "star", "star"),
    ],
)
def test_wrong_engine_settings_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any, message: str
) -> None:
    path = folder / "wrong.toml"
    path.write_text(tomli_w.dumps(document(folder, run={"dir": str(folder / "wrong")})))
    assert command_line(["train", str(path), "--set", f"{key}={json.dumps(value)}"]) == 2
    assert message in capsys.readouterr().err


def test_signal_saves_after_the_step_and_gives_the_handler_back(folder: Path) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    sections = {"run": {"dir": str(folder / "signal")}, "training": {"steps": 30}}
    trainer = Trainer.from_config(config.from_dict(document(folder, **sections)))

    def interrupt(done: int, _: int) -> None:
        if done == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        trainer.run(interrupt)
        assert (trainer.steps_done, trainer.complete, seen) == (8, False, [])
        os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    kinds = [record["kind"] for record in read_log(folder / "signal" / "log.jsonl")]
    assert "validation" not in kinds
    resumed = trained(folder, "signal", training={"steps": 30})
    assert same_parameters(
        resumed.model, trained(folder, "no-signal", training={"steps": 30}).model
    )


def test_signal_ends_a_loop_of_steps(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    sections = {"run": {"dir": str(folder / "loop")}, "training": {"steps": 30}}
    trainer = Trainer.from_config(config.from_dict(document(folder, **sections)))
    for _ in trainer:
        if trainer.steps_done == 5:
            os.kill(os.getpid(), signal.SIGTERM)
    assert (trainer.steps_done, trainer.complete) == (6, False)
    assert signal.getsignal(signal.SIGTERM) == before
    assert (folder / "loop" / "checkpoints" / "step-6.h5").exists()


def test_examples_and_weights_do_not_depend_on_prefetch(folder: Path) -> None:
    usual = trained(folder, "prefetched", training={"steps": 30})
    for name, values in (("none", {"prefetch": 0}), ("many", {"prefetch": 3, "readers": 4})):
        other = trained(folder, f"prefetch-{name}", data=values, training={"steps": 30})
        assert same_parameters(usual.model, other.model)


def interrupts(folder: Path, name: str, steps: int = 20, at: int = 5) -> Trainer:
    """A trainer that gets Ctrl-C while it logs a step."""

    def interrupt(trainer: Trainer, record: Any) -> None:
        if record["kind"] == "train" and trainer.steps_done == at:
            signal.raise_signal(signal.SIGINT)

    sections = {"run": {"dir": str(folder / name)}, "training": {"steps": steps}}
    return Trainer.from_config(
        config.from_dict(document(folder, **sections)), callbacks=[interrupt]
    )


def test_interrupted_run_saves_and_goes_on_in_the_same_process(folder: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    trainer = interrupts(folder, "ctrl-c")

    with pytest.raises(KeyboardInterrupt) as caught:
        trainer.run()

    assert isinstance(caught.value, errors.Interrupted)
    text = "training stopped at step 6 of 20 with a checkpoint; Trainer.run goes on from there"
    assert caught.value._render_traceback_() == [text]
    assert trainer.steps_done == 6
    assert (folder / "ctrl-c" / "checkpoints" / "step-6.h5").exists()
    assert signal.getsignal(signal.SIGINT) == before
    trainer.run()
    assert trainer.complete
    assert same_parameters(
        trainer.model, trained(folder, "no-ctrl-c", training={"steps": 20}).model
    )
    kinds = [record["kind"] for record in read_log(folder / "ctrl-c" / "log.jsonl")]
    assert kinds.count("train") == 20
    assert kinds[-1] == "validation"


def test_interrupt_after_the_last_step_is_not_lost(folder: Path) -> None:
    trainer = interrupts(folder, "late-interrupt", steps=5)

    with pytest.raises(KeyboardInterrupt):
        trainer.run()

    assert trainer.complete


def test_second_interrupt_stops_at_once(folder: Path) -> None:
    def twice(trainer: Trainer, record: Any) -> None:
        if record["kind"] == "train" and trainer.steps_done == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    sections = {"run": {"dir": str(folder / "twice")}, "training": {"steps": 20}}
    trainer = Trainer.from_config(config.from_dict(document(folder, **sections)), callbacks=[twice])

    with pytest.raises(KeyboardInterrupt) as caught:
        trainer.run()

    assert not isinstance(caught.value, errors.Interrupted)
    assert trainer.steps_done == 5
    trainer.close()
