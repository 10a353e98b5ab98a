# SPDX-License-Identifier: Apache-2.0
"""`floodtide.verify_gradients`: check that averaging over ranks gives the gradient of all samples.

Let rank r have n_r samples, and let g_r be the gradient of their mean loss. Let n be the sum of all n_r. Training needs
e = sum of (n_r / n) g_r. Every rank computes all g_r itself and adds them in double precision, so e is known almost
exactly. The average a, which the ranks computed by communication, may differ from e only by rounding. N products,
N - 1 additions and one division in precision u give, entry by entry,

    |a - e| <= gamma(N + 2) * sum of (n_r / n) |g_r|,    gamma(k) = k u / (1 - k u)

for every order of summation (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). If the
difference is larger, the weights w in a = sum of w_r g_r, found by least squares, show what went wrong.

A second check compares the average with central differences of the mean loss over all samples, along the average and
along a random direction.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from floodtide.comm import reduction_rules, reductions, world
from floodtide.errors import GradientError, InvalidArgumentError, ShapeError, on_all_ranks

Array = NDArray[Any]
Gradients = Mapping[str, Array]

UNIT_ROUNDOFF = 2.0**-24  # of float32
# maximum memory for the gradients of all ranks, which are kept for the diagnosis
DIAGNOSIS_BYTES = 2**30
# Steps of the central differences, relative to the norm of the parameters. The curvature is largest along the gradient.
GRADIENT_STEP, RANDOM_STEP = 1e-4, 1e-3
OFFSET = 1e-3  # distance, relative to the norm, between the parameters and the point of the central differences
KINKS = 0.01  # relative change of a slope that kinks of ReLUs within a step may cause


class Differentiable(Protocol):
    """Methods that verify_gradients needs of a network. `floodtide.nn.FFN` has them."""

    def loss_and_gradients(self, *batch: Any) -> tuple[float, Mapping[str, Array]]:
        """Return the mean loss over the samples of the batch, and {name: gradient of that mean}."""

    def state_dict(self) -> Mapping[str, Array]:
        """Return {name: copy of a parameter}, with the same names as the gradients."""

    def load_state_dict(self, state: Mapping[str, Array], /) -> None:
        """Set the parameters."""


@dataclass(frozen=True, kw_only=True)
class GradientCheck:
    """Result of verify_gradients. `loss` and `largest_error` may differ between ranks with different processors.

    Attributes:
        ranks: Number of ranks.
        samples: Number of samples of all ranks together.
        loss: Mean loss over all samples.
        share_of_bound: Largest |average - gradient of all samples| of an entry, divided by the bound of that entry; at
            most 1.
        largest_error: Largest |average - gradient of all samples| of an entry on this rank, in units of the gradient.
        finite_difference_error: Largest relative difference between the slope that the gradient predicts along a
            direction and the central difference along it.
    """

    ranks: int
    samples: int
    loss: float
    share_of_bound: float
    largest_error: float
    finite_difference_error: float


def verify_gradients(
    network: Differentiable,
    *batch: Array | None,
    average: Callable[[Gradients], Gradients] | None = None,
    tolerance: float = 0.0,
    unit_roundoff: float = UNIT_ROUNDOFF,
    seed: int = 0,
) -> GradientCheck:
    """Check that the average of gradients over ranks equals the gradient of all samples. Collective.

    Prints nothing. Takes about as long as `ranks + 10` gradients, because each rank computes the gradients of all
    ranks. The parameters of the network are unchanged at the end.

    Args:
        network: A network with equal parameters on all ranks, for example a `floodtide.nn.FFN`.
        batch: Arguments of `network.loss_and_gradients` with the samples of this rank: arrays whose first axis counts
            samples, or None. The number of samples may differ between ranks. For an FFN: image, logits, labels,
            weights, each float32 (n, z, y, x).
        average: Function that averages over ranks. It takes this rank's {name: gradient} and returns the average over
            all samples. None: `floodtide.allreduce`, weighted by the number of samples.
        tolerance: Additional difference that is allowed, relative to the largest entry of the gradient. Ranks on
            different processors use different kernels and cannot agree to the last bit.
        unit_roundoff: Unit roundoff of the number format of messages; 2**-8 for bfloat16.
        seed: Seed of the random direction.

    Returns:
        The errors, and how they compare with the bound (see the text of the module).

    Raises:
        GradientError: On all ranks, if parameters differ between ranks, if the average is wrong, if ranks hold
            different averages, or if the gradient is not the derivative of the loss. The message names the cause of a
            wrong average: a wrong factor, a missing rank or wrong weights.
        ShapeError: On all ranks, if the arrays of a rank differ in length or are empty.

    Source: Higham (2002), section 3.1; docs/algorithms.md, "Verifying gradients".
    """
    world.ensure_init()
    with world.agreed():
        if not 0 <= tolerance < 1 or not 0 < unit_roundoff < 1:
            raise InvalidArgumentError(
                f"verify_gradients: tolerance is {tolerance}, unit_roundoff {unit_roundoff}, "
                "expected at least 0 and above 0, both below 1"
            )
        samples = _samples(batch)
        parameters = {name: np.array(a) for name, a in network.state_dict().items()}
        _, own = network.loss_and_gradients(*batch)
    _require_equal_parameters(parameters)
    counts = [int(part) for part in world.allgather_bytes(str(samples).encode())]
    reduce = average or (lambda own: _weighted_average(own, samples, sum(counts)))
    averaged = reduce(own)
    names = sorted(own)
    with world.agreed():
        _require_names(own, averaged)
    serial = _Serial(network, batch, _flat(own, names), counts)
    gamma = (len(counts) + 2) * unit_roundoff
    gamma /= 1 - gamma
    bound = gamma * serial.magnitude
    bound += tolerance * np.abs(serial.gradient).max() + np.finfo(np.float32).smallest_normal
    if serial.largest_deviation > tolerance:
        raise _agreed(
            f"rank {serial.deviating_rank} computes other gradients than other ranks from the same samples (difference "
            f"{serial.largest_deviation:.2g} of the largest entry, tolerance {tolerance:.2g}): its processor or "
            "kernels differ, or the network is not deterministic"
        )
    difference = np.abs(_flat(averaged, names) - serial.gradient)
    worst = int(np.argmax(difference / bound))
    share = float(difference[worst] / bound[worst])
    message = ""
    if not share <= 1:  # a NaN is none
        message = serial.diagnosis(_flat(averaged, names), _place(own, names, worst), share)
    found = [json.loads(r) for r in world.allgather_bytes(json.dumps([message, share]).encode())]
    _raise_wrong([text for text, _ in found])
    _require_equal_averages(_flat(averaged, names))
    try:
        slope_error = _Slopes(network, batch, counts, reduce, parameters).largest_error(seed)
    finally:
        network.load_state_dict(parameters)
    return GradientCheck(
        ranks=len(counts),
        samples=sum(counts),
        loss=serial.loss,
        share_of_bound=max(value for _, value in found),
        largest_error=float(difference.max()),
        finite_difference_error=slope_error,
    )


class _Serial:
    """The gradient of all samples, computed on this rank alone from the samples of all ranks. Collective to build."""

    def __init__(
        self,
        network: Differentiable,
        batch: Sequence[Array | None],
        own: Array,
        counts: Sequence[int],
    ) -> None:
        self.counts = counts
        self.gradient = np.zeros(own.size)
        self.magnitude = np.zeros(own.size)
        self.loss = 0.0
        self.largest_deviation, self.deviating_rank = 0.0, 0
        self._shares: list[Array] = []
        for rank, count in enumerate(counts):
            share, theirs = world.broadcast_object((batch, own), rank)
            loss, gradients = network.loss_and_gradients(*share)
            here = _flat(gradients, sorted(gradients))
            weight = count / sum(counts)
            self.loss += weight * loss
            self.gradient += weight * here
            self.magnitude += weight * np.abs(here)
            deviation = np.abs(here - theirs).max() / max(np.abs(here).max(), np.finfo(float).tiny)
            if not deviation <= self.largest_deviation:
                self.largest_deviation, self.deviating_rank = float(deviation), rank
            if len(counts) * own.nbytes <= DIAGNOSIS_BYTES:
                self._shares.append(here)
        deviations = world.allgather_bytes(
            json.dumps([self.largest_deviation, self.deviating_rank]).encode()
        )
        self.largest_deviation, self.deviating_rank = max(json.loads(text) for text in deviations)

    def diagnosis(self, averaged: Array, place: str, share: float) -> str:
        """Return a text that says what is wrong with an average."""
        if not np.isfinite(averaged).all() or not np.isfinite(self.gradient).all():
            return f"the average or the gradient of all samples is not finite ({place})"
        if not averaged.any():
            return "the average is zero"
        basis = np.array(self._shares or [self.gradient])
        target = np.array(self.counts if self._shares else [1.0])
        target = target / target.sum()
        weights = np.linalg.lstsq(basis @ basis.T, basis @ averaged, rcond=1e-9)[0]
        left = np.linalg.norm(averaged - weights @ basis) / np.linalg.norm(averaged)
        if left > 1e-3:
            return (
                f"the average is no combination of the ranks' gradients; the error of {place} is {share:.3g} times "
                "the bound for rounding errors"
            )
        return _explain(weights, target, self.counts)


def _explain(weights: Array, expected: Array, counts: Sequence[int]) -> str:
    """Return a text about wrong weights of ranks in an average. A single weight stands for all ranks together."""
    ranks, ratios = len(counts), weights / expected
    missing = [str(rank) for rank in range(len(weights)) if abs(ratios[rank]) < 0.01]
    if missing:
        return f"the gradients of rank {', '.join(missing)} are missing from the average"
    factor = float(np.median(ratios))
    if np.allclose(ratios, factor, rtol=0.01):
        known = ""
        if math.isclose(factor, 1 / ranks, rel_tol=0.01):
            known = ": divided by the number of ranks twice"
        elif math.isclose(factor, ranks, rel_tol=0.01):
            known = ": summed, not averaged"
        return f"the average is {factor:.4g} times the gradient of all samples{known}"
    if np.allclose(weights, 1 / ranks, rtol=0.01):
        sizes = ", ".join(map(str, counts))
        return f"every rank counts alike although they have {sizes} samples: weight them by samples"
    worst = int(np.argmax(np.abs(ratios - 1)))
    return f"rank {worst} enters the average with weight {weights[worst]:.4g}, expected {expected[worst]:.4g}"


def _samples(batch: Sequence[Array | None]) -> int:
    lengths = {len(a) for a in batch if a is not None and a.ndim > 0}
    if len(lengths) != 1 or lengths == {0}:
        shapes = ", ".join("None" if a is None else str(a.shape) for a in batch)
        raise ShapeError(
            f"verify_gradients: expected arrays whose first axis counts the same samples, at least one, got {shapes}"
        )
    return lengths.pop()


def _weighted_average(own: Gradients, samples: int, total: int) -> Gradients:
    return {
        name: reductions.allreduce(array * array.dtype.type(samples), op=reduction_rules.Sum)
        / array.dtype.type(total)
        for name, array in own.items()
    }


def _require_names(own: Gradients, averaged: Gradients) -> None:
    for name, array in own.items():
        if name not in averaged or averaged[name].shape != array.shape:
            got = averaged[name].shape if name in averaged else "nothing"
            raise ShapeError(
                f"verify_gradients: average of {name} is {got}, expected {array.shape}"
            )


def _require_equal_parameters(parameters: Gradients) -> None:
    different = _first_different(parameters)
    if different:
        raise _agreed(
            f"rank {different} has other parameters than rank 0: call floodtide.broadcast_parameters before training"
        )


def _require_equal_averages(averaged: Array) -> None:
    different = _first_different({"average": averaged})
    if different:
        raise _agreed(
            f"rank {different} holds another average than rank 0 (within rounding): replicas would drift apart"
        )


def _first_different(arrays: Gradients) -> int:
    """Return the first rank whose arrays differ from those of rank 0 in any bit; 0 if there is none. Collective."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    digests = world.allgather_bytes(digest.digest())
    return next((rank for rank, other in enumerate(digests) if other != digests[0]), 0)


