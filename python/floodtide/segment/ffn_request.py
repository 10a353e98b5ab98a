# SPDX-License-Identifier: Apache-2.0
"""Requests of google/ffn (InferenceRequest in text format), as options of this package.

Source: google/ffn, inference.proto; shared defaults as in its Python code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from floodtide import config, nn
from floodtide.base import reading
from floodtide.base.files import replace_text
from floodtide.base.outputs import files_in, reserved, unchecked
from floodtide.config import SegmentOptions
from floodtide.data import Vec3
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.segment.ffn_masks import mask_options
from floodtide.segment.ffn_policies import seed_options
from floodtide.segment.ffn_refuse import Refuse
from floodtide.segment.ffn_schema import REQUEST
from floodtide.segment.text_format import parse

_MODEL = "ConvStack3DFFNModel"
_MOVES = "FaceMaxMovementPolicy"
_THRESHOLDS = ("init_activation", "pad_value", "move_threshold", "segment_threshold")


@dataclass(frozen=True)
class FfnRequest:
    """What a request asks for.

    Attributes:
        options: As options of this package.
        depth: Modules of the network; None if the request does not say it.
        notes: What floodtide does otherwise than google/ffn, a line each.
    """

    options: SegmentOptions
    depth: int | None
    notes: tuple[str, ...]


def write_configuration(path: str, out: str) -> tuple[str, ...]:
    """Write the configuration (TOML) for `floodtide segment` that a request describes, and return its notes.

    Raises:
        InvalidFileError: If the file is no request, or the network cannot be read.
        ConfigurationError: If the request asks for something that floodtide does not do, or for another depth than that
            of the network.
        StorageError: If `out` cannot be written.
    """
    asked = read_request(path)
    options = asked.options
    with reserved("convert", out, unchecked, [path, *files_in(options.checkpoint)]):
        network = nn.load(options.checkpoint, fov=options.fov, deltas=options.deltas)
        depth = network.core.options.depth
        if asked.depth not in (None, depth):
            raise ConfigurationError(
                f"{path}: model_args.depth is {asked.depth}, expected {depth}, that of {options.checkpoint}"
            )
        head = [f"# floodtide convert wrote this from {path}, a request of google/ffn."]
        head += [f"# {note}" for note in asked.notes]
        document = tomli_w.dumps({"segment": config.to_dict(options)})
        replace_text(Path(out), "\n".join([*head, document]))
    return asked.notes


def read_request(path: str) -> FfnRequest:
    """Read an InferenceRequest of google/ffn in text format.

    Raises:
        InvalidFileError: If the file is not such a request. The message names line and field.
        ConfigurationError: If it asks for something that floodtide does not do, or a value is out of range.
    """
    text = reading.read_text(path, "an InferenceRequest in text format")
    request = parse(text, REQUEST, "InferenceRequest", path)
    refuse = Refuse(path, request)
    flooding = request.get("inference_options", {})
    _refuse_others(refuse, request, flooding)
    arguments = refuse.arguments("model_args")
    refuse.other_keys("model_args", arguments, {"depth", "fov_size", "deltas", "features"})
    distance = flooding.get("min_boundary_dist", {})
    initial = request.get("init_segmentation")
    options = SegmentOptions(
        checkpoint=request["model_checkpoint_path"],
        image=refuse.volume(request["image"], "image"),
        initial=refuse.volume(initial, "init_segmentation") if initial is not None else "",
        masks=mask_options(request.get("masks", ()), "masks", refuse),
        seed_masks=mask_options(request.get("seed_masks", ()), "seed_masks", refuse),
        mean=request["image_mean"],
        std=request["image_stddev"],
        fov=_zyx(arguments.get("fov_size"), f"{path}: model_args.fov_size"),
        deltas=_zyx(arguments.get("deltas"), f"{path}: model_args.deltas"),
        min_segment_size=flooding.get("min_segment_size", 0),
        min_boundary_dist=tuple(distance.get(axis, 0) for axis in "zyx"),
        disco_seed_threshold=flooding.get("disco_seed_threshold", 0.0),
        **{name: flooding[name] for name in _THRESHOLDS},
        **_shift_options(request, refuse),
        checkpoint_interval=float(request.get("checkpoint_interval", 0)),
        **seed_options(request["seed_policy"], refuse),
    )
    return FfnRequest(options, arguments.get("depth"), tuple(_notes(request, options)))


def _refuse_others(refuse: Refuse, request: Mapping[str, Any], flooding: Mapping[str, Any]) -> None:
    """Refuse a request that asks for what floodtide does not do, or lacks what it needs."""
    refuse.set_fields("reference_histogram", "histogram_masks", "self_prediction")
    refuse.other_than("movement_policy_name", _MOVES)
    refuse.other_than("model_name", _MODEL)
    refuse.other_keys("movement_policy_args", refuse.arguments("movement_policy_args"), set())
    if flooding.get("consistency_threshold"):
        refuse.field("inference_options.consistency_threshold")
    if request.get("alignment_options", {}).get("save_raw"):
        refuse.field("alignment_options.save_raw")
    needed = ["image", "image_mean", "image_stddev", "model_checkpoint_path", "seed_policy"]
    missing = [name for name in needed if name not in request]
    missing += [f"inference_options.{name}" for name in _THRESHOLDS if name not in flooding]
    if missing:
        refuse.missing(missing)


def _notes(request: Mapping[str, Any], options: SegmentOptions) -> Iterator[str]:
    """Yield what floodtide does otherwise than google/ffn."""
    if max(request.get("batch_size", 1), request.get("concurrent_requests", 1)) > 1:
        yield "batch_size and concurrent_requests: one field of view at a time, on each rank"
    if any(key.endswith("_step") and step != 16 for key, step in options.seed_values.items()):
        yield (
            "seed_policy_args.step: the shifts of the grids are parts of the step, also where google/ffn's are"
            " 8, 4, 12, ... voxels for each step"
        )


def _shift_options(request: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
    if "shift_mask" not in request:
        return {}
    window = ""
    if "shift_mask_fov" in request:
        box = request["shift_mask_fov"]
        start, size = box.get("start", {}), box.get("size", {})
        window = ",".join(
            f"{start.get(axis, 0)}:{start.get(axis, 0) + size.get(axis, 0)}" for axis in "zyx"
        )
    return {
        "shift_mask": refuse.volume(request["shift_mask"], "shift_mask"),
        "shift_mask_fov": window,
        "shift_mask_threshold": float(request.get("shift_mask_threshold", 0)),
        "shift_mask_scale": request.get("shift_mask_scale", 0),
    }


def _zyx(values: Sequence[int] | None, what: str) -> Vec3 | None:
    if values is None:
        return None
    if not (isinstance(values, list) and len(values) == 3 and all(type(v) is int for v in values)):
        raise InvalidFileError(f"{what} is {values!r}, expected [x, y, z]")
    x, y, z = values
    return z, y, x
