# SPDX-License-Identifier: Apache-2.0
"""Requests of google/ffn (InferenceRequest in text format), as options of this package.

Source: google/ffn, inference.proto and seed.py; shared defaults as in its Python code.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tomli_w
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import Message

from floodtide import config
from floodtide.base import reading
from floodtide.base.files import replace_text
from floodtide.base.options import REVERSED, fits, shown
from floodtide.base.outputs import files_in, reserved, unchecked
from floodtide.config import SegmentOptions
from floodtide.config.segment_options import MaskChannel, MaskOptions, seed_policies
from floodtide.data import Vec3
from floodtide.errors import ConfigurationError, InvalidFileError

_PACKAGE = "floodtide"
# The fields that floodtide follows, or may ignore. All others are refused.
_FIELDS = """
message Vector { int64 x = 1; int64 y = 2; int64 z = 3; }
message Box { Vector start = 1; Vector size = 2; }
message Volume { string hdf5 = 3; string tensorstore = 4; }
message Channel {
  int32 channel = 1; float min_value = 2; float max_value = 3; bool invert = 4;
  repeated uint64 values = 5;
}
message MaskVolume { Volume mask = 1; repeated Channel channels = 2; }
message MaskImage { repeated Channel channels = 1; }
message Mask { MaskVolume volume = 1; MaskImage image = 2; bool invert = 4; }
message InferenceOptions {
  float init_activation = 1; float pad_value = 2; float move_threshold = 3;
  float disco_seed_threshold = 5; Vector min_boundary_dist = 6; float segment_threshold = 7;
  int32 min_segment_size = 8;
}
message InferenceRequest {
  Volume image = 24; float image_mean = 2; float image_stddev = 3; repeated Mask masks = 5;
  repeated Mask seed_masks = 30; Volume shift_mask = 6; Box shift_mask_fov = 22;
  int32 shift_mask_scale = 7; int32 shift_mask_threshold = 8; string movement_policy_name = 9;
  string movement_policy_args = 10; string model_name = 11; string model_args = 12;
  string model_checkpoint_path = 13; int32 batch_size = 27; int32 concurrent_requests = 28;
  InferenceOptions inference_options = 14; string segmentation_output_dir = 15;
  int32 checkpoint_interval = 16; string seed_policy = 17; string seed_policy_args = 19;
  Volume init_segmentation = 25;
}
"""

_ONLY = {"movement_policy_name": "FaceMaxMovementPolicy", "model_name": "ConvStack3DFFNModel"}
_THRESHOLDS = ("init_activation", "pad_value", "move_threshold", "segment_threshold")
_ARGUMENTS = "seed_policy_args"
_REVERSED, _SEQUENCE = "ReverseCoords", "SequentialPolicies"
_INVERTED, _PLANAR_PEAKS = "PolicyInvertOrigins", "PolicyPeaks2d"
_ZARR = '{"driver": "zarr", "kvstore": {"driver": "file", "path": "volume.zarr"}}'


def write_configuration(path: str, out: str) -> None:
    """Write the configuration (TOML) for `floodtide segment` that a request describes."""
    options = read_request(path)
    with reserved("convert", out, unchecked, [path, *files_in(options.checkpoint)]):
        head = f"# floodtide convert wrote this from {path}, a request of google/ffn.\n"
        document = tomli_w.dumps({"segment": config.to_dict(options)})
        replace_text(Path(out), head + document)


def read_request(path: str) -> SegmentOptions:
    """Return the options of an InferenceRequest of google/ffn in text format."""
    request = _parsed(reading.read_text(path, "an InferenceRequest in text format"), path)
    refuse = _Refuse(path, request)
    flooding = request.get("inference_options", {})
    needed = ["image", "image_mean", "image_stddev", "model_checkpoint_path", "seed_policy"]
    missing = [name for name in needed if name not in request]
    missing += [f"inference_options.{name}" for name in _THRESHOLDS if name not in flooding]
    if missing:
        raise ConfigurationError(f"{path}: {', '.join(missing)} not set, expected a value for each")
    for name, only in _ONLY.items():
        if request.get(name, only).rpartition(".")[2] != only:
            refuse.field(f"{name} {request[name]!r}", only)
    refuse.other_keys("movement_policy_args", refuse.arguments("movement_policy_args"), set())
    arguments = refuse.arguments("model_args")
    refuse.other_keys("model_args", arguments, {"depth", "fov_size", "deltas", "features"})
    distance = flooding.get("min_boundary_dist", {})
    initial = request.get("init_segmentation")
    return SegmentOptions(
        checkpoint=request["model_checkpoint_path"],
        image=refuse.volume(request["image"], "image"),
        initial="" if initial is None else refuse.volume(initial, "init_segmentation"),
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


def _shift_options(request: Mapping[str, Any], refuse: _Refuse) -> dict[str, Any]:
    if "shift_mask" not in request:
        return {}
    box = request.get("shift_mask_fov", {})
    start, size = ([box.get(part, {}).get(a, 0) for a in "zyx"] for part in ("start", "size"))
    ends = [f"{a}:{a + n}" for a, n in zip(start, size, strict=True)]
    return {
        "shift_mask": refuse.volume(request["shift_mask"], "shift_mask"),
        "shift_mask_fov": ",".join(ends) if "shift_mask_fov" in request else "",
        "shift_mask_threshold": float(request.get("shift_mask_threshold", 0)),
        "shift_mask_scale": request.get("shift_mask_scale", 0),
    }


def _zyx(values: Any, what: str) -> Vec3 | None:
    match values:
        case None:
            return None
        case [int(x), int(y), int(z)]:
            return z, y, x
    raise InvalidFileError(f"{what} is {values!r}, expected [x, y, z]")


def _masks(request: Mapping[str, Any], name: str, refuse: _Refuse) -> tuple[MaskOptions, ...]:
    """Return the masks of a repeated field `name` of a request."""
    found = []
    for i, mask in enumerate(request.get(name, ())):
        source = mask.get("volume") or mask.get("image") or {}
        channels = tuple(_channel(channel) for channel in source.get("channels", ()))
        if not channels:
            refuse.field(f"{name}.{i} without channels", "a volume or the image, with channels")
        volume = ""
        if "volume" in mask:
            volume = refuse.volume(source.get("mask", {}), f"{name}.{i}.volume.mask")
        invert = mask.get("invert", False)
        found.append(MaskOptions(volume=volume, channels=channels, invert=invert))
    return tuple(found)


def _channel(channel: Mapping[str, Any]) -> MaskChannel:
    number, invert = channel.get("channel", 0), channel.get("invert", False)
    if channel.get("values"):
        return MaskChannel(channel=number, values=tuple(channel["values"]), invert=invert)
    # A bound that is not set is 0, also for google/ffn.
    low, high = channel.get("min_value", 0.0), channel.get("max_value", 0.0)
    return MaskChannel(channel=number, minimum=low, maximum=high, invert=invert)


def _seed_options(name: str, refuse: _Refuse) -> dict[str, Any]:
    """Return our keys of a policy: ours have the names of google/ffn behind the policy's, such as grid_step."""
    rows = {row["published"]: row for row in seed_policies()}
    known = f"{', '.join(rows)}, {_REVERSED} or {_SEQUENCE}"
    names, values = list[str](), dict[str, Any]()
    for policy, given, is_reversed in _policies(name, refuse.arguments(_ARGUMENTS), refuse):
        if policy not in rows:
            refuse.field(f"seed_policy {policy!r}", known)
        row = rows[policy]
        keys = {spec["name"].removeprefix(row["name"] + "_"): spec for spec in row["parameters"]}
        if policy == _INVERTED:
            keys = {"segmentation_dir": {"name": "seeds", "default": ""}}
        order = given.pop("sort_cmp", "ascending") if policy == _PLANAR_PEAKS else "ascending"
        if order not in ("ascending", "descending"):
            refuse.field(f"{_ARGUMENTS}.sort_cmp {order!r}", "ascending or descending")
        refuse.other_keys(_ARGUMENTS, given, set(keys))
        for key, spec in keys.items():
            value = given.get(key, spec["default"])
            if values.setdefault(spec["name"], value) != value:
                what = f"{policy} with {key} {values[spec['name']]!r} and {value!r}"
                refuse.field(what, "one value for all parts of a sequence")
        is_reversed ^= order == "descending"
        names.append(f"{REVERSED} {row['name']}" if is_reversed else row["name"])
    seeds = values.pop("seeds", "")
    return {"seed_policy": ", ".join(names), "seed_values": values, "seeds": seeds}