def _raise_wrong(messages: Sequence[str]) -> None:
    wrong = [rank for rank, message in enumerate(messages) if message]
    if not wrong:
        return
    where = ""
    if len(wrong) < len(messages):
        where = f" (on rank {', '.join(map(str, wrong))} of {len(messages)})"
    raise _agreed(messages[wrong[0]] + where)


class _Slopes:
    """Comparison of the averaged gradient with differences of the mean loss near the parameters. Collective to use.

    The loss of a network with ReLUs has kinks, and zero biases put some kinks exactly at the initial parameters.
    Therefore the comparison uses a point near the parameters, and fails only if it also fails at two other points.
    """

    def __init__(
        self,
        network: Differentiable,
        batch: Sequence[Array | None],
        counts: Sequence[int],
        average: Callable[[Gradients], Gradients],
        parameters: Gradients,
    ) -> None:
        self._network, self._batch, self._counts, self._average = network, batch, counts, average
        self._like, self._names = parameters, sorted(parameters)

    def largest_error(self, seed: int) -> float:
        """Return the largest relative error along the gradient and along a random direction.

        Raises:
            GradientError: If the gradient is not the derivative of the loss.
        """
        error, message = self._compare(np.random.default_rng([seed, 0]))
        if message:  # kinks may cause two failures, mostly in small networks, but not three
            others = [self._compare(np.random.default_rng([seed, trial])) for trial in (1, 2)]
            passed = [value for value, text in others if not text]
            if not passed:
                raise _agreed(message)
            error = max(passed)
        return error

    def _compare(self, random: np.random.Generator) -> tuple[float, str]:
        start = _flat(self._like, self._names)
        length = float(np.linalg.norm(start)) or 1.0
        start = start + OFFSET * length * _unit(random.standard_normal(start.size))
        loss, own = self._evaluate(start)
        gradient = _flat(self._average(own), self._names)
        # All arrays move by the same distance, so that the few biases matter as much as the many weights.
        even = [_unit(random.standard_normal(self._like[n].size)) for n in self._names]
        largest = 0.0
        for what, vector, share in (
            ("the gradient", gradient, GRADIENT_STEP),
            ("a random direction", np.concatenate(even), RANDOM_STEP),
        ):
            step, direction = share * length, _unit(vector)
            coarse, _ = self._slopes(start, gradient, step * direction)
            fine, expected = self._slopes(start, gradient, step / 4 * direction)
            rounding = 4 * UNIT_ROUNDOFF * max(1.0, abs(loss))  # of the losses at both ends
            error = abs(fine - expected)
            if not error <= 4 * abs(coarse / 4 - fine) + rounding + KINKS * abs(fine):
                return error, (
                    f"along {what} the loss rises by {fine / (step / 4):.6g} per unit of length, the gradient says "
                    f"{expected / (step / 4):.6g}: it is not the derivative of the loss"
                )
            largest = max(largest, error / max(abs(fine), abs(expected), rounding))
        return largest, ""

    def _slopes(self, start: Array, gradient: Array, move: Array) -> tuple[float, float]:
        """Return half the difference of the losses at start + move and start - move, and the gradient's prediction."""
        ends = [(start + sign * move).astype(np.float32).astype(np.float64) for sign in (1, -1)]
        losses = [self._evaluate(end)[0] for end in ends]
        return (losses[0] - losses[1]) / 2, float(gradient @ (ends[0] - ends[1])) / 2

    def _evaluate(self, flat: Array) -> tuple[float, Gradients]:
        """Return the mean loss over the samples of all ranks, and the gradients of this rank."""
        self._network.load_state_dict(_named(flat, self._like, self._names))
        loss, gradients = self._network.loss_and_gradients(*self._batch)
        losses = [float(text) for text in world.allgather_bytes(repr(float(loss)).encode())]
        total = sum(n * value for n, value in zip(self._counts, losses, strict=True))
        return total / sum(self._counts), gradients


def _unit(vector: Array) -> Array:
    return vector / (float(np.linalg.norm(vector)) or 1.0)


def _flat(arrays: Gradients, names: Sequence[str]) -> Array:
    return np.concatenate([np.ravel(arrays[name]) for name in names]).astype(np.float64)


def _named(flat: Array, like: Gradients, names: Sequence[str]) -> dict[str, Array]:
    result, begin = {}, 0
    for name in names:
        end = begin + like[name].size
        result[name] = flat[begin:end].reshape(like[name].shape).astype(like[name].dtype)
        begin = end
    return result


def _place(arrays: Gradients, names: Sequence[str], index: int) -> str:
    for name in names:
        if index < arrays[name].size:
            place = np.unravel_index(index, arrays[name].shape)
            return f"{name}[{', '.join(str(int(i)) for i in place)}]"
        index -= arrays[name].size
    raise IndexError(index)


def _agreed(message: str) -> GradientError:
    return on_all_ranks(GradientError(f"verify_gradients: {message}"))
