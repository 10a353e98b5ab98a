# SPDX-License-Identifier: Apache-2.0
"""What the simulator says of single sums and single steps, beside formulas in closed form."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from simulated_runs import measured_file

from floodtide import nn
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.lab import simulate
from floodtide.lab.simulate import paper, scenarios
from floodtide.lab.simulate.allreduce import ALGORITHMS, MeasuredAllreduce, allreduce_cpu_s
from floodtide.lab.simulate.networks import MEMORY, Interconnect

pytestmark = pytest.mark.extra

GRADIENT = 1889412  # bytes of the published network's 472,353 parameters
FAST = simulate.Links(network=simulate.NETWORKS["dragonfly"], add_s_per_byte=1 / 3e9)
SLOW = simulate.Links(network=simulate.NETWORKS["10gbe"])
ROUNDING = 64 * np.finfo(float).eps  # of a few dozen sums and products


def cost(algorithm: str, ranks: int, links: simulate.Links, size: int = GRADIENT) -> float:
    return simulate.allreduce_cost_s(algorithm, size, ranks, links)


@pytest.mark.parametrize("links", [FAST, SLOW], ids=["dragonfly", "10gbe"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 16, 1000, 1024])
def test_costs_are_the_alpha_beta_gamma_formulas(ranks: int, links: simulate.Links) -> None:
    alpha, beta = links.network.alpha_s, links.network.beta_s_per_byte
    gamma, n, p = links.add_s_per_byte, GRADIENT, ranks
    rounds = int(math.log2(p))
    q = 2**rounds
    extra = 0 if p == q else 1  # ranks beyond a power of two: a message (or half) there, one back
    formulas = {
        "ring": 2 * (p - 1) * alpha + (p - 1) / p * n * (2 * beta + gamma),
        "rabenseifner": (2 * rounds + 2 * extra) * alpha
        + (2 * (q - 1) / q + extra) * n * beta
        + ((q - 1) / q + extra / 2) * n * gamma,
        "recursive_doubling": (rounds + 2 * extra) * alpha
        + (rounds + 2 * extra) * n * beta
        + (rounds + extra) * n * gamma,
    }
    for algorithm, expected in formulas.items():
        assert cost(algorithm, ranks, links) == pytest.approx(expected, rel=ROUNDING)
    assert cost("two_level", ranks, links) == cost("rabenseifner", ranks, links)


@pytest.mark.parametrize(
    ("algorithm", "links", "expected_ms"),
    [
        ("ring", FAST, {16: 1.04, 64: 1.29, 256: 2.07, 1024: 5.14, 2048: 9.24}),
        ("rabenseifner", FAST, {16: 1.00, 64: 1.06, 256: 1.08, 1024: 1.09, 2048: 1.09}),
        ("recursive_doubling", FAST, {16: 3.37, 64: 5.05, 256: 6.73, 1024: 8.42, 2048: 9.26}),
        ("ring", SLOW, {16: 3.66, 64: 5.73, 256: 13.45, 1024: 44.2, 2048: 85.1}),
        ("rabenseifner", SLOW, {16: 3.22, 64: 3.45, 256: 3.57, 1024: 3.66, 2048: 3.70}),
        ("recursive_doubling", SLOW, {16: 7.07, 64: 10.6, 256: 14.1, 1024: 17.7, 2048: 19.4}),
    ],
)
def test_costs_are_those_computed_by_hand(
    algorithm: str, links: simulate.Links, expected_ms: dict[int, float]
) -> None:
    for ranks, expected in expected_ms.items():
        digits = 10.0 ** (math.floor(math.log10(expected)) - 2)  # three are given
        assert 1e3 * cost(algorithm, ranks, links) == pytest.approx(expected, abs=0.51 * digits)


def test_two_levels_send_a_nodes_share_between_nodes() -> None:
    links = simulate.Links(network=SLOW.network, ranks_per_node=8)
    gamma, n = links.add_s_per_byte, GRADIENT
    within = 14 * MEMORY.alpha_s + 7 / 8 * n * (2 * MEMORY.beta_s_per_byte + gamma)
    # Eight ranks of a node send an eighth each through one adapter.
    between = 2 * 4 * SLOW.network.alpha_s + 15 / 16 * n * (
        2 * SLOW.network.beta_s_per_byte + gamma / 8
    )
    assert cost("two_level", 128, links) == pytest.approx(within + between, rel=ROUNDING)
    assert cost("two_level", 8, links) == pytest.approx(within, rel=ROUNDING)


def test_an_adapter_is_shared_by_the_ranks_that_send_through_it() -> None:
    links = simulate.Links(network=SLOW.network, ranks_per_node=4)
    alpha, beta, gamma = SLOW.network.alpha_s, SLOW.network.beta_s_per_byte, links.add_s_per_byte
    exchanges = 2 * (MEMORY.alpha_s + GRADIENT * MEMORY.beta_s_per_byte)
    exchanges += 2 * (alpha + 4 * GRADIENT * beta) + 4 * GRADIENT * gamma
    assert cost("recursive_doubling", 16, links) == pytest.approx(exchanges, rel=ROUNDING)
    assert cost("ring", 16, links) == cost("ring", 16, SLOW)  # one of the four sends


def test_the_processors_share_is_that_of_the_bytes_that_leave_a_node() -> None:
    tcp = Interconnect(name="tcp", alpha_s=1e-5, beta_s_per_byte=1e-9, cpu_s_per_byte=2e-9)
    apart = simulate.Links(network=tcp)
    for algorithm, ranks, share in (
        ("ring", 1, 0.0),
        ("ring", 4, 2 * 3 / 4),
        ("rabenseifner", 4, 2 * 3 / 4),
        ("recursive_doubling", 4, 2.0),
    ):
        found = allreduce_cpu_s(algorithm, GRADIENT, ranks, apart)
        assert found == pytest.approx(share * GRADIENT * 2e-9, rel=ROUNDING)
    nodes_of_four = simulate.Links(network=tcp, ranks_per_node=4)
    assert allreduce_cpu_s("rabenseifner", GRADIENT, 4, nodes_of_four) == 0.0
    cheapest = min(ALGORITHMS, key=lambda name: cost(name, 16, apart))
    best = allreduce_cpu_s("best", GRADIENT, 16, apart)
    assert best == allreduce_cpu_s(cheapest, GRADIENT, 16, apart)


@pytest.mark.parametrize(
    ("ranks", "rounds"), [(1, 0), (2, 1), (3, 2), (8, 3), (1000, 10), (1024, 10)]
)
def test_agreement_costs_a_latency_for_each_doubling_of_the_ranks(ranks: int, rounds: int) -> None:
    size = 88 + 8 * math.ceil(ranks / 64)
    expected = rounds * (SLOW.network.alpha_s + size * SLOW.network.beta_s_per_byte)
    assert simulate.agreement_s(ranks, SLOW) == pytest.approx(expected, rel=ROUNDING)


def test_agreement_within_a_node_stays_in_its_memory() -> None:
    links = simulate.Links(network=SLOW.network, ranks_per_node=4)
    memory = MEMORY.alpha_s + 96 * MEMORY.beta_s_per_byte
    assert simulate.agreement_s(4, links) == pytest.approx(2 * memory, rel=ROUNDING)
    # Ranks at distance 1, 2 and 4 of 8: one, two and four of a node's ranks send to the other node.
    between = 3 * SLOW.network.alpha_s + (1 + 2 + 4) * 96 * SLOW.network.beta_s_per_byte
    assert simulate.agreement_s(8, links) == pytest.approx(between, rel=ROUNDING)


@pytest.mark.parametrize("ranks", [0, -1])
def test_agreement_of_no_ranks_is_an_error(ranks: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"agreement: {ranks} ranks"):
        simulate.agreement_s(ranks, SLOW)


@given(
    algorithm=st.sampled_from([*ALGORITHMS, "best"]),
    ranks=st.integers(1, 3000),
    size=st.integers(0, 10**8),
    node=st.integers(1, 64),
)
def test_costs_are_finite_and_grow_with_the_bytes(
    algorithm: str, ranks: int, size: int, node: int
) -> None:
    links = simulate.Links(network=FAST.network, ranks_per_node=node)
    smaller, larger = (
        simulate.allreduce_cost_s(algorithm, s, ranks, links) for s in (size, 2 * size + 1)
    )
    assert math.isfinite(smaller)
    if ranks == 1:
        assert smaller == larger == 0
    else:
        assert 0 < smaller < larger
        assert (
            smaller <= simulate.allreduce_cost_s("ring", size, ranks, links) or algorithm != "best"
        )


@pytest.mark.parametrize(
    ("algorithm", "size", "ranks", "message"),
    [
        ("mpi", 1, 2, "no cost formula for 'mpi'"),
        ("ring", -1, 2, "-1.* bytes"),
        ("ring", 1, 0, "0 ranks"),
    ],
)
def test_a_cost_that_cannot_be_given_is_an_error(
    algorithm: str, size: int, ranks: int, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        simulate.allreduce_cost_s(algorithm, size, ranks, FAST)


def test_measured_times_are_interpolated_and_not_continued(tmp_path: Path) -> None:
    measured = MeasuredAllreduce.read(measured_file(tmp_path / "rows.jsonl"))
    assert measured.cost_s("ring", 400, 2) == 1.0
    assert measured.cost_s("ring", 600, 8) == pytest.approx(4.5, rel=ROUNDING)
    assert measured.cost_s("ring", 400, 4) == pytest.approx(2.0, rel=ROUNDING)  # halfway in log2
    assert measured.cost_s("ring", 10**9, 1) == 0.0
    for size, ranks, message in [
        (400, 9, "2 to 8 ranks, not on 9"),
        (396, 4, "400 to 800 bytes on 2 ranks, not with 396"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            measured.cost_s("ring", size, ranks)
    with pytest.raises(InvalidArgumentError, match="nothing about 'mpi', expected one of ring"):
        measured.cost_s("mpi", 400, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no row of floodtide bench allreduce"),
        ("nonsense\n", "line 1: expected"),
        ("[1]\n", "line 1: expected"),
        ('{"name": "allreduce ring", "kernel": "ring", "ranks": 2}\n', "line 1: expected"),
        (
            '\n{"name": "allreduce ring", "kernel": "ring", "ranks": 2, "shape": "1 float32", '
            '"median_s": -1}\n',
            "line 2: expected",
        ),
    ],
)
def test_a_malformed_file_of_times_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=message):
        MeasuredAllreduce.read(path)
    with pytest.raises(InvalidFileError, match="cannot be read"):
        MeasuredAllreduce.read(tmp_path / "absent.jsonl")


FLAGS = 16  # values in front of the gradient: one cache line


@pytest.mark.parametrize(("depth", "features"), [(1, 4), (3, 16), (9, 32), (12, 32)])
def test_buckets_hold_the_networks_parameters(depth: int, features: int) -> None:
    model = nn.FFN(depth=depth, fov=(5, 5, 5), deltas=(1, 1, 1), features=features)
    parameters = 4 * sum(array.size for array in model.state_dict().values())
    expected = parameters + 4 * FLAGS
    for bucket_bytes in (None, 4, 100_000, 10**9):
        buckets = simulate.ffn_buckets(depth, features, bucket_bytes)
        assert sum(bucket.bytes for bucket in buckets) == expected
        assert buckets[-1].ready == 1.0
        assert list(buckets) == sorted(buckets, key=lambda bucket: bucket.ready)
    assert len(simulate.ffn_buckets(depth, features)) == 1


def test_the_published_networks_buckets_are_the_trainers() -> None:
    buckets = simulate.ffn_buckets(9, 32, 2**18)
    layer = 4 * (27 * 32 * 32 + 32)
    head, first = 4 * 33, 4 * (27 * 2 * 32 + 32)
    assert [bucket.bytes for bucket in buckets] == [
        head + 3 * layer,
        *[3 * layer] * 4,
        2 * layer + first + 4 * FLAGS,
    ]
    # The last of a bucket's layers has the gradient of its weights, the one of its input is not needed for that.
    products = np.array([2 * 3 * bucket - 1 for bucket in range(1, 6)])
    assert [bucket.ready for bucket in buckets[:5]] == pytest.approx(products / 34, abs=0.01)
    assert buckets[-1].ready == 1.0


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(2, 0.564), (8, 1.424), (32, 2.070), (64, 2.344), (256, 2.827), (1024, 3.248), (2048, 3.442)],
)
def test_the_slowest_of_many_agrees_with_the_normal_order_statistic(
    ranks: int, expected: float
) -> None:
    def density(z: float) -> float:
        return float(ranks * stats.norm.pdf(z) * stats.norm.cdf(z) ** (ranks - 1))

    mean = integrate.quad(lambda z: z * density(z), -10, 10, limit=200)[0]
    assert mean == pytest.approx(expected, abs=6e-4)
    sigma = 0.107
    slowest = integrate.quad(
        lambda z: math.exp(sigma * z - 0.5 * sigma**2) * density(z), -10, 10, limit=200
    )[0]
    assert scenarios.expected_slowest(sigma, ranks) == pytest.approx(slowest, rel=1e-7)


def test_explanations_are_fitted_to_the_papers_efficiency() -> None:
    ratio = scenarios.explaining_ratio(paper.EFFICIENCY, paper.MOVES_PER_PATCH, paper.NODES)
    sigma = scenarios.explaining_sigma(paper.EFFICIENCY, paper.NODES)
    assert ratio == pytest.approx(0.431, abs=5e-4)
    assert sigma == pytest.approx(0.107, abs=5e-4)
    stalls = {
        2: 0.985,
        8: 0.913,
        16: 0.850,
        32: 0.780,
        64: 0.730,
        128: 0.712,
        256: 0.710,
        1024: 0.710,
    }
    stragglers = {2: 0.943, 8: 0.862, 32: 0.805, 128: 0.761, 512: 0.726, 1024: 0.710, 2048: 0.695}
    for ranks, expected in stalls.items():
        delayed = 1 - (1 - 1 / paper.MOVES_PER_PATCH) ** ranks
        efficiency = (1 + ratio / paper.MOVES_PER_PATCH) / (1 + ratio * delayed)
        assert efficiency == pytest.approx(expected, abs=1.5e-3)
    for ranks, expected in stragglers.items():
        efficiency = 1 / scenarios.expected_slowest(sigma, ranks)
        assert efficiency == pytest.approx(expected, abs=1.5e-3)


def test_what_cannot_be_explained_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="stalls every 27 steps on 1 rank "):
        scenarios.explaining_ratio(0.71, 27, 1)
    with pytest.raises(InvalidArgumentError, match="no spread of 1 rank "):
        scenarios.explaining_sigma(0.71, 1)
