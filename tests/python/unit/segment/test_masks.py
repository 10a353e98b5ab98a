# SPDX-License-Identifier: Apache-2.0
"""Masks by channel and value, seed masks and shift masks against slow readings of google/ffn's functions."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import bright_network
import flood_twin
import h5py
import numpy as np
import pytest
import tensorstore
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from floodtide import _core, cli, config, data, errors
from floodtide.config.segment_options import MaskChannel, MaskOptions
from floodtide.data import Volume
from floodtide.segment import Segmenter, SegmentOptions
from floodtide.segment.canvas import (
    Canvas,
    closed_voxels,
    parse_window,
    read_image,
    shifted_positions,
)
from floodtide.segment.ffn_request import read_request

CLOSED = _core.segment.closed_bits()
SHAPE = (12, 13, 14)


def mask_twin(masks: list[dict[str, Any]], volume: np.ndarray, image: np.ndarray) -> np.ndarray:
    """google/ffn's build_mask, from fields of MaskConfig."""
    final = np.zeros(image.shape, bool)
    for mask in masks:
        source = volume if "volume" in mask else image[np.newaxis]
        current = np.zeros(image.shape, bool)
        for channel in (mask.get("volume") or mask["image"])["channels"]:
            values = source[channel.get("channel", 0)]
            if channel.get("values"):
                chosen = np.isin(values, channel["values"])
            else:
                low, high = channel.get("min_value", 0), channel.get("max_value", 0)
                chosen = (values >= low) & (values <= high)
            current |= ~chosen if channel.get("invert") else chosen
        final |= ~current if mask.get("invert") else current
    return final


def proto(value: Any) -> str:
    """Return fields in protobuf's text format."""
    if isinstance(value, dict):
        rows = [
            (k, v)
            for k, part in value.items()
            for v in (part if isinstance(part, list) else [part])
        ]
        return " ".join(
            f"{k} {{ {proto(v)} }}" if isinstance(v, dict) else f"{k}: {proto(v)}" for k, v in rows
        )
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value)


