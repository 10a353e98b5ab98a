# SPDX-License-Identifier: Apache-2.0
"""Arrays of the core keep their memory: they can be read after the object that they show is gone."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import training_volume

from floodtide import _core, config, nn
from floodtide.train import Trainer


def reuse_freed_memory(bytes_each: int) -> None:
    """Overwrite memory that was freed: later reads of it then differ."""
    gc.collect()
    blocks = [np.full(max(bytes_each // 4, 1), 7e30, np.float32) for _ in range(50)]
    del blocks


def test_a_bucket_that_a_hook_keeps_outlives_the_trainer(tmp_path: Path) -> None:
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 2}, validation={"box": ""})
    trainer = Trainer.from_config(config.from_dict(document))
    kept: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def hook(index: int, buffer: np.ndarray, *_: Any) -> None:
        assert buffer.flags.writeable
        kept.append(buffer)
        values.append(buffer.copy())

    trainer._core.set_bucket_hook(hook)
    trainer.run()
    each = len(kept) // 2  # of the last step, which nothing overwrites

    del trainer
    reuse_freed_memory(sum(array.nbytes for array in kept[-each:]))

    for array, value in zip(kept[-each:], values[-each:], strict=True):
        np.testing.assert_array_equal(array, value)


def test_a_state_outlives_the_flooder_and_its_result() -> None:
    def predict(image: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return np.where(image > 0, np.float32(5), np.float32(-5))

    image = np.ones((60, 70, 80), np.float32)
    image[30] = -1
    shape = (3, 3, 3)
    flooder = _core.segment.Flooder(
        image,
        0.0,
        1.0,
        predict,
        "layers",
        fov=shape,
        deltas=(1, 1, 1),
        init_activation=0.95,
        pad_value=0.05,
        move_threshold=0.9,
        segment_threshold=0.6,
        disco_seed_threshold=0.0,
        min_segment_size=1,
        min_boundary_dist=(1, 1, 1),
        halo_low=(0, 0, 0),
        halo_high=(0, 0, 0),
        probability=True,
    )
    initial = np.zeros(image.shape, np.int64)
    initial[:20] = 3
    flooder.set_initial(initial)
    state = flooder.state()
    arrays = [state["segmentation"], state["probability"]]
    values = [array.copy() for array in arrays]
    assert values[0].max() == 3

    result = flooder.take_result((0, 0, 0), image.shape)
    labels = result.labels()
    del result, flooder, state
    reuse_freed_memory(arrays[0].nbytes)

    for array, value in zip(arrays, values, strict=True):
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, value)
    np.testing.assert_array_equal(labels, values[0])


def test_parameters_outlive_their_network() -> None:
    network = nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=8)
    parameters = network.parameters()
    values = network.state_dict()
    del network
    reuse_freed_memory(sum(array.nbytes for array in values.values()))
    for name, array in parameters.items():
        np.testing.assert_array_equal(array, values[name])