def _policies(
    name: str, given: Mapping[str, Any], refuse: _Refuse
) -> list[tuple[str, dict[str, Any], bool]]:
    """Return the policies of which a policy consists: name, arguments, and whether its seeds are reversed."""
    policy, rest = name.rpartition(".")[2], dict(given)
    if policy == _REVERSED:
        inner = _policies(str(rest.pop("policy_to_reverse", "")), rest, refuse)
        return [(part, arguments, not turned) for part, arguments, turned in reversed(inner)]
    if policy != _SEQUENCE:
        return [(policy, rest, False)]
    refuse.other_keys(_ARGUMENTS, rest, {"policies"})
    parts = rest.get("policies")
    if not parts or not fits(parts, Sequence[tuple[str, Mapping[str, Any]]]):
        refuse.field(f"{_ARGUMENTS}.policies {shown(parts)}", "[[name, arguments], ...]")
    return [one for part, arguments in parts for one in _policies(part, arguments, refuse)]


class _Refuse:
    """Refuses what floodtide does not do."""

    def __init__(self, path: str, request: Mapping[str, Any]) -> None:
        self.path, self._request = path, request

    def field(self, name: str, expected: str = "a request without it") -> NoReturn:
        raise ConfigurationError(f"{self.path}: {name} is not supported, expected {expected}")

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
        if volume.keys() == {"hdf5"}:
            return str(volume["hdf5"])
        path = ""
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
            spec = json.loads(volume["tensorstore"])
            named, store = str(spec["kvstore"].pop("path")).rstrip("/"), {"driver": "file"}
            if spec in ({"driver": driver, "kvstore": store} for driver in ("zarr", "zarr3")):
                path = named
        if not path:
            expected = f"""{name} {{ hdf5: "file:dataset" }} or {{ tensorstore: '{_ZARR}' }}"""
            self.field(name, expected)
        return path


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Return the fields of a request in protobuf's text format that are set; `where` is its file, for errors."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_described())
    kind = pool.FindMessageTypeByName(f"{_PACKAGE}.InferenceRequest")
    message = message_factory.GetMessageClass(kind)()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        text = str(error).replace(f"{_PACKAGE}.", "")
        raise InvalidFileError(f"{where}:{text} Expected fields that floodtide supports") from None
    return _plain(message)


def _described() -> descriptor_pb2.FileDescriptorProto:
    """Return the messages of _FIELDS, as protobuf describes them."""
    file = descriptor_pb2.FileDescriptorProto(name="inference.proto", package=_PACKAGE)
    known = descriptor_pb2.FieldDescriptorProto
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", _FIELDS, re.DOTALL):
        message = file.message_type.add(name=name)
        for repeated, of, field, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body):
            row = message.field.add(name=field, number=int(number))
            row.label = known.LABEL_REPEATED if repeated else known.LABEL_OPTIONAL
            if of.islower():
                row.type = known.Type.Value(f"TYPE_{of.upper()}")
            else:
                row.type, row.type_name = known.TYPE_MESSAGE, f".{_PACKAGE}.{of}"
    return file


def _plain(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        many = not isinstance(value, (str, int, float, Message))
        plain = [_plain(v) if isinstance(v, Message) else v for v in (value if many else [value])]
        out[field.name] = plain if many else plain[0]
    return out
