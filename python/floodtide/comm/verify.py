# SPDX-License-Identifier: Apache-2.0
"""`floodtide.verify_gradients`: check that averaging over ranks gives the gradient of all samples.

Let rank r have n_r samples, and let g_r be the gradient of their mean loss. Let n be the sum of all n_r. Training needs
e = sum of (n_r / n) g_r. Every rank computes all g_r itself and adds them in double precision, so e is known almost
exactly. The average a, which the ranks computed by communication, may differ from e only by rounding. N products,
N - 1 additions and one division in precision u give, entry by entry,

    |a - e| <= gamma(N + 2) * sum of (n_r / n) |g_r|,    gamma(k) = k u / (1 - k u)

for every order of summation (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from floodtide.comm import exchanges, reduction_rules, reductions, world
from floodtide.errors import GradientError, InvalidArgumentError, ShapeError, on_all_ranks

Array = NDArray[Any]
Gradients = Mapping[str, Array]

UNIT_ROUNDOFF = 2.0**-24  # of float32


class Differentiable(Protocol):
    """Methods that verify_gradients needs of a network. `floodtide.nn.FFN` has them."""

    def loss_and_gradients(self, *batch: Any) -> tuple[float, Mapping[str, Array]]:
        """Return the mean loss over the samples of the batch, and {name: gradient of that mean}."""

    def state_dict(self) -> Mapping[str, Array]:
        """Return {name: copy of a parameter}, with the same names as the gradients."""


@dataclass(frozen=True, kw_only=True)
class GradientCheck:
    """Result of verify_gradients.

    Attributes:
        ranks: Number of ranks.
        samples: Number of samples of all ranks together.
        share_of_bound: Largest |average - gradient of all samples| of an entry, divided by the bound of that entry; at
            most 1.
    """

    ranks: int
    samples: int
    share_of_bound: float


def verify_gradients(
    network: Differentiable,
    *batch: Array | None,
    average: Callable[[Gradients], Gradients] | None = None,
    tolerance: float = 0.0,
    unit_roundoff: float = UNIT_ROUNDOFF,
) -> GradientCheck:
    """Check that the average of gradients over ranks equals the gradient of all samples. Collective.

    Prints nothing. Takes about as long as `ranks + 1` gradients, because each rank computes the gradients of all ranks.

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

    Returns:
        The largest error, and how it compares with the bound (see the text of the module).

    Raises:
        GradientError: On all ranks, if parameters differ between ranks, if the average is wrong, or if ranks hold
            different averages. The message says how long a wrong average is, compared with the right one.
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
        _, own = network.loss_and_gradients(*batch)
    _require_equal(
        network.state_dict(),
        "other parameters",
        "call floodtide.broadcast_parameters before training",
    )
    counts = exchanges.allgather_object(samples)
    averaged = (average or (lambda own: _weighted_average(own, samples, sum(counts))))(own)
    with world.agreed():
        _require_names(own, averaged)
    gradient, magnitude = _of_all_samples(network, batch, counts)
    gamma = (len(counts) + 2) * unit_roundoff
    bound = gamma / (1 - gamma) * magnitude
    bound += tolerance * np.abs(gradient).max() + np.finfo(np.float32).smallest_normal
    found = _flat(averaged)
    shares = np.abs(found - gradient) / bound
    worst = int(np.argmax(shares))  # the first NaN, if there is one
    share, message = float(shares[worst]), ""
    if not share <= 1:
        length = float(found @ gradient / (gradient @ gradient)) if gradient.any() else np.nan
        message = (
            f"the average differs from the gradient of all samples by {share:.3g} times the bound for rounding errors"
            f" at {_place(own, worst)}; along that gradient it is {length:.4g} times as long"
        )
    results = exchanges.allgather_object((message, share))
    wrong = [rank for rank, (text, _) in enumerate(results) if text]
    if wrong:
        where = f" (on rank {', '.join(map(str, wrong))} of {len(results)})"
        raise _agreed(results[wrong[0]][0] + (where if len(wrong) < len(results) else ""))
    _require_equal(averaged, "another average (within rounding)", "replicas would drift apart")
    return GradientCheck(
        ranks=len(counts), samples=sum(counts), share_of_bound=max(value for _, value in results)
    )


def _of_all_samples(
    network: Differentiable, batch: Sequence[Array | None], counts: Sequence[int]
) -> tuple[Array, Array]:
    """Return the gradient of all samples, computed on this rank alone, and the sum of sizes. Collective."""
    gradient, magnitude = np.zeros(1), np.zeros(1)
    for rank, count in enumerate(counts):
        _, theirs = network.loss_and_gradients(*world.broadcast_object(batch, rank))
        part = count / sum(counts) * _flat(theirs)
        gradient, magnitude = gradient + part, magnitude + np.abs(part)
    return gradient, magnitude


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


def _require_equal(arrays: Gradients, what: str, why: str) -> None:
    """Raise GradientError on all ranks if arrays differ between ranks in any bit. Collective."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    digests = world.allgather_bytes(digest.digest())
    for rank, other in enumerate(digests):
        if other != digests[0]:
            raise _agreed(f"rank {rank} has {what} than rank 0: {why}")


def _flat(arrays: Gradients) -> Array:
    return np.concatenate([np.ravel(arrays[n]) for n in sorted(arrays)]).astype(np.float64)


def _place(arrays: Gradients, index: int) -> str:
    for name in sorted(arrays):
        if index < arrays[name].size:
            place = np.unravel_index(index, arrays[name].shape)
            return f"{name}[{', '.join(str(int(i)) for i in place)}]"
        index -= arrays[name].size
    raise IndexError(index)


def _agreed(message: str) -> GradientError:
    return on_all_ranks(GradientError(f"verify_gradients: {message}"))
