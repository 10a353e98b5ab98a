# SPDX-License-Identifier: Apache-2.0
"""Requests of google/ffn (InferenceRequest in text format), as options of this package.

Source: google/ffn, inference.proto and seed.py; shared defaults as in its Python code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import tomli_w

from floodtide import config, nn
from floodtide.base import reading
from floodtide.base.files import replace_text
from floodtide.base.outputs import files_in, reserved, unchecked
from floodtide.base.registry import REVERSED
from floodtide.config import SegmentOptions
from floodtide.config.segment_options import LISTED, MaskChannel, MaskOptions, seed_policies
from floodtide.data import Vec3
from floodtide.errors import ConfigurationError, InvalidFileError
from floodtide.segment.ffn_schema import parse_request

_MODEL = "ConvStack3DFFNModel"
_MOVES = "FaceMaxMovementPolicy"
_THRESHOLDS = ("init_activation", "pad_value", "move_threshold", "segment_threshold")
_ARGUMENTS = "seed_policy_args"
_REVERSED = "ReverseCoords"
_SEQUENCE = "SequentialPolicies"
_PLANAR_PEAKS = "PolicyPeaks2d"
_ZARR = '{"driver": "zarr", "kvstore": {"driver": "file", "path": "volume.zarr"}}'


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
    """Write the configuration (TOML) for `floodtide segment` that a request describes, and return its notes."""
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
    """Read an InferenceRequest of google/ffn in text format."""
    request = parse_request(reading.read_text(path, "an InferenceRequest in text format"), path)
    refuse = _Refuse(path, request)
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
        masks=_masks(request, "masks", refuse),
        seed_masks=_masks(request, "seed_masks", refuse),
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
        **_seed_options(request["seed_policy"], refuse),
    )
    return FfnRequest(options, arguments.get("depth"), tuple(_notes(request, options)))


def _refuse_others(
    refuse: _Refuse, request: Mapping[str, Any], flooding: Mapping[str, Any]
) -> None:
    """Refuse a request that asks for what floodtide does not do, or lacks what it needs."""
    for name in ("reference_histogram", "histogram_masks", "self_prediction"):
        if name in request:
            refuse.field(name)
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
        raise ConfigurationError(
            f"{refuse.path}: {', '.join(missing)} not set, expected a value for each"
        )


def _notes(request: Mapping[str, Any], options: SegmentOptions) -> Iterator[str]:
    """Yield what floodtide does otherwise than google/ffn."""
    if max(request.get("batch_size", 1), request.get("concurrent_requests", 1)) > 1:
        yield "batch_size and concurrent_requests: one field of view at a time, on each rank"
    if any(key.endswith("_step") and step != 16 for key, step in options.seed_values.items()):
        yield (
            "seed_policy_args.step: the shifts of the grids are parts of the step, also where google/ffn's are"
            " 8, 4, 12, ... voxels for each step"
        )


def _shift_options(request: Mapping[str, Any], refuse: _Refuse) -> dict[str, Any]:
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


def _masks(request: Mapping[str, Any], name: str, refuse: _Refuse) -> tuple[MaskOptions, ...]:
    """Return the masks of a repeated field `name` of a request."""
    masks = enumerate(request.get(name, ()))
    return tuple(_mask(mask, f"{name}.{i}", refuse) for i, mask in masks)


def _mask(mask: Mapping[str, Any], name: str, refuse: _Refuse) -> MaskOptions:
    if "coordinate_expression" in mask:  # google/ffn runs it as a Python program
        refuse.field(f"{name}.coordinate_expression", "a volume or the image")
    sources = [key for key in ("volume", "image") if key in mask]
    if len(sources) != 1:
        refuse.field(f"{name} with {' and '.join(sources) or 'no source'}", "a volume or the image")
    source = mask[sources[0]]
    channels = tuple(_channel(channel) for channel in source.get("channels", ()))
    if not channels:
        refuse.field(f"{name}.{sources[0]} without channels", "channels { ... }")
    volume = ""
    if sources[0] == "volume":
        volume = refuse.volume(source.get("mask", {}), f"{name}.volume.mask")
    return MaskOptions(volume=volume, channels=channels, invert=mask.get("invert", False))


def _channel(channel: Mapping[str, Any]) -> MaskChannel:
    number, invert = channel.get("channel", 0), channel.get("invert", False)
    if channel.get("values"):
        return MaskChannel(channel=number, values=tuple(channel["values"]), invert=invert)
    # A bound that is not set is 0, also for google/ffn.
    low, high = channel.get("min_value", 0.0), channel.get("max_value", 0.0)
    return MaskChannel(channel=number, minimum=low, maximum=high, invert=invert)


def _seed_options(name: str, refuse: _Refuse) -> dict[str, Any]:
    given = refuse.arguments(_ARGUMENTS)
    policies = _Policies(refuse)
    names = policies.names(name, given, _ARGUMENTS)
    if names == [LISTED]:
        return {"seeds": policies.seeds}
    values, seeds = policies.values, policies.seeds
    return {"seed_policy": ", ".join(names), "seed_values": values, "seeds": seeds}


class _Policies:
    """Translates policies, and collects their parameters.

    Attributes:
        values: Parameters of all policies so far, by our names.
        seeds: The folder of PolicyInvertOrigins; empty without this policy.
    """

    def __init__(self, refuse: _Refuse) -> None:
        self.values: dict[str, Any] = {}
        self.seeds = ""
        self._refuse = refuse
        self._rows = {row["published"]: row for row in seed_policies()}

    def names(self, name: str, given: Mapping[str, Any], where: str) -> list[str]:
        """Return our names of a policy with some arguments, `reversed` before names of reversed policies."""
        policy, rest = name.rpartition(".")[2], dict(given)
        if policy == _REVERSED:
            inner = str(rest.pop("policy_to_reverse", ""))
            return _turned(self.names(inner, rest, f"{where}.policy_to_reverse"))
        if policy == _SEQUENCE:
            return self._sequence(rest, where)
        if policy not in self._rows:
            known = ", ".join([*self._rows, _REVERSED])
            label = f"seed_policy {name!r}" if where == _ARGUMENTS else f"{where} {name!r}"
            self._refuse.field(label, f"{known} or {_SEQUENCE}")
        row = self._rows[policy]
        if row["name"] == LISTED:
            self._refuse.other_keys(where, rest, {"segmentation_dir"})
            seeds = str(rest.get("segmentation_dir"))
            if self.seeds not in ("", seeds):
                what = f"{where}: a second segmentation_dir"
                self._refuse.field(what, "one for all parts of a sequence")
            self.seeds = seeds
            return [LISTED]
        order = rest.pop("sort_cmp", "ascending") if policy == _PLANAR_PEAKS else "ascending"
        if order not in ("ascending", "descending"):
            self._refuse.field(f"{where}.sort_cmp {order!r}", "ascending or descending")
        # Our parameters have the names of google/ffn behind the policy's: grid_step.
        keys = {spec["name"].removeprefix(row["name"] + "_"): spec for spec in row["parameters"]}
        self._refuse.other_keys(where, rest, set(keys))
        for key, spec in keys.items():
            value = rest.get(key, spec["default"])
            if self.values.setdefault(spec["name"], value) != value:
                self._refuse.field(
                    f"{where}: {policy} with {key} {self.values[spec['name']]} and {value}",
                    "one value for all parts of a sequence",
                )
        names = [row["name"]]
        return _turned(names) if order == "descending" else names

    def _sequence(self, given: Mapping[str, Any], where: str) -> list[str]:
        policies = given.get("policies")
        self._refuse.other_keys(where, given, {"policies"})
        if not isinstance(policies, list) or not policies:
            self._refuse.field(f"{where}.policies {policies!r}", "[[name, arguments], ...]")
        found = []
        for i, part in enumerate(policies):
            place = f"{where}.policies.{i}"
            match part:
                case [str(name), dict(arguments)]:
                    found += self.names(name, arguments, place)
                case _:
                    self._refuse.field(f"{place} {part!r}", "[name, arguments]")
        return found


def _turned(names: list[str]) -> list[str]:
    """Return policies that give the seeds of these policies in reverse order."""
    word = f"{REVERSED} "
    return [
        name.removeprefix(word) if name.startswith(word) else word + name
        for name in reversed(names)
    ]


class _Refuse:
    """Refuses what floodtide does not do."""

    def __init__(self, path: str, request: Mapping[str, Any]) -> None:
        self.path, self._request = path, request

    def field(self, name: str, expected: str = "a request without it") -> NoReturn:
        raise ConfigurationError(f"{self.path}: {name} is not supported, expected {expected}")

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
            raise InvalidFileError(f"{self.path}: {name} is {text[:60]!r}, expected a JSON object")
        return values

    def other_keys(self, name: str, values: Mapping[str, Any], known: set[str]) -> None:
        for key in values.keys() - known:
            self.field(f"{name}.{key}", f"only {', '.join(sorted(known)) or 'an empty object'}")

    def volume(self, volume: Mapping[str, Any], name: str) -> str:
        """Return the name of the volume of a field."""
        expected = f"""{name} {{ hdf5: "file:dataset" }} or {{ tensorstore: '{_ZARR}' }}"""
        for key in volume.keys() - {"hdf5", "tensorstore"}:
            self.field(f"{name}.{key}", expected)
        if len(volume) != 1:
            self.field(f"{'an empty ' * (not volume)}{name}", expected)
        if "hdf5" in volume:
            return str(volume["hdf5"])
        try:
            spec = json.loads(volume["tensorstore"])
            store = spec.pop("kvstore")
            path = str(store.pop("path"))
            plain = spec.pop("driver") in ("zarr", "zarr3") and store == {"driver": "file"}
        except (ValueError, TypeError, AttributeError, KeyError):
            plain, spec = False, {}
        if not plain or spec:
            self.field(f"{name}.tensorstore {volume['tensorstore']!r}", expected)
        return path.rstrip("/")
