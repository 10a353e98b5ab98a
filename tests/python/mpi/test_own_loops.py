# SPDX-License-Identifier: Apache-2.0
"""Loops as Horovod's users write them: parameters are broadcast, gradients averaged, and the optimizer steps."""

from __future__ import annotations

import pytest
from launch import check

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

LOOP = """
    import hashlib
    import numpy as np
    import floodtide as ft

    ft.init()
    random = np.random.default_rng(ft.rank())
    {model}
    parameters = model.parameters()
    ft.broadcast_parameters(parameters, root_rank=0)
    {more}
    optimizer = ft.optim.Adam(lr=1e-2)
    before = model.state_dict()
    for _ in range(3):
        loss, gradients = model.loss_and_gradients({sample})
        gradients = {{name: ft.allreduce(array) for name, array in gradients.items()}}
        optimizer.step(parameters, gradients)
    after = model.state_dict()
    assert all((after[name] != before[name]).any() for name in gradients if gradients[name].any())
    digest = hashlib.sha256(b"".join(array.tobytes() for array in parameters.values())).hexdigest()
    assert len(set(ft.allgather_object(digest))) == 1, "ranks have different parameters"
    ft.shutdown()
"""


def test_a_flood_filling_network_stays_the_same_on_all_ranks() -> None:
    check(
        2,
        LOOP.format(
            model="model = ft.nn.FFN(2, (5, 5, 5), (1, 1, 1), 4, seed=ft.rank())",
            more="pass",
            sample="*random.random((3, 5, 5, 5), dtype=np.float32)",
        ),
    )


def test_a_u_net_stays_the_same_on_all_ranks() -> None:
    labels = "random.integers(0, 2, (2, 1, 8, 8)).astype(np.uint8)"
    check(
        2,
        LOOP.format(
            model="model = ft.nn.UNet(ft.nn.UNetOptions(depth=2, pools=((1, 2, 2),)), seed=ft.rank())",
            more="ft.broadcast_parameters(model.statistics(), root_rank=0)",
            sample=f"random.random((2, 1, 8, 8), dtype=np.float32), {labels}",
        ),
    )
