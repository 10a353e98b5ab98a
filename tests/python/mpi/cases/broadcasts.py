# SPDX-License-Identifier: Apache-2.0
"""Broadcasts of arrays, parameters and optimizers."""

from __future__ import annotations

import itertools

import numpy as np
from values import FLOATS, INTEGERS, error_of, expect_refused_alike, expect_same_bits, values

import floodtide as ft

TYPES = (*FLOATS, *INTEGERS, "bool", "uint16", "complex64", "S3")
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (17,), (5, 7), (3, 4, 5), (2, 0))


def case_every_type_shape_and_root() -> None:
    for dtype, shape, root in itertools.product(TYPES, SHAPES, range(ft.size())):
        arrays = [values(r, shape, "int8").astype(dtype) for r in range(ft.size())]
        own = arrays[ft.rank()]
        got = ft.broadcast(own, root)
        assert got is not own
        assert got.dtype == own.dtype
        assert got.shape == shape
        assert (got == arrays[root]).all()
        assert (own == values(ft.rank(), shape, "int8").astype(dtype)).all(), "input changed"
        assert ft.broadcast_(own, root) is own
        assert (own == arrays[root]).all()


def case_asynchronous() -> None:
    size, rank = ft.size(), ft.rank()
    handles = [ft.broadcast_async(np.full(100 * r, rank), r) for r in range(size)]
    in_place = [np.full((3, 5), rank, np.float32) for _ in range(size)]
    handles += [ft.broadcast_async_(array, r) for r, array in enumerate(in_place)]
    for number, handle in reversed(list(enumerate(handles))):
        assert (ft.synchronize(handle) == number % size).all()
        assert ft.poll(handle)
    assert all((array == r).all() for r, array in enumerate(in_place))


def case_large_array() -> None:
    array = np.full(2_000_003, ft.rank(), np.float32)
    assert (ft.broadcast(array, ft.size() - 1) == ft.size() - 1).all()


def case_root_that_does_not_exist() -> None:
    for root in (-1, ft.size()):
        for call in (ft.broadcast, ft.broadcast_, ft.broadcast_object):
            message = error_of(lambda c=call, r=root: c(np.ones(2), r), ft.errors.OutOfRangeError)
            assert f"root {root} is outside 0 to {ft.size() - 1}" in message
    ft.barrier()


def case_process_sets_count_roots_by_all_ranks() -> None:
    size, rank = ft.size(), ft.rank()
    first = ft.ProcessSet(range(max(1, size - 1)))
    second = ft.ProcessSet(range(min(1, size - 1), size))
    for members, outsider in ((first, size - 1), (second, 0)):
        if not members.included():
            message = error_of(lambda m=members: ft.broadcast([1], m.ranks[0], m))
            assert f"rank {rank} is not in the process set" in message
            continue
        for root in members.ranks:
            assert ft.broadcast([rank], root, members) == root
            own = np.full(3, rank)
            assert (ft.broadcast_(own, root, process_set=members) == root).all()
        if outsider not in members.ranks:
            call = lambda m=members, o=outsider: ft.broadcast([1], o, m)  # noqa: E731
            message = error_of(call, ft.errors.OutOfRangeError)
            assert f"root {outsider} is not in the process set" in message
    ft.barrier()


def case_parameters() -> None:
    for root in range(ft.size()):
        parameters = {
            "weights": values(ft.rank(), (3, 4), "float32"),
            "half": values(ft.rank(), (5,), "float16"),
            "steps": np.array(ft.rank()),
        }
        ft.broadcast_parameters(parameters, root)
        assert (parameters["weights"] == values(root, (3, 4), "float32")).all()
        assert (parameters["half"] == values(root, (5,), "float16")).all()
        assert parameters["steps"] == root


def stepped(optimizer: ft.optim.Optimizer, steps: int) -> dict[str, np.ndarray]:
    """Parameters after some steps with gradients that depend on this rank."""
    parameters = {"a": np.ones(6, np.float32), "b": np.ones((2, 2), np.float32)}
    for step in range(steps):
        gradients = {
            name: np.full(array.shape, 0.1 * (step + 1) + ft.rank(), np.float32)
            for name, array in parameters.items()
        }
        optimizer.step(parameters, gradients)
    return parameters


def case_optimizer_with_rate_parameters_and_state() -> None:
    for root, steps in itertools.product(range(ft.size()), (0, 1, 3)):
        makers = (
            lambda: ft.optim.Adam(lr=0.1 * (ft.rank() + 1), beta1=0.5 + 0.1 * ft.rank()),
            lambda: ft.optim.Momentum(lr=0.1, momentum=0.1 * (ft.rank() + 1)),
            lambda: ft.optim.SGD(lr=0.3 / (ft.rank() + 1), weight_decay=0.01 * ft.rank()),
        )
        for make in makers:
            optimizer = make()
            # Others than the root may have taken no step yet.
            parameters = stepped(optimizer, steps if ft.rank() == root else 0)
            expected = ft.broadcast_object((optimizer.settings(), parameters), root)
            ft.broadcast_optimizer_state(optimizer, root)
            assert optimizer.settings() == expected[0]
            assert optimizer.lr == expected[0]["lr"]
            # From here on all ranks take the same steps, bit for bit.
            gradients = {name: np.full_like(a, 0.25) for name, a in expected[1].items()}
            optimizer.step(expected[1], gradients)
            optimizer.step(expected[1], gradients)
            for array in expected[1].values():
                expect_same_bits(array)


def case_optimizers_that_do_not_fit_are_refused_by_all() -> None:
    if ft.size() == 1:
        return
    last = ft.rank() == ft.size() - 1
    message = expect_refused_alike(
        lambda: ft.broadcast_optimizer_state(ft.optim.SGD() if last else ft.optim.Adam()),
        ft.errors.CommunicationError,
    )
    assert message.endswith(
        f"rank {ft.size() - 1} called allgather (state of the optimizer floodtide's sgd)"
    )


def case_optimizers_of_others() -> None:
    class Other:
        def __init__(self) -> None:
            self.step = ft.rank()

        def state_dict(self) -> dict[str, object]:
            return {"step": self.step, "moment": np.full(5, self.step)}

        def load_state_dict(self, state: dict[str, object]) -> None:
            self.step, self.moment = state.values()

    for root in range(ft.size()):
        optimizer = Other()
        ft.broadcast_optimizer_state(optimizer, root)
        assert optimizer.step == root
        assert ft.rank() == root or (optimizer.moment == root).all()


def case_optimizer_of_a_process_set() -> None:
    members = ft.ProcessSet(range(min(1, ft.size() - 1), ft.size()))
    if members.included():
        root = members.ranks[-1]
        optimizer = ft.optim.Adam(lr=0.1 * (ft.rank() + 1))
        ft.broadcast_optimizer_state(optimizer, root, members)
        assert optimizer.lr == 0.1 * (root + 1)
    ft.barrier()
