# SPDX-License-Identifier: Apache-2.0
"""`segment.forward`: Fourier transforms find the same segments as layer by layer, and are chosen if they are faster."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from floodtide import data, errors, nn
from floodtide.config.segment_options import SegmentOptions
from floodtide.segment import Flooding, Pieces, Segmenter
from floodtide.segment.checkpoints import options_of

OPTIONS = SegmentOptions(
    mean=0.0, std=1.0, min_segment_size=50, move_threshold=0.6, min_boundary_dist=(0, 0, 0)
)


def network(fov: int = 11) -> nn.FFN:
    """Return a network that raises logits in bright places and lowers them in dark ones, with some noise."""
    model = nn.FFN(depth=2, features=16, fov=(fov,) * 3, deltas=(3, 3, 3), seed=4)
    state = {name: 0.02 * values for name, values in model.state_dict().items()}
    for channel, sign in ((0, 1), (1, -1)):
        state["seed_update/conv0_a/weights"][1, 1, 1, 0, channel] = sign
        state["seed_update/conv0_b/weights"][1, 1, 1, channel, channel] = 1
        state["seed_update/conv_lom/weights"][0, 0, 0, channel, 0] = 2 * sign
    model.load_state_dict(state)
    return model


def require_fft(model: nn.FFN) -> None:
    reason = model.core.fft_unsupported(list(model.fov))
    if reason:
        pytest.skip(f"this processor has no Fourier transforms: {reason}")


def blobs() -> np.ndarray:
    image = np.random.default_rng(3).normal(size=(24, 30, 36))
    for axis in range(3):
        for _ in range(3):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return (6 * image / image.std()).astype(np.float32)


def test_segments_are_the_same() -> None:
    model = network()
    require_fft(model)
    found = {}
    for forward in ("layers", "fft"):
        segmenter = Segmenter(model, dataclasses.replace(OPTIONS, forward=forward))
        assert segmenter.forward == forward
        found[forward] = segmenter.segment(blobs())
    assert found["layers"].segments >= 2
    np.testing.assert_array_equal(found["fft"].segmentation, found["layers"].segmentation)


@pytest.mark.parametrize("faster", ["fft", "layers"])
def test_the_faster_way_is_measured(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    require_fft(model)
    assert model.fastest_forward()[0] in ("fft", "layers")
    monkeypatch.setattr(nn.FFN, "fastest_forward", lambda _: (faster, 1.0))
    assert Segmenter(model, OPTIONS).forward == faster


def test_what_cannot_be_computed_is_refused_or_not_chosen() -> None:
    model = network(fov=9)
    assert Segmenter(model, OPTIONS).forward == "layers"
    with pytest.raises(errors.UnsupportedError, match=r"needs avx2|multiples of 11 voxels"):
        Segmenter(model, dataclasses.replace(OPTIONS, forward="fft"))


def test_a_restart_follows_the_choice_of_the_start(tmp_path: Path) -> None:
    model = network()
    require_fft(model)
    volume = data.Volume(blobs())
    for forward in ("layers", "fft"):
        options = dataclasses.replace(OPTIONS, subvolume=(24, 30, 30))
        first = Segmenter(model, dataclasses.replace(options, forward=forward))
        folder = tmp_path / forward
        assert Flooding(first, volume).pieces(folder).forward == forward
        assert Pieces.open(folder).forward == forward
        again = Segmenter(model, options)  # "fastest"
        Flooding(again, volume).pieces(folder)
        assert again.forward == forward
        fixed = Segmenter(model, dataclasses.replace(options, forward="layers"))
        Flooding(fixed, volume).pieces(folder)
        assert fixed.forward == "layers"


@pytest.mark.parametrize("forward", ["layers", "fft"])
def test_a_checkpoint_remembers_the_choice(tmp_path: Path, forward: str) -> None:
    model = network()
    require_fft(model)
    killed = Segmenter(
        model, dataclasses.replace(OPTIONS, forward=forward, checkpoint_interval=1e-9)
    )

    def kill(done: int, total: int) -> None:
        if killed.network_calls == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.segment(blobs(), progress=kill, checkpoint=tmp_path / "a.checkpoint")
    again = Segmenter(model, dataclasses.replace(OPTIONS, checkpoint_interval=3600.0))
    again.follow("layers" if forward == "fft" else "fft")
    again.segment(blobs(), checkpoint=tmp_path / "a.checkpoint")
    assert again.forward == forward


def test_work_continues_with_another_way() -> None:
    """The results differ by rounding only, so a restart on another processor is no other segmentation."""
    model = network()
    other = dataclasses.replace(OPTIONS, forward="layers")
    assert options_of(OPTIONS, model) == options_of(other, model)
