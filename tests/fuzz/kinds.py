# SPDX-License-Identifier: Apache-2.0
"""What is damaged: kinds of input, each with the files that belong to it and the commands that read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz import configuration_kind, format_kind, name_kind, number_kind
from fuzz.case import Case, Maker
from fuzz.commands import COMMANDS
from fuzz.damage import damage_bytes, damage_node, damage_text, flip_bit
from fuzz.hdf5_damage import damage_structure


@dataclass(frozen=True)
class Source:
    """A sample file.

    Attributes:
        path: Relative to the sample folder.
        commands: Names of commands that read it.
        form: "hdf5", "text" or "bytes".
        covered: Whether checksums cover it, so that no damage to its bytes may go unnoticed.
    """

    path: str
    commands: tuple[str, ...]
    form: str
    covered: bool = False


@dataclass(frozen=True)
class Kind:
    """A kind of input: makes a damaged case in a folder that holds the samples."""

    make: Maker
    weight: float
    text: str


def _file_case(sources: tuple[Source, ...], how: str) -> Maker:
    def make(folder: Path, random: Random) -> Case:
        source = random.choice(sources)
        path = folder / source.path
        strict = source.covered
        if how == "flip":
            content, text = flip_bit(path.read_bytes(), random)
            path.write_bytes(content)
        elif random.random() < 0.06:
            text, strict = damage_node(path, random), False
        elif how == "structure":
            text, strict = damage_structure(path, random)
        else:
            damage = damage_text if source.form == "text" else damage_bytes
            content, text = damage(path.read_bytes(), random)
            path.write_bytes(content)
        name = random.choice(source.commands)
        return Case(COMMANDS[name], f"{source.path}: {text}", strict, name)

    return make


_VOLUMES = (
    Source(
        "volume.h5",
        (
            "partition",
            "segment",
            "evaluate",
            "train",
            "train-affinities",
            "predict-affinities",
            "resample",
            "init",
            "segment-preview",
        ),
        "hdf5",
        covered=True,
    ),
)
_FOREIGN = (
    Source(
        "foreign.h5",
        ("partition-foreign", "evaluate-foreign", "segment-foreign", "predict-foreign"),
        "hdf5",
    ),
)
_PARTITIONS = (Source("partitions.h5", ("train",), "hdf5", covered=True),)
_SLICES = (Source("slices.h5", ("train-slices", "predict", "evaluate-classes"), "hdf5"),)
_CHECKPOINTS = (
    Source(
        "network.h5", ("segment", "convert", "train-from", "segment-preview"), "hdf5", covered=True
    ),
    Source("run/checkpoints/step-4.h5", ("resume", "resume", "convert-run"), "hdf5", covered=True),
    Source(
        "slices_run/checkpoints/step-2.h5",
        ("resume-slices", "predict", "report-slices"),
        "hdf5",
        covered=True,
    ),
    Source("affinities_run/checkpoints/step-2.h5", ("predict-affinities",), "hdf5", covered=True),
)
_RESULTS = (
    Source(
        "segmentation.h5",
        ("evaluate", "evaluate", "evaluate-picture", "segment-seeds", "compare"),
        "hdf5",
        covered=True,
    ),
    Source("pieces/0_0_0.h5", ("reconcile",), "hdf5", covered=True),
    Source("run/segmentation.h5", ("report",), "hdf5"),
    Source("affinities.h5", ("agglomerate",), "hdf5", covered=True),
)
_TENSORFLOW = (
    Source("model.ckpt.index", ("convert-tensorflow", "segment-tensorflow"), "bytes", covered=True),
    Source(
        "model.ckpt.data-00000-of-00001",
        ("convert-tensorflow", "segment-tensorflow"),
        "bytes",
        covered=True,
    ),
)
_RUNS = (
    Source("run/log.jsonl", ("report", "simulate", "simulate", "resume"), "text"),
    Source("run/config.toml", ("report", "simulate", "simulate"), "text"),
    Source("run/failure-rank-0.json", ("report", "simulate"), "text"),
    Source("slices_run/log.jsonl", ("report-slices", "resume-slices"), "text"),
    Source("slices_run/config.toml", ("report-slices",), "text"),
    Source("affinities_run/log.jsonl", ("report-affinities",), "text"),
    Source("run2/log.jsonl", ("report-two",), "text"),
    Source("sweep/lr=0.001,walkers=1/log.jsonl", ("study", "progress", "sweep-list"), "text"),
    Source("sweep/lr=0.001,walkers=1/config.toml", ("study",), "text"),
    Source("sweep.toml", ("sweep-list",), "text"),
    Source("pieces/cut.json", ("reconcile", "segment-pieces"), "text"),
    Source("seeds.txt", ("segment-listed",), "text"),
    Source("request.pbtxt", ("segment-request",), "text"),
    Source("npz/0/0/seg-0_0_0.npz", ("segment-origins",), "bytes"),
    Source("out.h5.segmentation.checkpoint", ("segment-checkpoint",), "bytes"),
    Source("pairs/pairs.json", ("resegment",), "text"),
    Source("pairs/scores_000000.json", ("resegment",), "text"),
)
_SIMULATE = (
    Source("samples.txt", ("simulate-samples",), "text"),
    Source("allreduce.jsonl", ("simulate-allreduce",), "text"),
)

KINDS = {
    "volume": Kind(_file_case(_VOLUMES, "bytes"), 1, "bytes of image and label volumes"),
    "volume-structure": Kind(_file_case(_VOLUMES, "structure"), 1, "their datasets"),
    "foreign": Kind(_file_case(_FOREIGN, "bytes"), 1, "bytes of volumes of other programs"),
    "foreign-structure": Kind(_file_case(_FOREIGN, "structure"), 0.5, "their datasets"),
    "partitions": Kind(_file_case(_PARTITIONS, "bytes"), 0.5, "bytes of partitions"),
    "partitions-structure": Kind(_file_case(_PARTITIONS, "structure"), 0.5, "their datasets"),
    "slices": Kind(_file_case(_SLICES, "bytes"), 0.5, "bytes of slices"),
    "slices-structure": Kind(_file_case(_SLICES, "structure"), 0.7, "their datasets"),
    "checkpoint-bit": Kind(_file_case(_CHECKPOINTS, "flip"), 1, "one bit of a checkpoint"),
    "checkpoint": Kind(_file_case(_CHECKPOINTS, "bytes"), 1, "bytes of checkpoints"),
    "checkpoint-structure": Kind(
        _file_case(_CHECKPOINTS, "structure"), 1.5, "datasets and attributes of checkpoints"
    ),
    "tensorflow": Kind(_file_case(_TENSORFLOW, "bytes"), 0.7, "TensorFlow's index and data"),
    "results": Kind(_file_case(_RESULTS, "bytes"), 0.4, "bytes of segmentations"),
    "results-structure": Kind(_file_case(_RESULTS, "structure"), 0.5, "their datasets"),
    "run": Kind(_file_case(_RUNS, "bytes"), 0.7, "parts of run directories"),
    "simulate": Kind(_file_case(_SIMULATE, "bytes"), 0.5, "measurements for forecasts"),
    "configuration": Kind(configuration_kind.make_bytes, 0.7, "bytes of TOML files"),
    "configuration-values": Kind(
        configuration_kind.make_values, 2, "their keys, by type and by number"
    ),
    "numbers": Kind(number_kind.make, 3, "every number on a command line"),
    "formats": Kind(format_kind.make, 1, "files of volumes in other formats"),
    "names": Kind(name_kind.make, 0.3, "hostile names of files and run directories"),
}

READ_BY_CORE = tuple(
    name
    for name in KINDS
    if name.split("-")[0]
    in (
        "volume",
        "foreign",
        "partitions",
        "slices",
        "checkpoint",
        "results",
    )
)
"""Kinds of files that the C++ core reads: readers.cpp takes them."""
