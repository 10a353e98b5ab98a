# SPDX-License-Identifier: Apache-2.0
"""google/ffn's InferenceRequest in text format, read by protobuf itself. Source: google/ffn, inference.proto."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import Message

from floodtide.errors import InvalidFileError

_PACKAGE = "floodtide"
_FIELDS = """
enum Alignment { UNKNOWN_ALIGNMENT = 0; NO_ALIGNMENT = 1; }
message Vector { int64 x = 1; int64 y = 2; int64 z = 3; }
message Box { Vector start = 1; Vector size = 2; }
message Volume {
  string volinfo = 1; string decorator_specs = 2; string hdf5 = 3; string tensorstore = 4;
}
message Channel {
  int32 channel = 1; float min_value = 2; float max_value = 3; bool invert = 4;
  repeated uint64 values = 5;
}
message MaskVolume { Volume mask = 1; repeated Channel channels = 2; }
message MaskImage { repeated Channel channels = 1; }
message MaskExpression { string expression = 1; }
message Mask {
  MaskVolume volume = 1; MaskImage image = 2; MaskExpression coordinate_expression = 3;
  bool invert = 4;
}
message InferenceOptions {
  float init_activation = 1; float pad_value = 2; float move_threshold = 3;
  float consistency_threshold = 4; float disco_seed_threshold = 5; Vector min_boundary_dist = 6;
  float segment_threshold = 7; int32 min_segment_size = 8;
}
message SelfPrediction { float threshold = 1; float orig_threshold = 2; }
message AlignmentOptions { Alignment type = 1; bool save_raw = 6; }
message InferenceRequest {
  Volume image = 24; float image_mean = 2; float image_stddev = 3; string reference_histogram = 4;
  repeated Mask histogram_masks = 26; repeated Mask masks = 5; repeated Mask seed_masks = 30;
  Volume shift_mask = 6; Box shift_mask_fov = 22; int32 shift_mask_scale = 7;
  int32 shift_mask_threshold = 8; string movement_policy_name = 9;
  string movement_policy_args = 10; string model_name = 11; string model_args = 12;
  string model_checkpoint_path = 13; int32 batch_size = 27; int32 concurrent_requests = 28;
  InferenceOptions inference_options = 14; string segmentation_output_dir = 15;
  int32 checkpoint_interval = 16; string seed_policy = 17; string seed_policy_args = 19;
  SelfPrediction self_prediction = 18; AlignmentOptions alignment_options = 20;
  Volume init_segmentation = 25;
}
"""


def parse_request(text: str, where: str) -> dict[str, Any]:
    """Return the fields of a request that are set, nested dictionaries with lists for repeated fields.

    Args:
        text: In protobuf's text format.
        where: The file, for errors.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_described())
    kind = pool.FindMessageTypeByName(f"{_PACKAGE}.InferenceRequest")
    message = message_factory.GetMessageClass(kind)()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise InvalidFileError(f"{where}:{str(error).replace(f'{_PACKAGE}.', '')}") from None
    return _plain(message)


def _described() -> descriptor_pb2.FileDescriptorProto:
    """Return the messages of _FIELDS, as protobuf describes them."""
    file = descriptor_pb2.FileDescriptorProto(name="inference.proto", package=_PACKAGE)
    known, enums = descriptor_pb2.FieldDescriptorProto, set[str]()
    for kind, name, body in re.findall(r"(enum|message) (\w+) \{(.*?)\}", _FIELDS, re.DOTALL):
        if kind == "enum":
            enums.add(name)
            names = file.enum_type.add(name=name)
            for value, number in re.findall(r"(\w+) = (\d+);", body):
                names.value.add(name=value, number=int(number))
            continue
        message = file.message_type.add(name=name)
        for repeated, of, field, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body):
            row = message.field.add(name=field, number=int(number))
            row.label = known.LABEL_REPEATED if repeated else known.LABEL_OPTIONAL
            if of.islower():
                row.type = known.Type.Value(f"TYPE_{of.upper()}")
            else:
                row.type_name = f".{_PACKAGE}.{of}"
                row.type = known.TYPE_ENUM if of in enums else known.TYPE_MESSAGE
    return file


def _plain(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        many = not isinstance(value, (str, int, float, Message))
        plain = [_plain(v) if isinstance(v, Message) else v for v in (value if many else [value])]
        out[field.name] = plain if many else plain[0]
    return out
