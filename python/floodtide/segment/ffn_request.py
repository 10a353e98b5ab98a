# SPDX-License-Identifier: Apache-2.0
"""Requests of google/ffn (InferenceRequest in text format), as options of this package.

Source: google/ffn, inference.proto; shared defaults as in its Python code.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import _core
from floodtide.base import reading
from floodtide.config import SegmentOptions
from floodtide.data import Box, Vec3
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.segment.text_format import Field, Schema, parse

_VECTOR: Schema = {axis: Field(tag, "int64") for tag, axis in enumerate("xyz", 1)}
_BOX: Schema = {"start": Field(1, _VECTOR), "size": Field(2, _VECTOR)}
_VOLUME: Schema = {
    "volinfo": Field(1, "string"),
    "decorator_specs": Field(2, "string"),
    "hdf5": Field(3, "string"),
    "tensorstore": Field(4, "string"),
}
_CHANNEL: Schema = {
    "channel": Field(1, "int32"),
    "min_value": Field(2, "float"),
    "max_value": Field(3, "float"),
    "invert": Field(4, "bool"),
    "values": Field(5, "uint64", repeated=True),
}
_MASK: Schema = {
    "volume": Field(1, {"mask": Field(1, _VOLUME), "channels": Field(2, _CHANNEL, repeated=True)}),
    "image": Field(2, {"channels": Field(1, _CHANNEL, repeated=True)}),
    "coordinate_expression": Field(3, {"expression": Field(1, "string")}),
    "invert": Field(4, "bool"),
}
_OPTIONS: Schema = {
    "init_activation": Field(1, "float"),
    "pad_value": Field(2, "float"),
    "move_threshold": Field(3, "float"),
    "consistency_threshold": Field(4, "float"),
    "disco_seed_threshold": Field(5, "float"),
    "min_boundary_dist": Field(6, _VECTOR),
    "segment_threshold": Field(7, "float"),
    "min_segment_size": Field(8, "int32"),
}
_ALIGNMENTS = {"UNKNOWN_ALIGNMENT": 0, "NO_ALIGNMENT": 1}
REQUEST: Schema = {
    "image": Field(24, _VOLUME),
    "image_mean": Field(2, "float"),
    "image_stddev": Field(3, "float"),
    "reference_histogram": Field(4, "string"),
    "histogram_masks": Field(26, _MASK, repeated=True),
    "masks": Field(5, _MASK, repeated=True),
    "seed_masks": Field(30, _MASK, repeated=True),
    "shift_mask": Field(6, _VOLUME),
    "shift_mask_fov": Field(22, _BOX),
    "shift_mask_scale": Field(7, "int32"),
    "shift_mask_threshold": Field(8, "int32"),
    "movement_policy_name": Field(9, "string"),
    "movement_policy_args": Field(10, "string"),
    "model_name": Field(11, "string"),
    "model_args": Field(12, "string"),
    "model_checkpoint_path": Field(13, "string"),
    "batch_size": Field(27, "int32"),
    "concurrent_requests": Field(28, "int32"),
    "inference_options": Field(14, _OPTIONS),
    "segmentation_output_dir": Field(15, "string"),
    "checkpoint_interval": Field(16, "int32"),
    "seed_policy": Field(17, "string"),
    "seed_policy_args": Field(19, "string"),
    "self_prediction": Field(
        18, {"threshold": Field(1, "float"), "orig_threshold": Field(2, "float")}
    ),
    "alignment_options": Field(20, {"type": Field(1, _ALIGNMENTS), "save_raw": Field(6, "bool")}),
    "init_segmentation": Field(25, _VOLUME),
}
_MODEL = "ConvStack3DFFNModel"
_INVERTED = "PolicyInvertOrigins"
_REVERSED = "ReverseCoords"
_PLANAR_PEAKS = "PolicyPeaks2d"
_MOVES = "FaceMaxMovementPolicy"
_THRESHOLDS = ("init_activation", "pad_value", "move_threshold", "segment_threshold")


@dataclass(frozen=True)
class FfnRequest:
    """What a request asks for.

    Attributes:
        options: As options of this package.
        depth: Modules of the network; None if the request does not say it.
        output_folder: Where google/ffn would write its files.
        message: The request, in protobuf's binary format.
        notes: What floodtide does otherwise than google/ffn, a line each.
    """

    options: SegmentOptions
    depth: int | None
    output_folder: str
    message: bytes
    notes: tuple[str, ...]


def read_request(path: str, box: Box | None = None) -> FfnRequest:
    """Read an InferenceRequest of google/ffn in text format.

    Args:
        path: The file.
        box: (start, size) that will be segmented: PolicyInvertOrigins reads the seeds of the same box.

    Raises:
        InvalidFileError: If the file is not such a request. The message names line and field.
        ConfigurationError: If it asks for something that floodtide does not do, or a value is out of range.
    """
    text = reading.read_text(path, "an InferenceRequest in text format")
    request, message = parse(text, REQUEST, "InferenceRequest", path)
    refuse = _Refuse(path, request)
    refuse.set_fields(
        "reference_histogram",
        "histogram_masks",
        "masks",
        "seed_masks",
        "shift_mask",
        "shift_mask_fov",
        "shift_mask_scale",
        "shift_mask_threshold",
        "self_prediction",
    )
    refuse.other_than("movement_policy_name", _MOVES)
    refuse.other_than("model_name", _MODEL)
    arguments = refuse.arguments("model_args")
    refuse.other_keys("model_args", arguments, {"depth", "fov_size", "deltas", "features"})
    refuse.other_keys("movement_policy_args", refuse.arguments("movement_policy_args"), set())
    flooding = request.get("inference_options", {})
    if flooding.get("consistency_threshold"):
        refuse.field("inference_options.consistency_threshold")
    if request.get("alignment_options", {}).get("save_raw"):
        refuse.field("alignment_options.save_raw")
    for name in ("image", "init_segmentation"):
        refuse.volume(name)
    needed = ["image", "image_mean", "image_stddev", "model_checkpoint_path", "seed_policy"]
    missing = [name for name in needed if name not in request]
    missing += [f"inference_options.{name}" for name in _THRESHOLDS if name not in flooding]
    if missing:
        raise ConfigurationError(f"{path}: {', '.join(missing)} not set, expected a value for each")
    distance = flooding.get("min_boundary_dist", {})
    options = dataclasses.replace(
        SegmentOptions(),
        checkpoint=request["model_checkpoint_path"],
        image=request["image"]["hdf5"],
        initial=request.get("init_segmentation", {}).get("hdf5", ""),
        mean=request["image_mean"],
        std=request["image_stddev"],
        fov=_zyx(arguments.get("fov_size"), f"{path}: model_args.fov_size"),
        deltas=_zyx(arguments.get("deltas"), f"{path}: model_args.deltas"),
        min_segment_size=flooding.get("min_segment_size", 0),
        min_boundary_dist=tuple(distance.get(axis, 0) for axis in "zyx"),
        disco_seed_threshold=flooding.get("disco_seed_threshold", 0.0),
        **{name: flooding[name] for name in _THRESHOLDS},
        **_seeds(request, refuse, box),
    )
    notes = []
    if request.get("checkpoint_interval", 0) > 0:
        notes.append("checkpoint_interval: whole subvolumes are stored instead (segment.subvolume)")
    if max(request.get("batch_size", 1), request.get("concurrent_requests", 1)) > 1:
        notes.append(
            "batch_size and concurrent_requests: one field of view at a time, on each rank"
        )
    if options.seed_values.get(f"{options.seed_policy}_step", 16) != 16:
        notes.append(
            "seed_policy_args.step: the shifts of the grids are parts of the step, also where google/ffn's are"
            " 8, 4, 12, ... voxels for each step"
        )
    return FfnRequest(
        options=options,
        depth=arguments.get("depth"),
        output_folder=request.get("segmentation_output_dir", ""),
        message=message,
        notes=tuple(notes),
    )


class _Refuse:
    """Refuses what floodtide does not do."""

    def __init__(self, path: str, request: Mapping[str, Any]) -> None:
        self._path, self._request = path, request

    def field(self, name: str, expected: str = "a request without it") -> None:
        raise ConfigurationError(f"{self._path}: {name} is not supported, expected {expected}")

    def set_fields(self, *names: str) -> None:
        for name in names:
            if name in self._request:
                hint = " (segment.mask masks a segmentation)" if "mask" in name else ""
                self.field(name, f"a request without it{hint}")

    def other_than(self, name: str, only: str) -> None:
        value = self._request.get(name, only)
        if value.rpartition(".")[2] != only:
            self.field(f"{name} {value!r}", only)

    def arguments(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a field."""
        text = self._request.get(name, "") or "{}"
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise InvalidFileError(f"{self._path}: {name} is {text[:60]!r}, expected a JSON object")
        return values

    def other_keys(self, name: str, values: Mapping[str, Any], known: set[str]) -> None:
        for key in values.keys() - known:
            self.field(f"{name}.{key}", f"only {', '.join(sorted(known)) or 'an empty object'}")

    def volume(self, name: str) -> None:
        if name in self._request:
            for key in self._request[name].keys() - {"hdf5"}:
                self.field(f"{name}.{key}", f'{name} {{ hdf5: "file:dataset" }}')
            if "hdf5" not in self._request[name]:
                self.field(f"an empty {name}", f'{name} {{ hdf5: "file:dataset" }}')


