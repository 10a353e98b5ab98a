# SPDX-License-Identifier: Apache-2.0
"""The model of synchronous training: closed forms, and what must hold for every job."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_runs import CONFIG, write_run
from training_volume import document, write_volume

from floodtide import config
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab import simulate
from floodtide.lab.simulate import Compute, Job, Loading, paper, scenarios
from floodtide.lab.simulate import rows as figures
from floodtide.lab.simulate.gradient import Bucket
from floodtide.lab.simulate.model import REPLICAS, least_ranks
from floodtide.train import Trainer

pytestmark = pytest.mark.extra

ONE_BUCKET = (Bucket(bytes=1, ready=1.0),)
SIGMA, RATIO, MOVES = 0.107, 0.431, 27


def free(size: int, ranks: int) -> float:
    """An allreduce that costs nothing."""
    return 0.0


def ring_like(size: int, ranks: int) -> float:
    """An allreduce that costs more with every rank."""
    return 1e-3 * (ranks - 1)


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "compute": Compute(mean_s=1.0),
        "buckets": ONE_BUCKET,
        "allreduce_s": free,
    }
    return Job(**(values | changes))


@pytest.mark.parametrize("ranks", [1, 2, 8, 64, 1024])
def test_stragglers_cost_the_mean_of_the_slowest(ranks: int) -> None:
    steps = 2048
    straggling = job(compute=Compute(mean_s=1.0, sigma=SIGMA))
    expected = scenarios.expected_slowest(SIGMA, ranks)
    deviation = SIGMA * expected / math.sqrt(steps)  # the slowest of many varies less than one
    found = simulate.simulate(straggling, ranks, steps=steps)
    assert found.step_s == pytest.approx(expected, abs=5 * deviation)
    assert found.largest_loss == ("none" if ranks == 1 else "straggler")


@pytest.mark.parametrize("ranks", [1, 2, 8, 32, 64, 256])
def test_stalls_delay_every_step_in_which_a_rank_reads(ranks: int) -> None:
    stalling = job(loading=Loading(load_s=RATIO, moves=MOVES))
    delayed = 1 - (1 - 1 / MOVES) ** ranks
    found = simulate.simulate(stalling, ranks, steps=MOVES * REPLICAS)
    deviation = RATIO * math.sqrt(delayed * (1 - delayed) / (MOVES * REPLICAS))
    assert found.step_s == pytest.approx(1 + RATIO * delayed, abs=5 * deviation + 1e-12)


@pytest.mark.parametrize(
    ("backup", "step_s", "used", "paid"),
    [
        (0, 1.410, 0.709, 0.709),
        (16, 1.251, 0.799, 0.787),
        (32, 1.214, 0.823, 0.798),
        (64, 1.175, 0.851, 0.801),
    ],
)
def test_backup_ranks_cut_the_tail(backup: int, step_s: float, used: float, paid: float) -> None:
    straggling = job(compute=Compute(mean_s=1.0, sigma=SIGMA), backup=backup / 1024, late="abandon")
    found = simulate.simulate(straggling, 1024)
    assert found.paid_ranks == 1024 + backup
    assert found.step_s == pytest.approx(step_s, abs=5e-3)
    assert found.fovs_per_s / found.ranks == pytest.approx(used, abs=4e-3)
    assert found.fovs_per_s / found.paid_ranks == pytest.approx(paid, abs=4e-3)


def test_late_ranks_that_finish_help_less_and_carried_gradients_more() -> None:
    straggling = job(compute=Compute(mean_s=1.0, sigma=0.3), backup=1 / 16)
    found = {
        late: simulate.simulate(dataclasses.replace(straggling, late=late), 64).fovs_per_s
        for late in ("abandon", "drop", "carry")
    }
    waiting = simulate.simulate(dataclasses.replace(straggling, backup=0.0), 64).fovs_per_s
    assert waiting < found["drop"] < found["abandon"] < found["carry"]


@pytest.mark.parametrize("late", ["abandon", "drop", "carry"])
def test_of_two_ranks_the_first_to_be_done_makes_the_step(late: str) -> None:
    """Carried, every gradient counts: two updates in the time of one."""
    steps = 400 * REPLICAS
    racing = job(compute=Compute(mean_s=1.0, sigma=0.4), backup=1.0, late=late)
    found = simulate.simulate(racing, 1, steps=steps)
    assert found.paid_ranks == 2
    if late == "carry":
        # Two renewal processes: each rank is done once a second, on average, and none waits for the other.
        assert found.fovs_per_s == pytest.approx(2.0, rel=0.01)
        assert found.staleness == pytest.approx(1.0, rel=0.01)
    elif late == "abandon":
        # The lesser of two lognormal factors of mean 1: 2 Phi(-sigma / sqrt 2).
        expected = 2 * 0.5 * math.erfc(0.4 / math.sqrt(2) / math.sqrt(2))
        assert found.step_s == pytest.approx(expected, rel=0.01)
        assert found.staleness == 0.0
    else:
        abandoning = simulate.simulate(dataclasses.replace(racing, late="abandon"), 1, steps=steps)
        assert abandoning.step_s < found.step_s < 1.0
        assert found.staleness == 0.0
    assert found.compute_s + found.straggler_s == pytest.approx(found.step_s, rel=1e-9)


def test_a_gradient_that_takes_several_steps_is_one_gradient() -> None:
    """Of three ranks two count. One takes 2.5 times as long: carried, it is in every third update; dropped, in none."""

    class Uneven(Compute):
        def draw(self, draws: Any, step: int, shape: tuple[int, int]) -> Any:
            return np.ones(shape) * np.array([[1.0], [1.0], [2.5]])

    uneven = job(compute=Uneven(mean_s=1.0), backup=0.5)
    for late, expected, staleness in (("drop", 2.0, 0.0), ("carry", 7 / 3, 2 / 7)):
        found = simulate.simulate(
            dataclasses.replace(uneven, late=late), 2, steps=300 * REPLICAS, warmup=30
        )
        assert found.step_s == pytest.approx(1.0), late
        assert found.fovs_per_s == pytest.approx(expected, rel=0.02), late
        assert found.staleness == pytest.approx(staleness, rel=0.02), late


def test_partial_averages_send_everything_after_backward() -> None:
    buckets = simulate.ffn_buckets(9, 32, 2**18)
    cut = job(buckets=buckets, allreduce_s=lambda size, ranks: size * 1e-8, backup=0.25)
    assert simulate.simulate(cut, 4, steps=64).comm_s == pytest.approx(
        1e-8 * sum(bucket.bytes for bucket in buckets), rel=1e-9
    )


def test_only_the_last_walkers_backward_hides_sums() -> None:
    buckets = simulate.ffn_buckets(9, 32, 2**18)
    one = job(buckets=buckets, allreduce_s=lambda size, ranks: size * 1e-6)
    found = simulate.simulate(dataclasses.replace(one, walkers_per_rank=4), 2, steps=64)
    assert found.comm_s == pytest.approx(simulate.simulate(one, 2, steps=64).comm_s, rel=1e-9)


def test_ranks_that_share_cores_slow_each_other_down() -> None:
    shared = job(update_s=0.1, slowdown=lambda ranks: max(1.0, ranks / 2))
    steps = [simulate.simulate(shared, ranks, steps=64).step_s for ranks in (1, 2, 3, 4)]
    assert steps == pytest.approx([1.1, 1.1, 1.65, 2.2])


def test_communication_is_exposed_as_the_overlap_formula_says() -> None:
    buckets = simulate.ffn_buckets(9, 32, 442880)
    for seconds_a_byte in (1e-8, 1e-6, 1e-5):
        found = simulate.simulate(
            job(buckets=buckets, allreduce_s=lambda size, ranks, s=seconds_a_byte: size * s),
            4,
            steps=64,
        )
        ready = [1 / 3 + 2 / 3 * bucket.ready for bucket in buckets]
        costs = [bucket.bytes * seconds_a_byte for bucket in buckets]
        end_s = 0.0  # the network sums one bucket at a time
        for ready_s, cost_s in zip(ready, costs, strict=True):
            end_s = max(end_s, ready_s) + cost_s
        expected = end_s - ready[-1]
        assert found.comm_s == pytest.approx(expected, rel=1e-9)
        assert found.step_s == pytest.approx(1 + expected, rel=1e-9)


def test_agreements_delay_the_last_bucket_and_overlap_with_earlier_sums() -> None:
    buckets = (Bucket(bytes=1, ready=0.5), Bucket(bytes=1, ready=1.0))
    for sum_s, waited_s in ((0.01, 0.05 + 0.01), (0.5, 1 / 3 + 2 / 3 * 0.5 + 0.05 + 2 * 0.5 - 1)):
        found = simulate.simulate(
            job(
                buckets=buckets,
                allreduce_s=lambda size, ranks, s=sum_s: s,
                agreement_s=lambda ranks: 0.05,
            ),
            4,
            steps=64,
        )
        assert found.comm_s == pytest.approx(waited_s, rel=1e-9)


def test_the_processors_share_of_a_sum_is_taken_from_the_backward_pass() -> None:
    buckets = (Bucket(bytes=1, ready=0.5), Bucket(bytes=3, ready=1.0))
    quick, slow = (
        0.01,
        10.0,
    )  # a sum; the processor's part is 0.04 of the first bucket, 0.12 of the last
    for sum_s, comm_s in (
        (quick, 0.04 + 0.12),  # the processor is the limit: nothing but its work counts
        (0.05, 0.04 + 0.12),
        (slow, 2 / 3 + 2 * slow - 1),  # the network is: computing is over long before
    ):
        found = simulate.simulate(
            job(
                buckets=buckets,
                allreduce_s=lambda size, ranks, s=sum_s: s,
                cpu_s=lambda size, ranks: 0.04 * size,
            ),
            4,
            steps=64,
        )
        assert found.comm_s == pytest.approx(comm_s, rel=1e-9)
        assert found.compute_s == pytest.approx(1.0, rel=1e-9)


def test_partial_averages_agree_before_their_sum() -> None:
    partial = job(backup=0.25, agreement_s=lambda ranks: 0.05)
    assert simulate.simulate(partial, 4, steps=64).comm_s == pytest.approx(0.05, rel=1e-9)


def test_a_fast_network_leaves_only_the_last_bucket_exposed() -> None:
    whole = job(buckets=simulate.ffn_buckets(9, 32), allreduce_s=lambda size, ranks: size * 1e-8)
    cut = dataclasses.replace(whole, buckets=simulate.ffn_buckets(9, 32, 442880))
    ratio = (
        simulate.simulate(cut, 2, steps=64).comm_s / simulate.simulate(whole, 2, steps=64).comm_s
    )
    assert ratio == pytest.approx(cut.buckets[-1].bytes / whole.buckets[0].bytes, rel=1e-6)
    assert ratio < 0.2


def test_parts_of_a_step_add_up() -> None:
    everything = job(
        compute=Compute(mean_s=1.0, sigma=0.2),
        loading=Loading(load_s=0.4, moves=3.5, prefetch=1),
        buckets=simulate.ffn_buckets(3, 8, 5000),
        allreduce_s=lambda size, ranks: 1e-6 * size * ranks,
        walkers_per_rank=3,
        update_s=0.05,
        backup=0.25,
    )
    found = simulate.simulate(everything, 8, steps=640)
    parts = found.compute_s + found.input_s + found.straggler_s + found.comm_s + found.update_s
    assert parts == pytest.approx(found.step_s, rel=1e-9)
    assert found.fovs_per_s == pytest.approx(24 / found.step_s, rel=1e-12)
    assert found.update_s == 0.05
    assert found.paid_ranks == 10


def test_a_reader_that_is_too_slow_sets_the_pace() -> None:
    slow = job(loading=Loading(load_s=40.0, moves=MOVES, prefetch=2))
    found = simulate.simulate(slow, 4, steps=20 * MOVES * REPLICAS)
    assert found.step_s == pytest.approx(40 / MOVES, rel=0.02)
    assert found.largest_loss == "input"


def test_loads_at_a_time_hide_a_delay_that_one_reader_cannot() -> None:
    delay_s = 10.0 * MOVES  # ten times the compute of a patch
    for readers, expected_s in ((1, delay_s / MOVES), (5, delay_s / MOVES / 5), (11, 1.0)):
        loading = Loading(load_s=delay_s, moves=MOVES, prefetch=12, readers=readers)
        found = simulate.simulate(job(loading=loading), 2, steps=20 * MOVES * REPLICAS)
        assert found.step_s == pytest.approx(expected_s, rel=0.02)


def test_walkers_of_a_rank_share_its_reader() -> None:
    shared = job(loading=Loading(load_s=10.0, moves=8, prefetch=2), walkers_per_rank=2)
    found = simulate.simulate(shared, 1, steps=40 * 8 * REPLICAS)
    assert found.step_s == pytest.approx(2 * 10 / 8, rel=0.02)  # two patches every eight steps


def test_patches_of_a_mean_length_are_needed_as_often() -> None:
    some = job(loading=Loading(load_s=1.0, moves=2.25))
    found = simulate.simulate(some, 1, steps=64 * REPLICAS)
    samples = 64 * REPLICAS
    assert found.input_s == pytest.approx(1 / 2.25, abs=5 * math.sqrt(0.25 / samples))


def test_measured_samples_are_drawn_from() -> None:
    samples = (1.0, 1.0, 1.0, 5.0)
    drawn = job(compute=Compute(mean_s=2.0, samples=samples))
    steps = 4096
    found = simulate.simulate(drawn, 2, steps=steps)
    slow = 1 - (3 / 4) ** 2
    expected = 1.0 * (1 - slow) + 5.0 * slow
    assert found.step_s == pytest.approx(
        expected, abs=5 * 4.0 * math.sqrt(slow * (1 - slow) / steps)
    )


def test_the_least_ranks_reach_the_target_and_one_less_do_not() -> None:
    straggling = job(compute=Compute(mean_s=0.25, sigma=0.1), allreduce_s=ring_like)
    ranks = least_ranks(straggling, 50.0, steps=640)
    assert ranks is not None
    assert simulate.simulate(straggling, ranks, steps=640).fovs_per_s >= 50.0
    assert simulate.simulate(straggling, ranks - 1, steps=640).fovs_per_s < 50.0
    assert least_ranks(straggling, 0.1, steps=640) == 1
    assert least_ranks(straggling, 1e6, limit=8, steps=64) is None


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    loading = draw(
        st.none()
        | st.builds(
            Loading,
            load_s=st.floats(0.0, 5.0),
            moves=st.floats(1.0, 9.0),
            prefetch=st.integers(0, 3),
        )
    )
    return job(
        compute=Compute(mean_s=draw(st.floats(0.01, 10.0)), sigma=draw(st.floats(0.0, 0.5))),
        loading=loading,
        buckets=simulate.ffn_buckets(2, 4, draw(st.sampled_from([None, 1000, 4000]))),
        allreduce_s=draw(st.sampled_from([free, ring_like])),
        update_s=draw(st.floats(0.0, 0.1)),
    )


def total(of: Job, ranks: int) -> float:
    """Seconds of the first steps from a fixed start: every event in them can only move one way."""
    return simulate.simulate(of, ranks, steps=20 * REPLICAS, warmup=0).step_s


@settings(max_examples=40, deadline=None)
@given(jobs(), st.integers(1, 12), st.integers(1, 12))
def test_more_ranks_never_shorten_a_step(of: Job, ranks: int, more: int) -> None:
    slack = 1e-12  # of sums in another order
    assert total(of, ranks) <= total(of, ranks + more) * (1 + slack)


@settings(max_examples=40, deadline=None)
@given(jobs(), st.integers(1, 12))
def test_efficiency_is_at_most_one(of: Job, ranks: int) -> None:
    alone, together = (simulate.simulate(of, r, steps=640, warmup=0) for r in (1, ranks))
    assert together.fovs_per_s <= ranks * alone.fovs_per_s * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(jobs(), st.integers(1, 8), st.integers(1, 4))
def test_prefetch_never_slows_a_run(of: Job, ranks: int, more: int) -> None:
    if of.loading is None:
        return
    deeper = dataclasses.replace(of.loading, prefetch=of.loading.prefetch + more)
    assert total(dataclasses.replace(of, loading=deeper), ranks) <= total(of, ranks) * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(jobs(), st.integers(2, 10), st.floats(0.0, 1.0))
def test_backup_ranks_that_start_together_never_lengthen_a_step(
    of: Job, ranks: int, backup: float
) -> None:
    plain = dataclasses.replace(of, loading=None, allreduce_s=free, buckets=ONE_BUCKET)
    assert total(dataclasses.replace(plain, backup=backup), ranks) <= total(plain, ranks) * (
        1 + 1e-12
    )


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    straggling = job(compute=Compute(mean_s=1.0, sigma=0.2), loading=Loading(load_s=0.3, moves=2.5))
    first = simulate.simulate(straggling, 7, seed=3)
    assert simulate.simulate(straggling, 7, seed=3) == first
    assert simulate.simulate(straggling, 7, seed=4) != first


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Compute(mean_s=0.0), "0.0 s, expected 1e-09 to"),
    (lambda: Compute(mean_s=math.nan), "nan s"),
    (lambda: Compute(mean_s=1.0, sigma=-1.0), "sigma is -1.0"),
    (lambda: Compute(mean_s=1.0, sigma=1.0, samples=(1.0,)), "both samples and sigma"),
    (lambda: Compute(mean_s=1.0, samples=(1.0, -1.0)), "-1.0 s, expected 1e-09 to"),
    (lambda: Loading(load_s=-1.0, moves=2), "-1.0 s"),
    (lambda: Loading(load_s=1.0, moves=0.5), "0.5 moves"),
    (lambda: Loading(load_s=1.0, moves=math.inf), "inf moves"),
    (lambda: simulate.simulate(job(), 2**19), "524288 ranks .* expected at most"),
    (lambda: simulate.simulate(job(), 1, seed=2**64), "seed below 2"),
    (lambda: Loading(load_s=1.0, moves=2, prefetch=-1), "prefetch is -1"),
    (lambda: Loading(load_s=1.0, moves=2, prefetch=1, readers=0), "0 readers"),
    (lambda: job(walkers_per_rank=0), "0 walkers"),
    (lambda: job(update_s=-1.0), "update of -1.0"),
    (lambda: job(backup=math.inf), "backup share is inf"),
    (lambda: job(late="never"), "late is 'never', expected one of abandon, drop, carry"),
    (lambda: simulate.simulate(job(), 0), "0 ranks"),
    (lambda: simulate.simulate(job(), 1, steps=0), "0 steps"),
    (lambda: simulate.simulate(job(), 1, warmup=-1), "1 ranks"),
    (lambda: simulate.ffn_buckets(0, 32), "depth is 0, expected 1 to 1000"),
    (lambda: simulate.ffn_buckets(9, 32, 3), "buckets of 3 bytes, expected at least 4"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_numbers_out_of_range_are_errors(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def paper_rows(ranks: tuple[int, ...]) -> dict[str, list[figures.Row]]:
    return {
        named.scenario: scenarios.sweep(named, ranks, steps=2000, seed=0)
        for named in scenarios.paper_jobs()
    }


def test_explanations_reach_the_papers_largest_run_and_differ_in_shape() -> None:
    rows = paper_rows((1, 4, 128, 1024))
    stall, straggler = rows[figures.STALL], rows[figures.STRAGGLER]
    for found in (stall, straggler):
        assert found[0].step_s == pytest.approx(paper.ONE_NODE_STEP_S, rel=2e-3)
    assert stall[1].efficiency > straggler[1].efficiency + 0.04  # few ranks: stalls cost less
    assert stall[2].efficiency < straggler[2].efficiency - 0.04  # then more,
    assert stall[2].efficiency - stall[3].efficiency < 0.005  # and no more beyond
    assert straggler[2].efficiency - straggler[3].efficiency > 0.04
    for largest in (stall[3], straggler[3]):
        assert largest.efficiency == pytest.approx(paper.EFFICIENCY, abs=0.01)
        assert largest.fovs_per_s == pytest.approx(paper.FOVS_PER_S, rel=0.01)
    assert rows[figures.STALL_PREFETCH][3].efficiency >= 0.95
    partial = rows[figures.STRAGGLER_PARTIAL][3]
    assert partial.paid_efficiency == pytest.approx(0.80, abs=0.01)
    assert 0.03 < partial.paid_ranks / 1024 - 1 < 0.07


def test_a_run_gives_the_models_figures(tmp_path: Path) -> None:
    found = simulate.calibrate(write_run(tmp_path / "run"))
    assert (found.name, found.ranks, found.threads) == ("run", 2, 1)
    assert (found.depth, found.features, found.bucket_mib) == (9, 32, 0.5)
    expected = {
        "walkers_per_rank": 2.0,
        "compute_s": 0.25,  # 2 x 5 s over 40 fields of view of a rank
        "update_s": 0.01,
        "moves": 5.0,
        "stall_s": 0.1,  # 0.8 s over the 8 patches of each rank
        "reduce_s": 0.06,
        "step_s": 0.625,
        "fovs_per_s": 6.4,
    }
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name
    assert found.samples == ()


def test_accumulated_fields_of_view_belong_to_one_step(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "config.toml").write_text(CONFIG.replace("accumulate = 1", "accumulate = 2"))
    found = simulate.calibrate(folder)
    assert found.walkers_per_rank == 4
    assert found.compute_s == pytest.approx(0.25)
    assert found.step_s == pytest.approx(1.25)
    assert found.update_s == pytest.approx(0.02)


def test_a_record_a_step_on_one_rank_gives_samples(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    seconds = np.linspace(0.2, 0.3, 41)
    record = {"kind": "train", "fovs": 2, "examples": 1, "fovs_per_s": 4.0, "update_s": 0.0}
    record |= {"wait_data_s": 0.0, "wait_comm_s": 0.0}
    records = [{"kind": "start", "step": 0, "ranks": 1, "walkers": 2, "threads": 1}] + [
        record | {"step": index, "compute_s": 2 * s} for index, s in enumerate(seconds)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    found = simulate.calibrate(folder)
    np.testing.assert_allclose(found.samples, seconds[1:], rtol=1e-12)
    assert found.compute_s == pytest.approx(seconds[1:].mean(), rel=1e-12)


@pytest.mark.parametrize("absent", ["fovs", "compute_s", "update_s"])
def test_a_log_without_what_is_needed_is_an_error(tmp_path: Path, absent: str) -> None:
    folder = write_run(tmp_path / "run", **{absent: None})
    with pytest.raises(InvalidFileError, match=r"at least one record of training steps"):
        simulate.calibrate(folder)


def test_a_run_of_a_u_net_is_an_error(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "config.toml").write_text('[model]\nkind = "unet"\n[task]\nkind = "affinities"\n')
    with pytest.raises(InvalidFileError, match=r"model\.kind 'unet', simulate expects 'ffn'"):
        simulate.calibrate(folder)


def test_a_run_without_training_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.jsonl").write_text('{"kind": "start", "step": 0, "ranks": 1, "walkers": 1}\n')
    with pytest.raises(InvalidFileError, match=r"at least one record of training steps"):
        simulate.calibrate(folder)
    with pytest.raises(InvalidFileError, match="no run directory"):
        simulate.calibrate(tmp_path / "absent")


def test_the_trainers_buckets_are_the_models(tmp_path: Path) -> None:
    write_volume(tmp_path)
    model = {"depth": 3, "features": 8}
    comm = {"bucket_mib": 0.01}
    sections = {"model": model, "comm": comm, "training": {"steps": 2, "walkers": 2}}
    trainer = Trainer.from_config(
        config.from_dict(document(tmp_path, validation={"box": ""}, **sections))
    )
    sent: list[int] = []
    trainer._core.set_bucket_hook(lambda index, buffer, *_: sent.append(buffer.nbytes))
    trainer.run()
    buckets = [bucket.bytes for bucket in simulate.ffn_buckets(3, 8, round(0.01 * 2**20))]
    assert len(buckets) > 2
    assert sent == 2 * buckets


def test_the_log_of_a_training_run_is_understood(tmp_path: Path) -> None:
    write_volume(tmp_path)
    steps, walkers = 30, 2
    sections = {"training": {"steps": steps, "walkers": walkers}, "validation": {"box": ""}}
    trainer = Trainer.from_config(config.from_dict(document(tmp_path, **sections)))
    trainer.run()
    found = simulate.calibrate(tmp_path / "run")
    assert (found.ranks, found.walkers_per_rank, found.depth, found.features) == (1, 2, 2, 4)
    assert len(found.samples) == steps - 1
    assert found.compute_s == pytest.approx(float(np.mean(found.samples)), rel=1e-9)
    assert 1 <= found.moves <= 27
    assert walkers * found.compute_s + found.reduce_s + found.update_s <= found.step_s
    assert found.fovs_per_s == pytest.approx(walkers / found.step_s, rel=1e-9)