channels = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "values": st.lists(st.integers(0, 300), max_size=3),
            "min_value": st.integers(0, 9),
            "max_value": st.integers(0, 9),
            "invert": st.booleans(),
        },
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def mask_configs(draw: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        of_volume = draw(st.booleans())
        rows = draw(channels)
        if of_volume:
            for row in rows:
                row["channel"] = draw(st.integers(0, 2))
        mask: dict[str, Any] = {"volume" if of_volume else "image": {"channels": rows}}
        if draw(st.booleans()):
            mask["invert"] = draw(st.booleans())
        found.append(mask)
    return found


REQUEST = """
image {{ hdf5: "{folder}/a.h5:raw" }}
image_mean: 5
image_stddev: 2
model_checkpoint_path: "{folder}/bright.h5"
model_args: '{{"fov_size": [3, 3, 3], "deltas": [1, 1, 1]}}'
seed_policy: "PolicyGrid3d"
seed_policy_args: '{{"step": 4}}'
inference_options {{
  init_activation: 0.95 pad_value: 0.05 move_threshold: 0.9 segment_threshold: 0.6 min_segment_size: 5
}}
"""


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("masks")
    random = np.random.default_rng(3)
    with h5py.File(folder / "a.h5", "w") as file:
        file["raw"] = random.integers(0, 10, SHAPE).astype(np.uint8)
        file["mask"] = random.integers(0, 10, (3, *SHAPE)).astype(np.uint16)
    return folder


@settings(deadline=None, max_examples=30)
@given(mask_configs(), mask_configs(), st.booleans())
def test_masks_of_requests_are_those_of_the_twin(
    volumes: Path, masks: list[dict[str, Any]], seed_masks: list[dict[str, Any]], reflect: bool
) -> None:
    with h5py.File(volumes / "a.h5") as file:
        raw, mask = file["raw"][()], file["mask"][()]
    fields = []
    for name, several in (("masks", masks), ("seed_masks", seed_masks)):
        for one in several:
            named = dict(one)
            if "volume" in named:
                named["volume"] = {**named["volume"], "mask": {"hdf5": f"{volumes}/a.h5:mask"}}
            fields.append(f"{name} {{ {proto(named)} }}")
    path = volumes / "request.pbtxt"
    path.write_text(REQUEST.format(folder=volumes) + "\n".join(fields))
    options = read_request(str(path))
    text = str(config.from_dict({"segment": config.to_dict(options)}))
    (volumes / "same.toml").write_text(text)
    assert (
        config.load(volumes / "same.toml").segment == options
    )  # the configuration can say the same
    box = ((2, 3, 0), (9, 10, 14))
    margin = [1, 1, 1] if reflect else [0, 0, 0]
    image = read_image(Volume(raw), box, margin)
    closed = closed_voxels(options, image, None, (3, 3, 3))
    assert closed is not None
    assert closed.shape == image.voxels.shape
    inside = closed[tuple(slice(a, a + n) for a, n in zip(image.halo_low, box[1], strict=True))]
    part = np.s_[2:11, 3:13, 0:14]
    np.testing.assert_array_equal(inside & CLOSED["moves"] > 0, mask_twin(masks, mask, raw)[part])
    np.testing.assert_array_equal(
        inside & CLOSED["seeds"] > 0, mask_twin(seed_masks, mask, raw)[part]
    )


class Grower:
    """A network for which everything bright is one object."""

    fov, deltas = (3, 3, 3), (1, 1, 1)

    def forward(self, image: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return np.float32(0.5) * logits + 4 * image


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_masked_volumes_are_flooded_as_by_the_twin(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("flood")
    raw = ndimage.gaussian_filter(random.normal(size=SHAPE), 1.0).astype(np.float32)
    masks = random.integers(0, 12, (2, *SHAPE)).astype(np.uint8)
    with h5py.File(folder / "a.h5", "w") as file:
        file["mask"] = masks
    name = f"{folder}/a.h5:mask"
    options = SegmentOptions(
        mean=0.0,
        std=float(raw.std()),
        min_segment_size=5,
        seed_policy="reversed grid",
        seed_values={"grid_step": 3},
        masks=(MaskOptions(volume=name, channels=(MaskChannel(channel=1, values=(3, 5)),)),),
        seed_masks=(
            MaskOptions(volume=name, channels=(MaskChannel(minimum=6.0), MaskChannel(maximum=0.0))),
        ),
    )
    model = Grower()
    twin = flood_twin.Twin(
        (raw - np.float32(options.mean)) / np.float32(options.std), model, options
    )
    twin.mask = np.isin(masks[1], (3, 5))
    no_seeds = (masks[0] >= 6) | (masks[0] == 0)
    seeds = _core.segment.find_seeds(
        raw, 0.0, options.std, "grid", {"grid_step": 3}, [1, 1, 1], None
    )[::-1]
    tried = [tuple(map(int, seed)) for seed in seeds if not no_seeds[tuple(seed)]]
    expected = twin.segment_all(tried)
    result = Segmenter(model, options).segment(raw)
    np.testing.assert_array_equal(result.segmentation, expected)
    assert [o.start_zyx for o in result.origins] == [o[1] for o in twin.origins]
    # Seeds that are given are masked, too.
    given_seeds = Segmenter(
        model, dataclasses.replace(options, seed_policy="max", seed_values={})
    ).segment(raw, seeds=seeds.copy())
    np.testing.assert_array_equal(given_seeds.segmentation, expected)


def test_channels_of_zarr_and_hdf5_are_equal(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 4, (3, 5, 6, 7)).astype(np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["four"], file["three"] = values, values[0]
    store = {"driver": "file", "path": f"{tmp_path}/a.zarr/"}
    spec = {"driver": "zarr3", "kvstore": store}
    tensorstore.open(spec, create=True, dtype=tensorstore.uint8, shape=values.shape).result().write(
        values
    ).result()
    for name in (f"{tmp_path}/a.h5:four", f"{tmp_path}/a.zarr"):
        for channel in range(3):
            read = data.Volume(name, channel=channel).read("1:5,2:6,0:7")
            np.testing.assert_array_equal(read, values[channel, 1:5, 2:6])
        with pytest.raises(errors.InvalidFileError, match="has 3 channels, expected one with the"):
            data.Volume(name, channel=3)
        with pytest.raises(errors.InvalidFileError, match="4 axes"):
            data.Volume(name)
    three = f"{tmp_path}/a.h5:three"
    np.testing.assert_array_equal(data.Volume(three, channel=0).read(), values[0])
    with pytest.raises(errors.InvalidFileError, match="has 1 channel, expected one with the"):
        data.Volume(three, channel=1)


def test_a_wrong_mask_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = bright_network.configuration(tmp_path)
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        file["small"] = np.ones((2, 3, 3, 3), np.uint8)
    text = toml.read_text()
    for table, says in (
        (f'volume = "{tmp_path}/mask.h5:small"', "voxels from"),
        (f'volume = "{tmp_path}/mask.h5:small"\nchannels = [{{channel = 2}}]', "has 2 channels"),
        (f'volume = "{tmp_path}/none.h5:small"', "none.h5"),
        ("channels = [{channel = 1}]", "names channel 1, expected channel 0"),
        ('volum = "a"', "unknown key 'segment.masks.0.volum', did you mean"),
        ("channels = [{value = [1]}]", "unknown key 'segment.masks.0.channels.0.value'"),
        ("channels = [{values = [-1]}]", "segment.masks.0.channels.0.values.0 is -1"),
    ):
        toml.write_text(f"{text}\n[[segment.masks]]\n{table}\n")
        assert cli.run(["segment", str(toml), "--out", f"{tmp_path}/o.h5:labels"]) == 2
        printed = capsys.readouterr().err.strip()
        assert says in printed
        assert "\n" not in printed
    assert not (tmp_path / "o.h5").exists()
    toml.write_text(f'{text}\n[[segment.seed_masks]]\nvolume = "{tmp_path}/volume.h5:raw"\n')
    assert cli.run(["segment", str(toml), "--out", f"{tmp_path}/volume.h5:raw"]) == 2


def shifted_twin(
    shifts: np.ndarray, options: SegmentOptions, shape: tuple[int, ...], fov: tuple[int, ...]
) -> np.ndarray:
    """google/ffn's MovementRestrictor.is_valid_pos for every position of a whole volume."""
    bad = np.max(np.abs(shifts), axis=0) >= options.shift_mask_threshold
    window = parse_window(options.shift_mask_fov, fov)
    scale = options.shift_mask_scale
    found = np.zeros(shape, bool)
    for position in np.ndindex(*shape):
        low = np.maximum(np.array(position) + window[0], 0)
        high = np.array(position) + window[1]
        if np.any(high < 0):
            continue
        start, end = low // scale, high // scale
        found[position] = bad[
            low[0] : high[0] + 1, start[1] : end[1] + 1, start[2] : end[2] + 1
        ].any()
    return found


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.sampled_from(["", "-1:2,-4:4,-5:3", "0:1,0:1,0:1", "-3:-1,2:5,-20:20"]),
    st.integers(2, 5),
)
def test_shift_masks_forbid_what_the_twin_forbids(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scale: int, window: str, threshold: int
) -> None:
    folder = tmp_path_factory.mktemp("shift")
    random = np.random.default_rng(seed)
    coarse = (SHAPE[0], -(-SHAPE[1] // scale), -(-SHAPE[2] // scale))
    shifts = random.normal(size=(2, *coarse)).astype(np.float32) * 2
    shifts = np.where(random.random(shifts.shape) < 0.9, 0, shifts).round().astype(np.int8)
    with h5py.File(folder / "a.h5", "w") as file:
        file["shift"] = shifts
    options = SegmentOptions(
        shift_mask=f"{folder}/a.h5:shift",
        shift_mask_fov=window,
        shift_mask_scale=scale,
        shift_mask_threshold=float(threshold),
    )
    fov = (3, 5, 5)
    raw = np.zeros(SHAPE, np.float32)
    whole = Canvas(raw, (0, 0, 0), (0, 0, 0), (0, 0, 0), Volume(raw))
    expected = shifted_twin(shifts, options, SHAPE, fov)
    np.testing.assert_array_equal(shifted_positions(options, whole, fov), expected)
    # In a box, only the shifts of the box count. They are those of the box alone if it begins at a voxel of the mask.
    corner = (3, scale * (4 // scale), scale * (5 // scale))
    box = read_image(Volume(raw), (corner, (6, 8, 7)), (1, 1, 1))
    sliced = shifts[
        :, 3:9, corner[1] // scale : -(-(corner[1] + 8) // scale), corner[2] // scale :
    ][..., : -(-(corner[2] + 7) // scale) - corner[2] // scale]
    # The last voxel of the mask may reach over the box.
    np.testing.assert_array_equal(
        shifted_positions(options, box, fov)[
            tuple(slice(a, a + n) for a, n in zip(box.halo_low, (6, 8, 7), strict=True))
        ],
        shifted_twin(sliced, options, (6, 8, 7), fov),
    )


def test_shifts_stop_objects_but_make_no_edges_for_seeds(tmp_path: Path) -> None:
    raw = np.ones((9, 20, 20), np.float32)
    shifts = np.zeros((2, 9, 5, 5), np.float32)
    shifts[1, :, :, 2] = -4  # x from 8 to 11
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["shift"] = shifts
        file["one"] = shifts[0]
    options = SegmentOptions(
        mean=0.0,
        std=1.0,
        min_segment_size=1,
        shift_mask_scale=4,
        shift_mask=f"{tmp_path}/a.h5:shift",
    )
    grown = Segmenter(Grower(), options).segment(raw, seeds=[(4, 4, 4), (4, 4, 9), (4, 4, 16)])
    assert [origin.start_zyx[2] for origin in grown.origins] == [4, 16]
    assert grown.segmentation.max() == 2
    assert not grown.segmentation[:, :, 8:12].any()
    closed = closed_voxels(options, read_image(Volume(raw), None, (0, 0, 0)), None, (3, 3, 3))
    assert closed is not None
    assert set(np.unique(closed)) == {0, CLOSED["shift"]}
    for changed, says in (
        ({"shift_mask_scale": 3}, "expected \\(9, 7, 7\\)"),
        ({"shift_mask": f"{tmp_path}/a.h5:one"}, "has 1 channel"),
        ({"shift_mask_fov": "0:0,0:1,0:1"}, "shift_mask_fov is '0:0,0:1,0:1'"),
        ({"shift_mask_fov": "-5000:1,0:1,0:1"}, "at most 4096"),
    ):
        with pytest.raises(errors.Error, match=says):
            Segmenter(Grower(), dataclasses.replace(options, **changed)).segment(raw)
