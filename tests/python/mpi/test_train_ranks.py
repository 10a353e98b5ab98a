# SPDX-License-Identifier: Apache-2.0
"""Training over ranks: the same parameters, the same failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w
from launch import assert_one_line, mpiexec, shared
from training_volume import document, write_volume

from floodtide import config
from floodtide.train import read_log

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    write_volume(path)
    return path


def configuration(folder: Path, name: str, **sections: dict[str, Any]) -> str:
    sections["run"] = {"dir": str(folder / name), **sections.get("run", {})}
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    return str(path)


def train(folder: Path, name: str, ranks: int, **sections: dict[str, Any]) -> dict[str, Any]:
    """Train on so many ranks; parameters by name."""
    result = shared(ranks, ["-m", "floodtide", "train", configuration(folder, name, **sections)])
    assert result.status == 0, result.stderr
    steps = sections.get("training", {}).get("steps", 50)
    return parameters(folder / name / "checkpoints" / f"step-{steps}.h5")


def parameters(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file["parameters"].visititems(
            lambda name, item: (
                found.__setitem__(name, item[:]) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def assert_equal(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name], err_msg=name)


@pytest.fixture(scope="module")
def one(folder: Path) -> dict[str, Any]:
    """Parameters after the usual training, on one rank."""
    return train(folder, "one", 1)


@pytest.fixture(scope="module")
def two(folder: Path) -> dict[str, Any]:
    """Parameters after the usual training, on two ranks."""
    return train(folder, "two", 2)


def validation(run: Path) -> dict[str, Any]:
    """Return the only record of a validation, without its time."""
    (record,) = [r for r in read_log(run / "log.jsonl") if r["kind"] == "validation"]
    del record["time_s"]
    return record


def test_two_walkers_give_the_same_on_one_and_two_ranks(
    folder: Path, one: dict[str, Any], two: dict[str, Any]
) -> None:
    # With two walkers both sums have two terms, so there is no other order: equal bits.
    assert_equal(one, two)
    assert validation(folder / "one") == validation(folder / "two")
    library = train(folder, "library", 2, comm={"algorithm": "mpi"})
    assert_equal(one, library)


def test_ranks_fit_their_steps_to_the_time_and_one_rank_repeats_them(folder: Path) -> None:
    sections = {
        "run": {"stop_after_s": 4.0, "log_every_s": 100.0},
        "training": {"steps": 10**5, "fit_time": True, "average": 0.9},
        "schedule": {"name": "cosine"},
    }
    command = ["-m", "floodtide", "train", configuration(folder, "fit", **sections)]
    for _ in range(2):  # the second one completes a run that was slow in its last moments
        assert shared(2, command).status == 0
    recorded = config.load(folder / "fit" / "config.toml").training
    assert len(recorded.corrections) >= 2
    assert not recorded.fit_time
    repeat = ["train", str(folder / "fit" / "config.toml"), "--set", f"run.dir={folder / 'repeat'}"]
    assert shared(1, ["-m", "floodtide", *repeat]).status == 0
    last = f"checkpoints/step-{recorded.total}.h5"
    assert_equal(parameters(folder / "fit" / last), parameters(folder / "repeat" / last))


def test_four_walkers_make_the_same_updates_on_one_and_four_ranks(folder: Path) -> None:
    """Bit for bit with exact sums, with the rate from the measured noise scale; else within rounding."""
    shared: dict[str, Any] = {
        "training": {"steps": 30, "walkers": 4},
        "optimizer": {"name": "lamb", "lr": 1e-3},
    }
    exact = {**shared, "comm": {"exactness": "workers"}, "schedule": {"scale": "auto"}}
    one = train(folder, "exact1", 1, **exact)
    assert_equal(one, train(folder, "exact4", 4, **exact))
    alone = train(folder, "run1", 1, **shared)
    several = train(folder, "run4", 4, **shared)
    for name, values in alone.items():
        difference = np.linalg.norm(several[name] - values)
        assert difference <= 1e-5 * np.linalg.norm(values), name


def test_ranks_measure_the_noise_scale_of_their_walkers(folder: Path) -> None:
    training = {"steps": 40, "walkers": 4, "noise_scale": True}
    train(folder, "noise", 2, training=training, run={"log_every_s": 0.0})
    train(folder, "noise-exact", 2, training=training, comm={"exactness": "workers"})
    last = [
        [r for r in read_log(folder / name / "log.jsonl") if r["kind"] == "train"][-1]
        for name in ("noise", "noise-exact")
    ]
    # Two estimates of one quantity, from batches of two examples and of one: their intervals overlap.
    for record, other in (last, last[::-1]):
        assert record["noise_scale_low"] < (other["noise_scale_high"] or np.inf)


def test_process_sets_train_apart_from_each_other(folder: Path) -> None:
    alone = [train(folder, f"alone{seed}", 2, run={"seed": seed}) for seed in (0, 1)]
    files = [configuration(folder, f"apart{seed}", run={"seed": seed}) for seed in (0, 1)]
    program = f"""
