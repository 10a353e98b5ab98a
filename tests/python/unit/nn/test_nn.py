# SPDX-License-Identifier: Apache-2.0
"""The flood-filling network from Python: published values, a float64 reference, arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ffn_reference
import h5py
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import floodtide as ft
from floodtide import _core
from floodtide.errors import InvalidArgumentError, InvalidFileError, ShapeError

Array = npt.NDArray[Any]
CHECKPOINT = "ffn_fib25_checkpoint/model.ckpt-27465036"
PAD, SEED = np.float32(np.log(0.05 / 0.95)), np.float32(np.log(0.95 / 0.05))


def normalise(raw: Array) -> Array:
    return ((raw.astype(np.float32) - 128) / 33).astype(np.float32)


@pytest.fixture(scope="module")
def published(data_folder: Path) -> ft.nn.FFN:
    return ft.nn.load(data_folder / CHECKPOINT)


def example(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Image, logits, labels, weights."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((2, *shape)).astype(np.float32)
    uniform = random.random((2, *shape)).astype(np.float32)
    return normal[0], normal[1], uniform[0], uniform[1]


@pytest.mark.data
def test_tensorflow_checkpoint_is_read_bit_for_bit(published: ft.nn.FFN, data_folder: Path) -> None:
    assert (published.depth, published.features) == (12, 32)
    assert (published.fov, published.deltas) == ((33, 33, 33), (8, 8, 8))
    with h5py.File(data_folder / "ffn_fib25_checkpoint/weights.h5") as file:
        for name, array in published.state_dict().items():
            np.testing.assert_array_equal(array, file[name][()], err_msg=name)


@pytest.mark.data
def test_golden_values_of_a_fresh_seed(published: ft.nn.FFN, data_folder: Path) -> None:
    with h5py.File(data_folder / "fib25/training_sample2/grayscale_maps.h5") as file:
        raw = file["raw"][0:33, 8:41, 188:221]
    logits = np.full(raw.shape, PAD)
    logits[16, 16, 16] = SEED
    updated = published.forward(normalise(raw), logits)
    # Published with five decimals; issue 3 allows 2e-4.
    got = [updated.mean(), updated.min(), updated.max(), updated[0, 0, 0], *updated[16, 16, ::8]]
    expected = [-1.24201, -3.93862, 4.15499, 0.44516, -2.3017, -2.2133, 4.1550, -1.4295, -1.3324]
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-4)
    assert updated.max() == updated[16, 16, 16]
    # Voxels within rounding of the threshold may fall on either side: none does in practice.
    assert np.count_nonzero(updated >= np.log(0.6 / 0.4)) == 6125
    assert np.count_nonzero(updated >= np.log(0.9 / 0.1)) == 940


@pytest.mark.data
def test_forward_vectors_of_tensorflow(published: ft.nn.FFN, data_folder: Path) -> None:
    with np.load(data_folder / "ffn_fib25_checkpoint/forward_vectors.npz") as vectors:
        image = normalise(vectors["image_raw"])
        initial = np.ascontiguousarray(np.broadcast_to(vectors["seed_initial"], image.shape))
        later = vectors["seed_later"]
        expected = vectors["logits_initial"], vectors["logits_later"]
    for seed, logits in zip((initial, later), expected, strict=True):
        np.testing.assert_allclose(published.forward(image, seed), logits, rtol=0, atol=2e-4)


@pytest.mark.data
@pytest.mark.extra
def test_gradient_vectors_of_tensorflow_and_of_float64(data_folder: Path) -> None:
    with np.load(data_folder / "ffn_fib25_checkpoint/gradient_vectors.npz") as vectors:
        stored = dict(vectors)
    image = normalise(stored["image_raw"])
    arrays = image, stored["seed"], stored["labels"], stored["weights"]
    central = tuple(np.ascontiguousarray(array[8:-8, 8:-8, 8:-8]) for array in arrays)
    distances = {}
    for compute in ("fp32", "fp32-direct"):
        network = ft.nn.load(data_folder / CHECKPOINT, compute=compute)
        loss, gradients = network.loss_and_gradients(*arrays)
        assert abs(loss - float(stored["loss"])) <= 1e-6
        for name, gradient in gradients.items():
            key = "grad:" + name.removeprefix("seed_update/").replace("/", ".")
            # One flipped ReLU explains up to 1e-3 of a tensor's norm (issue 3).
            assert _distance(gradient, stored[key]) <= 1e-3, name

        loss, gradients = network.loss_and_gradients(*central)
        expected_loss, logits, expected = ffn_reference.loss_and_gradients(
            network.state_dict(), *central, network.core.relu_masks()
        )
        assert abs(loss - expected_loss) <= 1e-6
        updated = network.forward(*central[:2])
        np.testing.assert_allclose(updated, logits, rtol=0, atol=3e-5)
        assert np.std(updated - logits) <= 3e-6 * np.std(logits)
        distances[compute] = [_distance(gradients[name], expected[name]) for name in gradients]
        assert max(distances[compute]) <= 3e-5
    # Winograd's transforms round about as much as direct convolution does.
    assert np.median(distances["fp32"]) <= 2 * np.median(distances["fp32-direct"])


def _distance(got: Array, expected: Array) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


@settings(max_examples=40, deadline=None)
@given(
    depth=st.integers(1, 4),
    features=st.integers(1, 20),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 13)),
    seed=st.integers(0, 2**32),
)
def test_any_size_agrees_with_float64(
    depth: int, features: int, shape: tuple[int, int, int], seed: int
) -> None:
    network = ft.nn.FFN(depth, (5, 5, 5), (1, 1, 1), features, seed)
    arrays = example(shape, seed)
    loss, gradients = network.loss_and_gradients(*arrays)
    masks = network.core.relu_masks()
    expected_loss, logits, expected = ffn_reference.loss_and_gradients(
        network.state_dict(), *arrays, masks
    )
    # Rounding grows with the depth and with the root of a sum's length: 27 taps of all features.
    tolerance = 4 * depth * np.sqrt(27 * max(features, 2)) * np.finfo(np.float32).eps
    assert abs(loss - expected_loss) <= tolerance * (1 + expected_loss)
    updated = network.forward(*arrays[:2])
    assert np.abs(updated - logits).max() <= tolerance * (1 + np.abs(logits).max())
    # An array whose terms cancel is rounded like its terms, not like itself: compare with all.
    scale = np.sqrt(sum(np.sum(array**2) for array in expected.values()))
    for name, gradient in gradients.items():
        assert np.linalg.norm(gradient - expected[name]) <= tolerance * scale, name


def test_a_batch_is_the_mean_of_its_examples() -> None:
    network = ft.nn.FFN(2, (5, 5, 5), (1, 1, 1), 4)
    arrays = example((2, 4, 5, 6))
    loss, gradients = network.loss_and_gradients(*arrays)
    singles = [network.loss_and_gradients(*(array[i] for array in arrays)) for i in range(2)]
    assert loss == pytest.approx(sum(single[0] for single in singles) / 2)
    for name, gradient in gradients.items():
        mean = (singles[0][1][name] + singles[1][1][name]) / 2
        scale = np.abs(singles[0][1][name]).max() + np.abs(singles[1][1][name]).max()
        assert np.abs(gradient - mean).max() <= 8 * np.finfo(np.float32).eps * scale
    updated = network.forward(*arrays[:2])
    assert updated.shape == (2, 4, 5, 6)
    np.testing.assert_array_equal(updated[1], network.forward(arrays[0][1], arrays[1][1]))


def test_missing_weights_are_ones() -> None:
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), 2)
    image, logits, labels, _ = example((3, 4, 5))
    ones = network.loss_and_gradients(image, logits, labels, np.ones_like(image))
    none = network.loss_and_gradients(image, logits, labels)
    assert ones[0] == none[0]


def test_parameters_share_memory_and_state_dict_copies() -> None:
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), 2)
    image, logits, _, _ = example((3, 3, 3))
    state = network.state_dict()
    for array in network.parameters().values():
        array[...] = 0
    np.testing.assert_array_equal(network.forward(image, logits), logits)
    assert any(array.any() for array in state.values())
    network.load_state_dict(state)
    assert (network.forward(image, logits) != logits).any()


def test_parameters_outlive_the_network() -> None:
    parameters = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), 2, seed=1).parameters()
    expected = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), 2, seed=1).state_dict()
    for name, array in parameters.items():
        np.testing.assert_array_equal(array, expected[name])


def test_load_state_dict_names_what_differs() -> None:
    network = ft.nn.FFN(2, features=4)
    with pytest.raises(InvalidArgumentError, match=r"4 arrays are missing \(seed_update/conv1_a"):
        network.load_state_dict(ft.nn.FFN(1, features=4).state_dict())
    with pytest.raises(ShapeError, match=r"has shape \(3, 3, 3, 2, 5\), expected \(3, 3, 3, 2, 4"):
        network.load_state_dict(ft.nn.FFN(2, features=5).state_dict())
    state: dict[str, Array] = dict(network.state_dict())
    state["seed_update/conv_lom/biases"] = state["seed_update/conv_lom/biases"].astype(np.float64)
    with pytest.raises(InvalidArgumentError, match="is float64, expected float32"):
        network.load_state_dict(state)
    for value in (np.nan, np.inf):
        before, state = network.state_dict(), network.state_dict()
        state["seed_update/conv0_a/weights"].flat[3] = value
        with pytest.raises(InvalidArgumentError, match="conv0_a/weights has values that are not"):
            network.load_state_dict(state)
        for name, array in before.items():
            np.testing.assert_array_equal(network.state_dict()[name], array)


def test_wrong_arrays_are_named() -> None:
    network = ft.nn.FFN(1, (3, 3, 3), (1, 1, 1), 2)
    image, logits, labels, _ = example((3, 4, 5))
    with pytest.raises(
        ShapeError, match=r"logits has shape \(3, 4\), expected \(3, 4, 5\) like the image"
    ):
        network.forward(image, logits[..., 0])
    with pytest.raises(ShapeError, match=r"expected \(z, y, x\) or"):
        network.forward(image[0], logits[0])
    with pytest.raises(InvalidArgumentError, match=r"image: .*float32.*dtype float64"):
        network.forward(image.astype(np.float64), logits)
    with pytest.raises(InvalidArgumentError, match=r"labels: .*strided"):
        network.loss_and_gradients(image, logits, np.asfortranarray(labels))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth is 0, expected 1 to 1000"),
        ({"features": 0}, "features is 0"),
        ({"compute": "fp64"}, "compute is 'fp64', expected fp32, fp32-direct or bf16"),
        ({"fov": (33, 32, 33)}, r"fov is \(33, 32, 33\), expected odd sizes"),
        ({"deltas": (8, 8, 17)}, r"deltas are \(8, 8, 17\), expected 0 to"),
    ],
)
def test_wrong_options_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ft.nn.FFN(**arguments)


def test_loading_a_missing_or_foreign_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="neither a file"):
        ft.nn.load(tmp_path / "nothing")
    (tmp_path / "model.index").write_bytes(b"short")
    with pytest.raises(InvalidFileError, match="no index ends here"):
        ft.nn.load(tmp_path / "model")


@pytest.mark.data
def test_truncated_tensorflow_data_say_so(data_folder: Path, tmp_path: Path) -> None:
    for suffix, share in ((".index", 1.0), (".data-00000-of-00001", 0.5)):
        content = (data_folder / f"{CHECKPOINT}{suffix}").read_bytes()
        (tmp_path / f"model{suffix}").write_bytes(content[: int(share * len(content))])
    with pytest.raises(InvalidFileError, match="it is truncated"):
        ft.nn.load(tmp_path / "model")


def test_a_saved_network_loads_and_others_are_refused(tmp_path: Path) -> None:
    network = ft.nn.FFN(2, (5, 7, 9), (1, 2, 3), 4, seed=3)
    network.save(tmp_path / "network.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["network.h5"]
    copy = ft.nn.load(tmp_path / "network.h5")
    assert repr(copy) == repr(network)
    for name, array in network.state_dict().items():
        np.testing.assert_array_equal(copy.state_dict()[name], array)
    other = ft.nn.load(tmp_path / "network.h5", fov=(9, 9, 9), deltas=(2, 2, 2))
    assert (other.fov, other.deltas) == ((9, 9, 9), (2, 2, 2))
    with h5py.File(tmp_path / "network.h5", "r+") as file:
        assert file.attrs["kind"] == "ffn"
        del file["parameters/seed_update/conv1_a/weights"]
    with pytest.raises(InvalidFileError, match="conv1_a/weights"):
        ft.nn.load(tmp_path / "network.h5")
    content = (tmp_path / "network.h5").read_bytes()
    (tmp_path / "half.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidFileError, match=r"half\.h5"):
        ft.nn.load(tmp_path / "half.h5")


@pytest.mark.data
def test_convert_keeps_every_bit(data_folder: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from floodtide.cli.convert import command

    destination = str(tmp_path / "fib25.h5")
    result = CliRunner().invoke(command, [str(data_folder / CHECKPOINT), destination, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["parameters"] == 638_433
    converted = ft.nn.load(destination).state_dict()
    for name, array in ft.nn.load(data_folder / CHECKPOINT).state_dict().items():
        np.testing.assert_array_equal(converted[name], array)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b.h5"], "neither a file"),
        (["a", "b.npz"], "does not end in .h5"),
        (["a", "b.h5", "--fov", "33,33"], "expected 1 or 3 numbers"),
    ],
)
def test_convert_names_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from floodtide import cli

    assert cli.run(["convert", *arguments]) == 2
    line = capsys.readouterr().err
    assert line.startswith("floodtide convert: ")
    assert message in line
    assert line.count("\n") == 1


def test_options_of_a_network_are_a_copy() -> None:
    network = ft.nn.FFN(depth=2, features=4, fov=(5, 5, 5), deltas=(1, 1, 1)).core
    network.options.features = 64
    assert network.options.features == 4
    unet = ft.nn.UNet(ft.nn.UNetOptions(depth=2, features=16), classes=2).core
    unet.options.classes = 200
    assert unet.options.classes == 2


def test_a_change_of_anything_but_a_network_is_refused() -> None:
    with pytest.raises(RuntimeError, match="cast"):
        _core.Network.changing(3)


@pytest.mark.parametrize("numbers", [{"dice": 0.0, "cross_entropy": 0.0}, {"focus": 0.5}])
def test_a_loss_that_cannot_be_computed_is_refused_when_it_is_made(
    numbers: dict[str, float],
) -> None:
    with pytest.raises(InvalidArgumentError):
        ft.nn.SegmentationLoss(**numbers).core()
