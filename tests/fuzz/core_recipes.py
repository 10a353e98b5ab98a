# SPDX-License-Identifier: Apache-2.0
"""Arguments with which functions of the compiled core return, for core_calls.py. Others get random arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from floodtide import _core


class Objects(Protocol):
    """What recipes need: objects of the core, and a folder."""

    folder: Path

    def one(self, kind: str) -> Any:
        """An object of a class."""

    def changed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The dictionary with some values changed."""


Recipe = Callable[[Objects], dict[str, Any]]


def table(*rows: tuple[int, ...], dtype: str = "int64") -> Any:
    """Rows of numbers."""
    return np.array(rows, dtype=dtype)


def ones(*shape: int, dtype: str = "float32") -> Any:
    """An array of ones."""
    return np.ones(shape, dtype=dtype)


def raise_logits(_image: Any, logits: Any) -> Any:
    """A predictor that makes objects grow."""
    return logits + np.float32(1)


def small_patches(objects: Objects) -> Any:
    """Options of patches that fit into the sample."""
    options = objects.one("data.PatchOptions")
    options.patch, options.patches = (4, 4, 4), 4
    return options


SAMPLE = "sample.h5"
FLOODER = {
    "fov": (5, 5, 5),
    "deltas": (2, 2, 2),
    "init_activation": 0.95,
    "pad_value": 0.05,
    "move_threshold": 0.9,
    "segment_threshold": 0.6,
    "disco_seed_threshold": -1.0,
    "min_segment_size": 1,
    "min_boundary_dist": (1, 1, 1),
    "halo_low": (0, 0, 0),
    "halo_high": (0, 0, 0),
    "probability": True,
}
# Arguments with which a function returns. The others are random until they fit by chance.
RECIPES: dict[str, Recipe] = {
    "FfnOptions.__init__": lambda _: {
        "depth": 1,
        "features": 2,
        "fov": (5, 5, 5),
        "deltas": (2, 2, 2),
    },
    "Ffn.forward": lambda _: {"image": ones(2, 5, 5, 5), "logits": ones(2, 5, 5, 5)},
    "Ffn.loss_and_gradients": lambda a: {
        "image": ones(1, 5, 5, 5),
        "logits": ones(1, 5, 5, 5),
        "labels": ones(1, 5, 5, 5),
        "weights": None,
        "gradients": np.zeros(a.one("FfnOptions").parameter_count(), dtype="float32"),
        "scale": 1.0,
    },
    "SegmentationLoss.__init__": lambda _: {
        "smooth": 1e-5,
        "background": True,
    },
    "UNetOptions.__init__": lambda _: {
        "classes": 2,
        "depth": 2,
        "features": 16,
        "kernels": [(3, 3, 3)],
        "pools": [(2, 2, 2)],
        "output": "softmax",
    },
    "UNet.forward": lambda _: {"images": ones(1, 4, 4, 4, 1)},
    "UNet.loss_and_gradients": lambda a: {
        "images": ones(1, 4, 4, 4, 1),
        "labels": ones(1, 4, 4, 4, dtype="uint8"),
        "targets": None,
        "weights": None,
        "loss": a.one("SegmentationLoss"),
        "groups": 1,
        "examples": [1],
        "gradients": np.zeros(a.one("UNetOptions").parameter_count(), dtype="float32"),
        "scale": 1.0,
        "sum_over_ranks": None,
    },
    "UNet.move_statistics": lambda a: {
        "gradients": np.zeros(a.one("UNetOptions").parameter_count(), dtype="float32"),
        "images": 1.0,
    },
    "segmentation_loss": lambda a: {
        "loss": a.one("SegmentationLoss"),
        "output": "softmax",
        "logits": ones(1, 3, 3, 3, 2),
        "labels": ones(1, 3, 3, 3, dtype="uint8"),
        "targets": None,
        "weights": None,
        "sum_over_ranks": None,
    },
    "Optimizer.__init__": lambda _: {"name": "adam", "values": {}, "shape": [3, 2]},
    "Optimizer.step": lambda _: {"parameters": ones(6), "gradients": ones(6), "lr": 0.1},
    "Optimizer.load_state": lambda _: {
        "state": {
            "first_moment": ones(6),
            "second_moment": ones(6),
            "steps": table(1)[0:1].reshape(1),
        },
    },
    "Schedule.__init__": lambda _: {"name": "constant", "values": {"base_lr": 0.1}},
    "Trainer.__init__": lambda a: {
        "walkers": a.one("Walkers"),
        "communicator": a.one("comm.Communicator"),
        "optimizer": "sgd",
        "optimizer_values": {},
        "schedule": "constant",
        "schedule_values": {"base_lr": 0.1},
        "scale": "none",
        "scale_values": {},
        "options": a.one("TrainerOptions"),
    },
    "Trainer.save": lambda a: {
        "path": str(a.folder / "saved.h5"),
        "configuration": "",
        "statistics": "",
    },
    "Trainer.load": lambda a: {"path": str(a.folder / "saved.h5")},
    "flood_walkers": lambda a: {
        "network": a.one("Ffn"),
        "examples": a.one("data.ExampleSource"),
        "options": a.one("WalkersOptions"),
        "seed_pad": 0.05,
        "threshold": 0.9,
    },
    "sample_walkers": lambda a: {
        "network": a.one("UNet"),
        "samples": a.one("data.PatchSource"),
        "options": a.one("WalkersOptions"),
        "loss": a.one("SegmentationLoss"),
    },
    "ValidationSet.__init__": lambda a: {
        "volume": a.one("data.SourceOptions"),
        "patch_size": (9, 9, 9),
        "centres": 2,
        "seed": 1,
    },
    "validate": lambda a: {
        "network": a.one("Ffn"),
        "set": a.one("ValidationSet"),
        "seed_pad": 0.05,
        "threshold": 0.9,
        "softness": 0.05,
        "seed": 1,
        "communicator": a.one("comm.Communicator"),
        "progress": None,
    },
    "score_segmentation": lambda a: {
        "network": a.one("UNet"),
        "samples": a.one("data.PatchSource"),
        "communicator": a.one("comm.Communicator"),
        "progress": None,
    },
    "comm.Communicator.start_reduce_scatter": lambda _: {
        "array": ones(4),
        "op": "sum",
        "blocks": [0, 4],
        "wire": "native",
        "words": "",
    },
    "data.SourceOptions.__init__": lambda _: {
        "name": "a",
        "image": f"{SAMPLE}:raw",
        "labels": f"{SAMPLE}:labels",
        "partitions": f"{SAMPLE}:partitions",
    },
    "data.ExampleOptions.__init__": lambda _: {
        "patch_size": (9, 9, 9),
        "seed": 1,
        "augmentation": _core.data.Augmentation(rotation_deg=30.0, elastic=1.0),
    },
    "data.ExampleSource.__init__": lambda a: {
        "volumes": [a.one("data.SourceOptions")],
        "options": a.one("data.ExampleOptions"),
        "progress": None,
    },
    "data.ExampleSource.load": lambda _: {"walker": 0, "epoch": 0, "index": 0},
    "data.Targets.make": lambda _: {"labels": ones(12, 12, 12, dtype="int64"), "training": True},
    "data.class_targets": lambda _: {"count": 2},
    "data.affinity_targets": lambda _: {
        "offsets": [(0, 0, 1), (-1, 0, 0)],
        "balance": True,
        "descriptors": (1.0, 1.0, 1.0),
    },
    "data.LabelPart.__init__": lambda _: {
        "volume": f"{SAMPLE}:partitions",
        "values": [(255, -1)],
        "others": 1,
    },
    "data.Channel.__init__": lambda _: {"image": f"{SAMPLE}:raw", "mean": 0.0, "std": 1.0},
    "data.LabelledImage.__init__": lambda a: {
        "name": "a",
        "channels": [a.one("data.Channel")],
        "labels": [a.one("data.LabelPart")],
        "labels_start": (0, 0, 0),
    },
    "data.Region.__init__": lambda _: {
        "image": 0,
        "box": ((0, 0, 0), (12, 12, 12)),
        "group": 0,
    },
    "data.PatchSource.__init__": lambda a: {
        "images": [a.one("data.LabelledImage")],
        "regions": [a.one("data.Region")],
        "groups": ["a"],
        "targets": a.one("data.Targets"),
        "options": small_patches(a),
        "progress": None,
    },
    "data.PartitionJob.__init__": lambda _: {
        "labels": f"{SAMPLE}:labels",
        "thresholds": [0.1, 0.5],
        "lom_radius": (1, 1, 1),
        "min_size": 1,
        "box": None,
    },
    "data.PartitionJob.count": lambda _: {"begin": 0, "end": 1, "progress": None},
    "data.PartitionJob.compute": lambda _: {"begin": 0, "end": 1},
    "data.PartitionJob.keep_large": lambda _: {"tables": [table((1, 2), (800, 928))]},
    "data.Channels.__init__": lambda a: {"path": str(a.folder / "channels.h5"), "dataset": "c"},
    "data.Volume.__init__": lambda a: {
        "file": str(a.folder / SAMPLE),
        "dataset": "raw",
        "channel": None,
    },
    "data.Hdf5Writer.__init__": lambda a: {
        "path": str(a.folder / "writer.h5"),
        "command": "x",
        "objects": ["a"],
        "format": "",
        "described": "",
    },
    "data.Hdf5Writer.create": lambda _: {
        "dataset": "a",
        "type": "uint8",
        "shape": [4, 4],
        "chunks": [2, 2],
        "gzip": 1,
        "fill": 0.0,
    },
    "data.Hdf5Writer.write": lambda _: {
        "dataset": "a",
        "start": [0, 0],
        "block": ones(2, 2, dtype="uint8"),
    },
    "data.python_volume": lambda _: {
        "read": lambda _, size: np.ones(size, dtype="uint8"),
        "name": "python",
        "shape": (12, 12, 12),
        "chunks": (4, 4, 4),
        "dtype": "uint8",
    },
    "evaluate.DiceCounts.__init__": lambda _: {"groups": 2, "classes": 2},
    "evaluate.DiceCounts.assign": lambda _: {"values": ones(16, dtype="int64")},
    "evaluate.VoxelCounts.add_probabilities": lambda _: {
        "probabilities": ones(2, 2, 2, 2),
        "targets": ones(2, 2, 2, 2),
        "weights": ones(2, 2, 2, 2),
        "channel": 0,
    },
    "evaluate.VoxelCounts.assign": lambda a: {"values": a.one("evaluate.VoxelCounts").values()},
    "agglomerate.decision_points": lambda _: {
        "labels": np.indices((6, 6, 6)).sum(0).astype("uint64") // 6 + 1,
        "voxel_size": (1.0, 1.0, 1.0),
        "max_distance": 3.0,
        "start": (0, 0, 0),
        "size": (6, 6, 6),
    },
    "agglomerate.resegment_pair": lambda a: {
        "flooder": a.one("segment.Flooder"),
        "labels": np.indices((12, 12, 12))[0].astype("uint64") // 6 + 1,
        "a": 1,
        "b": 2,
        "point": (6, 6, 6),
        "analysis_radius": (4, 4, 4),
        "exclusion_radius": (1, 1, 1),
        "point_exclusion": None,
        "attempts": 2,
        "recovery": 0.6,
        "voxel_size": (1.0, 1.0, 1.0),
        "terminate_early": False,
    },
    "segment.Flooder.__init__": lambda _: {
        "image": ones(12, 12, 12),
        "mean": 0.0,
        "std": 1.0,
        "predictor": raise_logits,
        "forward": "layers",
        **FLOODER,
    },
    "segment.Flooder.segment_at": lambda _: {"start": (6, 6, 6), "on_move": None},
    "segment.Flooder.segment_all": lambda _: {
        "seeds": table((6, 6, 6), (2, 2, 2)),
        "progress": None,
    },
    "segment.Flooder.set_initial": lambda _: {"labels": np.zeros((12, 12, 12), dtype="int64")},
    "segment.Flooder.set_mask": lambda _: {"mask": np.zeros((12, 12, 12), dtype="uint8")},
    "segment.Flooder.restore": lambda a: {"state": a.changed(a.one("segment.Flooder").state())},
    "segment.Flooder.take_result": lambda _: {"start": (0, 0, 0), "volume_shape": (12, 12, 12)},
    "segment.consensus": lambda a: {
        "a": a.one("segment.Result"),
        "b": a.one("segment.Result"),
        "min_size": 1,
    },
    "segment.compare_overlap": lambda _: {
        "counts": table((1, 1, 50), (2, 1, 3), dtype="uint64"),
        "min_voxels": 1,
        "min_share": 0.5,
        "inside_voxels": 1,
    },
    "segment.connected": lambda _: {"count": 4, "pairs": table((0, 1), (2, 3))},
    "segment.find_seeds": lambda _: {
        "image": np.indices((12, 12, 12)).sum(0).astype("float32"),
        "mean": 0.0,
        "std": 1.0,
        "policy": "peaks",
        "values": {},
        "margin": (1, 1, 1),
        "progress": None,
        "closed": None,
    },
}
