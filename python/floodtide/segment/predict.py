# SPDX-License-Identifier: Apache-2.0
"""Predictions of U-Nets on volumes of any size, in blocks of bounded memory.

Blocks overlap by the network's context, so the result equals that of one pass over the whole volume, without seams.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, nn
from floodtide.base import limits
from floodtide.base.data_options import TrainingVolume
from floodtide.base.files import path_and_dataset
from floodtide.base.networks import section_of
from floodtide.base.options import shown, typed
from floodtide.base.outputs import PathLike, files_of, hdf5_result, reserved, result_dataset
from floodtide.base.progress import bar
from floodtide.base.tasks import PatchTask
from floodtide.comm import world
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import Progress, as_vec3, difference, is_inside, slices
from floodtide.data.formats.writers import hdf5_file
from floodtide.data.look.problems import Reading, checked_image, image_problems, settle
from floodtide.data.volumes import as_volume, require_same_grid
from floodtide.errors import InvalidArgumentError, NumericalError, OutOfRangeError, ShapeError
from floodtide.nn.network import SameParameters
from floodtide.segment import trained
from floodtide.segment.windows import blocks_of

Image = NDArray[Any] | Volume
Images = Image | Sequence[Image]
"""An image, or one for each channel of the network."""
Values = NDArray[np.float32]

MEMORY_MIB = 2048
"""Default memory (MiB) for the activations of a block."""

_LARGE = 1024  # voxels along each axis of a block whose halo needs hardly any memory

_COMMAND = "floodtide predict"
_CHUNK = 64  # voxels along each axis of a result's chunks


class Predictor:
    """A U-Net that predicts images of any size. Several threads may use one Predictor at the same time.

    Args:
        model: The network.
        mean, std: The network receives (value - mean) / std. One number for each channel, or one for all.
        memory_mib: Approximate memory (MiB) for the activations of a block. It limits the size of blocks. Each thread
            that predicts at the same time needs this memory.
        mirror: Axes, 0 for z to 2 for x. The prediction is then the mean over the image and its copies mirrored along
            all subsets of these axes: 8 forward passes for three axes instead of one. Use axes that training reflected.
        task: What the network has learnt. With a task of classes, results have the values of its table. None: it is
            unknown, and results have all outputs. `mirror` needs a task for outputs that are not classes.

    Raises:
        InvalidArgumentError: If the model is not a U-Net, a number is out of range, or the task does not fit it.
    """

    @typed()
    def __init__(
        self,
        model: nn.PatchNetwork,
        *,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        memory_mib: float = MEMORY_MIB,
        mirror: Sequence[int] = (),
        task: PatchTask | None = None,
    ) -> None:
        options = model.core.options
        limits.INTENSITY.check(mean, "predict: mean")
        limits.DEVIATION.check(std, "predict: std")
        limits.MEMORY.check(memory_mib, "predict: memory_mib")
        limits.AXIS.check(mirror, "predict: mirror")
        if task is not None and len(task.channels) != options.classes:
            raise InvalidArgumentError(
                f"predict: the network has {options.classes} outputs, and its task '{task.kind}' has {task.channels}"
            )
        self.model = model
        self.mean = _for_channels("mean", mean, options.in_channels)
        self.std = _for_channels("std", std, options.in_channels)
        self.pool = model.core.total_pool
        self.context = section_of(model.core).context
        self.mirror = tuple(sorted(set(mirror) - ({0} if model.flat else set())))
        self.task = task
        if self.mirror:
            self._require_mirrors()
        self._voxels = int(memory_mib * 2**20 / self._bytes_per_voxel)

    @property
    def outputs(self) -> int:
        """Return the number of outputs per voxel that predictions keep."""
        return self.model.core.options.classes if self.task is None else self.task.predicted

    def blocks(
        self, image: Images, box: Box | None = None, progress: Progress | None = None
    ) -> Iterator[tuple[Box, NDArray[np.float32]]]:
        """Predict block by block.

        Args:
            image: A Volume (z, y, x), of which only the needed parts are read, or what `Volume` takes; or a list of one
                for each channel of the network.
            box: (start, size) of the part to predict, in voxels; None: the whole image. Voxels around the box are
                used as context.
            progress: Called as progress(voxels done, voxels).

        Yields:
            (block, probabilities). The blocks (start, size) are disjoint and fill the box. Probabilities are float32
            (z, y, x, outputs).

        Raises:
            InvalidFileError: If `Volume` refuses an image, for example one of two axes.
            OutOfRangeError: If the box is not inside the image.
            InvalidArgumentError: If `memory_mib` is too small for the smallest block, or exceeds the available memory.
            NumericalError: If a probability is not finite.
            InUseError: If another thread changes the parameters of the network meanwhile.
        """
        images = self.channels(image)
        yield from self._rounds(images, _checked(images[0], box), progress, 1)

    def _rounds(
        self, images: Sequence[Volume], box: Box, progress: Progress | None, ranks: int
    ) -> Iterator[tuple[Box, Any]]:
        """Predict a block on each of the ranks at a time, and yield what `blocks` yields; None on other ranks than 0.

        Collective for several ranks.
        """
        agreed = world.agreed if ranks > 1 else contextlib.nullcontext
        done, rank = 0, world.rank() if ranks > 1 else 0
        with agreed():
            lengths, blocks = self._blocks_of(images[0].shape, box)
            limits.require_memory(
                f"predict: a block of {' x '.join(map(str, lengths))} voxels needs",
                self._bytes_per_voxel * math.prod(lengths),
                "fewer MiB for a block (memory_mib)",
            )
            same = SameParameters(self.model, "predict")
        for first in range(0, len(blocks), ranks):
            shared = blocks[first : first + ranks]
            kept: Values | None = None
            with agreed():
                if rank < len(shared):
                    kept = self._block(images, *shared[rank], same)
            # One at a time: rank 0 has the memory for one more block.
            for source, (_, at) in enumerate(shared):
                if source > 0:
                    sent = world.gather_bytes([kept] if kept is not None and rank == source else [])
                    if rank == 0:
                        kept = sent.view(np.float32).reshape(*at[1], self.outputs)
                yield at, kept if rank == 0 else None
                done += math.prod(at[1])
                if progress is not None:
                    progress(done, math.prod(box[1]))

    def _block(self, images: Sequence[Volume], read: Box, at: Box, same: SameParameters) -> Values:
        """Return the probabilities (z, y, x, outputs) of the voxels that a block keeps."""
        probabilities = self._forward([one.core.read_intensities(*read) for one in images])
        same.require()
        kept = np.ascontiguousarray(probabilities[(*slices(at, read[0]), slice(self.outputs))])
        if not np.isfinite(kept).all():
            raise NumericalError("predict: the network's output is not a number")
        return kept

    def cost(self, shape: Sequence[int], box: Box) -> tuple[int, int, float]:
        """Return the computed voxels of a box, halos included, the number of blocks, and the bytes of a block."""
        lengths, blocks = self._blocks_of(shape, box)
        block = math.prod(lengths)
        return len(blocks) * block, len(blocks), self._bytes_per_voxel * block

    def _blocks_of(self, shape: Sequence[int], box: Box) -> tuple[Vec3, list[tuple[Box, Box]]]:
        return blocks_of(shape, box, self.context, self.pool, self._voxels)

    @typed()
    def probabilities(
        self, image: Images, box: Box | None = None, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return the probabilities of a box, float32 (outputs, z, y, x). Arguments and errors as for `blocks`."""
        start, size = _checked(self.channels(image)[0], box)
        result = np.empty((self.outputs, *size), np.float32)
        for block, kept in self.blocks(image, box, progress):
            result[(slice(None), *slices(block, start))] = np.moveaxis(kept, -1, 0)
        return result

    def predicted(
        self, image: Images, box: Box | None = None, progress: Progress | None = None
    ) -> NDArray[Any]:
        """Return what `write` writes of a box: the values of classes (z, y, x), or outputs (outputs, z, y, x)."""
        outputs = self.probabilities(image, box, progress)
        if not self.model.excluding:
            return outputs
        classes: NDArray[Any] = self._class_values()[outputs.argmax(axis=0)]
        return classes

    @typed()
    def write(
        self,
        volume: Volume | Sequence[Volume],
        out: str,
        *,
        box: Box | None = None,
        probabilities: bool = False,
        voxel_size_nm: Sequence[float] | None = None,
        notes: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Predict a volume and write the result to an HDF5 file, with one block of each rank in memory at a time.

        Collective: ranks share the blocks, and rank 0 writes the file, which docs/formats.md describes.

        Args:
            volume: The image, or one for each channel of the network.
            out: "file:dataset". An older prediction of that name is replaced when the new one is complete. Other
                datasets of the file are kept.
            box, progress: As for `blocks`.
            probabilities: Also write the probabilities of the classes, <dataset>_probabilities (classes, z, y, x).
            voxel_size_nm: Voxel size (z, y, x) that the result states; None: that of the volume.
            notes: Texts that become attributes of the dataset.

        Raises:
            StorageError: If the file cannot be written.
            InvalidArgumentError: If `probabilities` is True and the outputs are not classes, if `out` is the file of
                the volume, or if the dataset exists and is not an older prediction. Also as for `blocks`.
        """
        with world.agreed():
            if probabilities and not self.model.excluding:
                raise InvalidArgumentError(
                    f"predict: {self.model!r} has independent outputs (sigmoid), expected mutually exclusive classes "
                    "(softmax); its outputs are the probabilities"
                )
            path, dataset = path_and_dataset(out)
            volumes = self.channels(volume)
            box = _checked(volumes[0], box)
        classes = self._class_values() if self.model.excluding else None
        kinds = {dataset: "float32" if classes is None else classes.dtype.name}
        if probabilities:
            kinds[f"{dataset}_probabilities"] = "float32"
        attributes = self._attributes(volumes[0], box, voxel_size_nm) | dict(notes or {})
        with contextlib.ExitStack() as held:
            with world.agreed():
                if world.rank() == 0:
                    held.enter_context(_output(out, files_of([one.name for one in volumes])))
                    file = held.enter_context(hdf5_file(path, _COMMAND, _datasets(dataset)))
                    for name, dtype in kinds.items():
                        channels = [self.outputs] if dtype == "float32" else []
                        chunks = [*(1 for _ in channels), *(min(n, _CHUNK) for n in box[1])]
                        gzip = 1 if channels else 4  # probabilities hardly compress
                        file.create(name, dtype, [*channels, *box[1]], chunks, gzip)
                        for key, value in attributes.items():
                            file.attribute(name, key, value)
            for block, kept in self._rounds(volumes, box, progress, world.size()):
                with world.agreed():
                    for name in kinds if kept is not None else ():
                        at = difference(block[0], box[0])
                        if name == dataset and classes is not None:
                            file.write(name, at, classes[kept.argmax(axis=-1)])
                        else:
                            file.write(name, [0, *at], np.moveaxis(kept, -1, 0).copy())
            with world.agreed():
                held.close()  # gives the file its name

    def _attributes(
        self, image: Volume, box: Box, voxel_size_nm: Sequence[float] | None
    ) -> dict[str, Any]:
        """Return the attributes of a result."""
        size_nm = voxel_size_nm or image.geometry.voxel_size_nm
        return {
            "box_start": list(box[0]),
            "box_size": list(box[1]),
            "volume_shape": list(image.shape),
            **({} if size_nm is None else {"resolution": np.array(size_nm, np.float64)}),
            "image": image.name,
            "network": repr(self.model),
            "mean": json.dumps(self.mean.tolist()),
            "std": json.dumps(self.std.tolist()),
            "context": json.dumps(self.context),
            "mirror": json.dumps(self.mirror),
            "floodtide_version": _core.__version__,
            **({} if self.task is None else self.task.notes),
        }

    def channels(self, image: Images) -> list[Volume]:
        """Return the image of each channel of the network, after checks.

        Raises:
            InvalidArgumentError, ShapeError: If their number is wrong, or their shapes, voxel sizes or places differ.
            InvalidFileError: If `Volume` refuses one.
        """
        given: Sequence[Any] = image if isinstance(image, list | tuple) else [image]
        images = [as_volume(one) for one in given]
        if len(images) != len(self.mean):
            raise InvalidArgumentError(
                f"predict: {len(images)} image(s), expected {len(self.mean)}: one for each channel of the network"
                " (--channel of `floodtide predict`, or data.volumes.channels of the table that segment.image names)"
            )
        for one in images[1:]:
            if one.shape != images[0].shape:
                raise ShapeError(
                    f"predict: channels of shapes {images[0].shape} and {one.shape}, expected the same"
                )
            require_same_grid("predict", one, images[0])
        return images

    def settle_channels(self, where: str, images: Sequence[Volume], box: Box | None) -> None:
        """Check mean and std of the channels behind the first one, as `checked_image` checks the first one.

        Checkpoints do not keep what further channels looked like.
        """
        rows = list(zip(images, self.mean.tolist(), self.std.tolist(), strict=True))
        for number, (image, mean, std) in enumerate(rows[1:]):
            keys = f"data.volumes.channels.{number}.mean and std of the training"
            settle(image_problems(image, None, Reading(where, mean, std, keys), box=box))

    def _class_values(self) -> NDArray[Any]:
        """Return the value of each class in a file."""
        values = list(range(self.outputs) if self.task is None else self.task.written)
        return np.array(values, np.result_type(*map(np.min_scalar_type, values)))

    @property
    def _offsets(self) -> Sequence[Vec3] | None:
        """Offsets of the outputs that are affinities; None: all outputs are alike in a mirrored image."""
        return (self.task and self.task.affinity_offsets) or None

    def _require_mirrors(self) -> None:
        """Check that this network can predict mirrored images, and widen the context by the longest offset.

        The mean of an affinity uses the outputs at both of its voxels.
        """
        if self.task is None and not self.model.excluding:
            raise InvalidArgumentError(
                f"predict: mirror needs to know what the {self.outputs} outputs are, expected `task`"
            )
        along = zip(*(self._offsets or [(0, 0, 0)]), strict=True)  # steps of all offsets, by axis
        axes = zip(self.context, self.pool, along, strict=True)
        self.context = as_vec3([n + -(-max(map(abs, far)) // pool) * pool for n, pool, far in axes])

    @property
    def _bytes_per_voxel(self) -> float:
        """Return the bytes per voxel of a block, with the sums over mirrored copies."""
        sums = 4 * (2 + 3 * self.outputs) if self.mirror else 0
        return bytes_per_voxel(self.model) + sums

    def _forward(self, blocks: Sequence[Values]) -> Values:
        """Return the probabilities (z, y, x, outputs) of a block (z, y, x) of each channel."""
        images = (np.stack(blocks, axis=-1) - self.mean) / self.std
        if not self.mirror:
            return self._probabilities(images)
        # Pools begin at the first voxel, which is the last one in a mirrored copy. So the block ends with a whole cell.
        padding = [(0, -n % pool) for n, pool in zip(images.shape, self.pool, strict=False)]
        padded = np.pad(images, [*padding, (0, 0)])
        mean = mirrored_mean(self._probabilities, padded, self.mirror, self._offsets)
        return mean[tuple(slice(n) for n in images.shape[:3])]

    def _probabilities(self, images: Values) -> Values:
        """Return the probabilities (z, y, x, outputs) of normalised intensities (z, y, x, channels)."""
        return np.asarray(self.model.forward(np.ascontiguousarray(images)[None])[0])


@typed()
def predict_volume(
    model: str,
    image: str,
    out: str,
    *,
    box: str = "",
    mean: float | None = None,
    std: float | None = None,
    voxel_size_nm: tuple[float, float, float] | None = None,
    probabilities: bool = False,
    mirror: bool = False,
    channels: Sequence[str] = (),
) -> dict[str, Any]:
    """Apply a U-Net to a volume (z, y, x), block by block. Collective: ranks share the blocks.

    Args:
        model: A checkpoint, or a run directory, of which the newest checkpoint is used.
        image: Name of the volume.
        out: "file:dataset" of an HDF5 file.
        box: z0:z1,y0:y1,x0:x1 in voxels; "": the whole image.
        mean, std: Of the intensities of the image; None: what the checkpoint stores.
        voxel_size_nm: Voxel size (z, y, x); None: what the image states.
        probabilities: Also write the probabilities of the classes, "DATASET_probabilities".
        mirror: Average the predictions of the image and of its mirror images, along the axes that training reflected.
        channels: The further channels of the network: volumes of the shape of the image.

    Returns:
        The report: checkpoint, network, shape, context, mirrored axes, mean and std of each channel, seconds.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or the result cannot be written.
    """
    with world.agreed():
        checkpoint = trained.newest_checkpoint(model)
        if world.rank() == 0:
            with _output(out, [checkpoint, *files_of([image, *channels])]):
                pass  # refused before a long check
        predictor = _predictor(checkpoint, image, mean, std, mirror)
        part = parse_box(box)
        means, stds = predictor.mean.tolist(), predictor.std.tolist()
        reading = Reading("predict", means[0], stds[0], "--mean and --std", voxel_size_nm)
        volume, size = checked_image(
            image, checkpoint, reading, "the prediction", box=part, slices=predictor.model.flat
        )
        volumes = predictor.channels([volume, *map(Volume, channels)])
        predictor.settle_channels("predict", volumes, part)
    start_s = time.monotonic()
    with bar("voxels", "predict") as progress:
        predictor.write(
            volumes,
            out,
            box=part,
            probabilities=probabilities,
            voxel_size_nm=size,
            notes={"checkpoint": str(checkpoint)},
            progress=progress,
        )
    return {
        "checkpoint": str(checkpoint),
        "network": repr(predictor.model),
        "shape": list(part[1] if part else volume.shape),
        "context": list(predictor.context),
        "mirror": list(predictor.mirror),
        "mean": means,
        "std": stds,
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


def predictor_of(
    source: TrainingVolume, model: nn.PatchNetwork, task: Any, mirror: Sequence[int] = ()
) -> Predictor:
    """Return the predictor of a network, with mean and std of the channels of a training volume."""
    return Predictor(
        model,
        mean=[one.mean for one in source.inputs],
        std=[one.std for one in source.inputs],
        mirror=mirror,
        task=task,
    )


def _predictor(
    checkpoint: Path, image: str, mean: float | None, std: float | None, mirror: bool
) -> Predictor:
    network = trained.load(checkpoint)
    known = trained.normalisations(checkpoint, image)
    unknown = f"{checkpoint} does not store how {image} is normalised, expected --mean and --std"
    means, stds = zip(*trained.levels_of(known, mean, std, unknown), strict=True)
    settings = trained.stored_configuration(checkpoint) if mirror else None
    axes = () if settings is None else settings.augmentation.reflectable_axes
    if mirror and not axes:
        raise InvalidArgumentError(
            f"--mirror with {checkpoint}, whose training reflected no axes; expected no --mirror, or a network that was"
            " trained with augmentation.reflectable_axes"
        )
    task = trained.task_of(checkpoint)
    return Predictor(network, mean=means, std=stds, mirror=axes, task=task)


def _for_channels(name: str, given: float | Sequence[float], channels: int) -> Values:
    """Return a number for each channel."""
    if np.shape(given) not in ((), (channels,)):
        raise InvalidArgumentError(
            f"predict: {name} is {shown(given)}, expected one number, or {channels}: one for each channel"
        )
    return np.broadcast_to(np.asarray(given, np.float32), channels)


def _output(out: str, inputs: Iterable[PathLike]) -> contextlib.AbstractContextManager[None]:
    path, dataset = result_dataset("predict", out)
    return reserved("predict", path, hdf5_result(_COMMAND, _datasets(dataset)), inputs)


def _datasets(dataset: str) -> list[str]:
    """Return the datasets that a prediction replaces: its own and the probabilities of an older prediction."""
    return [dataset, f"{dataset}_probabilities"]


def bytes_per_voxel(model: nn.PatchNetwork) -> float:
    """Return the bytes of memory that a forward pass needs per voxel of a large block, with input and output."""
    core = model.core
    block = [-(-_LARGE // pool) * pool for pool in core.total_pool]
    planned: float = core.options.forward_bytes(1, block) / math.prod(block)
    # Outside the network: the block, its normalised copies, the probabilities and their copies.
    return planned + 4 * 3 * int(core.options.in_channels + core.options.classes)


def _checked(image: Volume, box: Box | None) -> Box:
    """Return the box after checks; the box of the whole image if `box` is None."""
    start, size = box or ((0, 0, 0), image.shape)
    if min(size) < 1 or not is_inside((start, size), image.shape):
        raise OutOfRangeError(
            f"predict: box of start {start} and size {size} is not inside an image of {image.shape}"
        )
    return start, size


def mirrored_mean(
    forward: Callable[[Values], Values],
    image: Values,
    axes: Sequence[int],
    offsets: Sequence[Vec3] | None,
) -> Values:
    """Return the mean of the outputs for an image and for its copies mirrored along all subsets of `axes`.

    A network that was trained on mirrored examples gives slightly different answers for an image and for its mirror
    image. Their mean has fewer mistakes than one answer. Isensee et al., nnU-Net (Nature Methods 18, 203-211, 2021),
    predict in this way. Affinities need care, because mirroring turns their offsets around: the mirrored network says
    at voxel q + offset what the plain one says at voxel q.

    Args:
        forward: Returns the outputs (z, y, x, outputs) of an image.
        image: float32 (z, y, x, channels).
        axes: Axes to mirror, 0 for z to 2 for x.
        offsets: Offsets (z, y, x) of the outputs that are affinities, the first ones; further outputs are those of the
            image itself. None: no output depends on directions.

    Returns:
        float32 (z, y, x, outputs). An affinity is the mean over the copies in which the network predicts the same
        pair of voxels: all of them for an offset along one axis, unless one of the two voxels is outside of the image.
    """
    subsets = [chosen for n in range(len(axes) + 1) for chosen in itertools.combinations(axes, n)]
    total = np.array(forward(image))
    counts = np.ones_like(total)
    for chosen in subsets[1:]:
        outputs = np.flip(forward(np.ascontiguousarray(np.flip(image, chosen))), chosen)
        if offsets is None:
            total += outputs
            counts += 1.0
            continue
        for channel, offset in enumerate(offsets):  # some copies have no affinities of its pairs
            seen = tuple(-step if axis in chosen else step for axis, step in enumerate(offset))
            turned = tuple(-step for step in seen)
            if seen in offsets:  # the same pairs, stored at the same voxels
                total[..., channel] += outputs[..., offsets.index(seen)]
                counts[..., channel] += 1.0
            elif turned in offsets:  # the pair of q and q + offset is stored at q + offset
                here, there = _pairs(total.shape[:3], offset)
                total[..., channel][here] += outputs[..., offsets.index(turned)][there]
                counts[..., channel][here] += 1.0
    return total / counts


def _pairs(shape: Sequence[int], offset: Vec3) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return where the first and the second voxels of all pairs of an offset are that lie inside of an image."""
    extents = list(zip(shape, offset, strict=True))
    first = tuple(slice(max(0, -step), min(n, n - step)) for n, step in extents)
    second = tuple(slice(max(0, step), min(n, n + step)) for n, step in extents)
    return first, second