import floodtide as ft
from floodtide import config
from floodtide.train import Trainer
ft.init()
halves = [ft.ProcessSet([0, 2]), ft.ProcessSet([1, 3])]
number = ft.rank() % 2
with halves[number]:
    assert ft.size() == 2
    Trainer.from_config(config.load({files!r}[number])).run()
assert ft.size() == 4
ft.barrier()
"""
    result = shared(4, ["-c", program])
    assert result.status == 0, result.stderr
    for seed in (0, 1):
        apart = parameters(folder / f"apart{seed}" / "checkpoints" / "step-50.h5")
        assert_equal(apart, alone[seed])
    assert any((alone[0][name] != alone[1][name]).any() for name in alone[0])


def test_resumed_run_has_the_bits_of_the_uninterrupted_one(folder: Path) -> None:
    whole = train(folder, "whole", 2, training={"steps": 40, "walkers": 4})
    train(folder, "parts", 2, training={"steps": 13, "walkers": 4})
    parts = train(folder, "parts", 2, training={"steps": 40, "walkers": 4})
    assert_equal(whole, parts)


def test_checkpoint_of_two_ranks_resumes_on_one(folder: Path, one: dict[str, Any]) -> None:
    train(folder, "moved", 2, training={"steps": 20, "walkers": 2})
    assert_equal(one, train(folder, "moved", 1))


def test_wrong_configuration_is_one_line_and_exit_2_on_all_ranks(folder: Path) -> None:
    path = configuration(folder, "wrong", training={"stepz": 3})
    result = shared(2, ["-m", "floodtide", "train", path], status=2)
    assert result.status == 2
    assert_one_line(result.stderr)
    assert "did you mean 'training.steps'" in result.stderr


def test_more_ranks_than_walkers_is_refused(folder: Path) -> None:
    path = configuration(folder, "few", training={"walkers": 1})
    result = shared(2, ["-m", "floodtide", "train", path], status=2)
    assert result.status == 2
    assert "1 walkers for 2 ranks" in result.stderr
    assert_one_line(result.stderr)


DIVERGING = """
import numpy as np, floodtide as ft
from floodtide import config
from floodtide.train import Trainer
trainer = Trainer.from_config(config.load({path!r}))
trainer.step()
if ft.rank() == 1:
    trainer.model.parameters()["seed_update/conv_lom/biases"][:] = np.nan