def _seeds(request: Mapping[str, Any], refuse: _Refuse, box: Box | None) -> dict[str, Any]:
    policy = request["seed_policy"].rpartition(".")[2]
    given = refuse.arguments("seed_policy_args")
    reverse = policy == _REVERSED
    if reverse:
        policy = str(given.pop("policy_to_reverse", "")).rpartition(".")[2]
    rows = {row["published"]: row for row in _core.segment.seed_policies()}
    if policy in rows:
        # Our parameters have the names of google/ffn behind the policy's: grid_step.
        keys = {p["name"].partition("_")[2]: p["name"] for p in rows[policy]["parameters"]}
        if policy == _PLANAR_PEAKS:
            order = given.pop("sort_cmp", "ascending")
            if order not in ("ascending", "descending"):
                refuse.field(f"seed_policy_args.sort_cmp {order!r}", "ascending or descending")
            reverse ^= order == "descending"
        refuse.other_keys("seed_policy_args", given, set(keys))
        values = {keys[name]: value for name, value in given.items()}
        return {
            "seed_policy": rows[policy]["name"],
            "seed_values": values,
            "seed_reverse": reverse,
        }
    if policy == _INVERTED and not reverse:
        refuse.other_keys("seed_policy_args", given, {"segmentation_dir"})
        folder = given.get("segmentation_dir")
        z, y, x = (0, 0, 0) if box is None else box[0]
        return {"seeds": f"{folder}/{x}/{y}/seg-{x}_{y}_{z}.npz"}
    known = ", ".join(rows)
    refuse.field(
        f"seed_policy_args.policy_to_reverse {policy!r}" if reverse else f"seed_policy {policy!r}",
        known if reverse else f"{known}, {_INVERTED} or {_REVERSED}",
    )
    raise AssertionError


def _zyx(values: Sequence[int] | None, what: str) -> Vec3 | None:
    if values is None:
        return None
    if not (isinstance(values, list) and len(values) == 3 and all(type(v) is int for v in values)):
        raise InvalidFileError(f"{what} is {values!r}, expected [x, y, z]")
    x, y, z = values
    return z, y, x
