# SPDX-License-Identifier: Apache-2.0
"""The fields of google/ffn's InferenceRequest. Source: google/ffn, inference.proto."""

from __future__ import annotations

from floodtide.segment.text_format import Field, Schema

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