trainer.step()
"""


def test_lost_loss_ends_all_ranks_and_is_named(folder: Path) -> None:
    path = configuration(folder, "nan")
    result = mpiexec(2, ["-c", DIVERGING.format(path=path)], timeout_s=30)
    assert result.status != 0
    assert "the loss is nan at step 1, walker 1" in result.stderr


def test_full_disk_keeps_the_previous_checkpoint_and_exits_1(folder: Path) -> None:
    """Files may not grow beyond what a limit allows: the second checkpoint cannot be written."""
    train(folder, "full", 2, training={"steps": 5, "walkers": 2})
    before = parameters(folder / "full" / "checkpoints" / "step-5.h5")
    limited = (
        "import resource, signal, sys, floodtide; floodtide.init();"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "from floodtide.cli import main; main(sys.argv[1:])"
    )
    path = configuration(folder, "full", training={"steps": 8, "walkers": 2})
    result = mpiexec(2, ["-c", limited, "train", path], timeout_s=30)
    assert result.status == 1, result.stderr
    assert "step-8.h5" in result.stderr
    assert_equal(before, parameters(folder / "full" / "checkpoints" / "step-5.h5"))
    assert [p.name for p in (folder / "full" / "checkpoints").iterdir()] == ["step-5.h5"]


RAISES = """
import floodtide as ft
from floodtide import config
from floodtide.train import Trainer
def stop(trainer, record):
    raise RuntimeError("broken callback")
trainer = Trainer.from_config(config.load({path!r}), callbacks=[stop])
trainer.run()
"""


def test_rank_that_fails_alone_ends_the_job(folder: Path) -> None:
    path = configuration(folder, "callback")
    result = mpiexec(2, ["-c", RAISES.format(path=path)], timeout_s=30)
    assert result.status != 0
    assert "rank 0" in result.stderr
    assert "broken callback" in result.stderr


def test_ranks_make_the_partitions_that_a_configuration_lacks(folder: Path) -> None:
    """The same file and the same training as on one rank; a restart makes none again."""
    volume = document(folder)["data"]["volumes"][0]
    del volume["partitions"]
    more: dict[str, Any] = {
        "data": {"volumes": [volume], "min_object_size": 10},
        "training": {"steps": 5, "walkers": 2},
    }
    one, two = train(folder, "lacks1", 1, **more), train(folder, "lacks2", 2, **more)
    assert_equal(one, two)
    files = [next((folder / name).glob("partitions-*.h5")) for name in ("lacks1", "lacks2")]
    with h5py.File(files[0]) as first, h5py.File(files[1]) as second:
        np.testing.assert_array_equal(first["partitions"][:], second["partitions"][:])
    changed = files[1].stat().st_mtime_ns
    more["training"] = {"steps": 7, "walkers": 2}
    train(folder, "lacks2", 2, **more)
    assert files[1].stat().st_mtime_ns == changed


# Arguments: configuration. Threads beside the training compute forward passes; each must be that of one of the states.
FORWARD = """
import sys, threading
import numpy as np
import floodtide as ft

path = sys.argv[1]
ft.init()
draw = np.random.default_rng(0)
image, logits = draw.normal(size=(2, 6, 7, 8)).astype(np.float32)
found, over = [], threading.Event()
with ft.train.Trainer.from_config(ft.config.load(path)) as trainer:
    model = trainer.model
    states = [model.state_dict()]

    def evaluate():
        while not over.is_set():
            found.append(model.forward(image, logits).tobytes())

    threads = [threading.Thread(target=evaluate) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        states.extend(model.state_dict() for _ in trainer)
    finally:
        over.set()
        for thread in threads:
            thread.join()
expected = set()
for state in states:
    model.load_state_dict(state)
    expected.add(model.forward(image, logits).tobytes())
assert len(expected) > 5, len(expected)
assert set(found) <= expected, (len(found), len(set(found) - expected))
"""


@pytest.mark.parametrize(
    "comm",
    [{}, {"mode": "partial", "contributors": 1, "late": "carry"}],
    ids=["synchronous", "partial"],
)
def test_forward_passes_beside_a_training_see_whole_updates(
    tmp_path: Path, comm: dict[str, Any]
) -> None:
    write_volume(tmp_path)
    path = configuration(tmp_path, "run", comm=comm, training={"steps": 20, "walkers": 2})
    shared(2, ["-c", FORWARD, path])
