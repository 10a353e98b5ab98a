# SPDX-License-Identifier: Apache-2.0
"""Table of the public data sets: where each comes from, its licence, what it is turned into, and checksums.

A new data set is a row here and a function in `prepare`. The checksum of an array is the SHA-256 of its voxels, first
axis slowest, little-endian, in the type that the table names. It does not depend on how a file compresses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from floodtide.fetch import liver_slices, prepare

Make = Callable[[Sequence[bytes], Sequence[str]], dict[str, NDArray[Any]]]

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A public repository at one commit."""

    name: str  # owner/name on GitHub
    commit: str

    def address(self, path: str) -> str:
        """Return the address of a file."""
        return f"https://raw.githubusercontent.com/{self.name}/{self.commit}/{path}"


@dataclass(frozen=True, kw_only=True)
class Array:
    """An array of a prepared file."""

    sha256: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file of a data set.

    Attributes:
        path: Its place below the data folder.
        repository: Where the original files are.
        originals: Their paths there; each with the names that it may have, in the order in which they are tried.
        make: Turns the originals into arrays, for an HDF5 file; None: the file is copied.
        arrays: The arrays by the name of the dataset, if there are any.
        sha256: Of a file that is copied.
        voxel_size_nm: Of the arrays with three axes.
        limit: Most bytes of an original, or of the prepared file.
    """

    path: str
    repository: Repository
    originals: tuple[tuple[str, ...], ...]
    make: Make | None = None
    arrays: dict[str, Array] = field(default_factory=dict)
    sha256: str = ""
    voxel_size_nm: tuple[float, float, float] | None = None
    limit: int = 64 * MIB


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: what `floodtide fetch NAME` brings.

    Attributes:
        summary: One line for `--list`.
        about: Text of SOURCES-name.md: what it is, licences, attribution, publications, and how it was made.
        items: Its files.
    """

    summary: str
    about: str
    items: tuple[Item, ...]


_NEUROPROOF = Repository(
    name="janelia-flyem/neuroproof_examples", commit="ce839e17deaf4c01153827c6d028dfecfbb4b958"
)
_FFN = Repository(name="google/ffn", commit="6f61f6e4b1ba09208ecd01bc93fc43aa7437d3fa")
_GALA = Repository(name="janelia-flyem/gala", commit="db73a1c84d8a99975a2a8fb68660a83d8889ab1e")
_LIVER = Repository(
    name="sarah-antillia/Image-Segmentation-Liver-Tumor",
    commit="de32e744d4306674a13cbdca17221f07602c2d5b",
)
_CUBE = (250, 250, 250)
_TEN_NM = (10.0, 10.0, 10.0)
_JPEG = "projects/Liver-Tumor/Liver-Tumor/test"


def _sections(sample: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{sample}/grayscale_maps/iso.{n}.png",) for n in range(2600, 2850))


def _image(sample: str, sha256: str) -> Item:
    return Item(
        path=f"fib25/{sample}/grayscale_maps.h5",
        repository=_NEUROPROOF,
        originals=_sections(sample),
        make=prepare.stack,
        arrays={"raw": Array(sha256=sha256, shape=_CUBE, dtype="uint8")},
        voxel_size_nm=_TEN_NM,
    )


def _copy(path: str, repository: Repository, names: tuple[str, ...], sha256: str) -> Item:
    return Item(path=path, repository=repository, originals=(names,), sha256=sha256)


def _liver(part: str, count: int, image: str, mask: str, patient: str, slices: str) -> Item:
    originals = tuple(
        tuple(f"{_JPEG}/{kind}/{how}_{patient}_{number}.jpg" for how in ("flipped", "mirrored"))
        for patient, number in liver_slices.slices(part)
        for kind in ("images", "masks")
    )
    return Item(
        path=f"msd_liver_ct/liver_{part}.h5",
        repository=_LIVER,
        originals=originals,
        make=prepare.liver(part),
        arrays={
            "image": Array(sha256=image, shape=(count, 256, 256), dtype="uint8"),
            "mask": Array(sha256=mask, shape=(count, 256, 256), dtype="uint8"),
            "patient": Array(sha256=patient, shape=(count,), dtype="int32"),
            "slice": Array(sha256=slices, shape=(count,), dtype="int32"),
        },
    )


_APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

DATA_SETS: dict[str, DataSet] = {
    "fib25": DataSet(
        summary="FIB-SEM of fly brain, 10 nm voxels: two volumes of 250^3, labels, and google/ffn's network",
        about="""\
Electron microscopy (FIB-SEM) of the medulla of *Drosophila melanogaster*, part of the FIB-25 data set, with 10 nm
voxels; and the flood-filling network that google/ffn has published for it.

* `fib25/`: images and dense labels. Licence: Creative Commons Attribution, `fib25/LICENSE.txt`.
  Credit: "FlyEM project, Janelia Research Campus, HHMI".
* `ffn_fib25_checkpoint/`: the network, a TensorFlow checkpoint. `ffn_fib25_reference/`: its published segmentation of
  `training_sample2`. Licence: Apache-2.0, `ffn_fib25_checkpoint/LICENSE`. Credit: the authors of google/ffn.

Publications

* S. Takemura et al., "Synaptic circuits and their variations within different columns in the visual system of
  *Drosophila*", PNAS 112(44), 13711-13716 (2015)
* T. Parag et al., "A context-aware delayed agglomeration framework for electron microscopy segmentation",
  PLoS ONE 10(5), e0125825 (2015)
* M. Januszewski et al., "High-precision automated reconstruction of neurons with flood-filling networks",
  Nature Methods 15, 605-610 (2018)

Preparation: the PNG sections are stacked in the order of their numbers. `stack` in `groundtruth.h5` is the body of each
voxel: the table `transforms` (superpixel, body) applied to `superpixels`, which the source calls `stack`. Of the npz
file of the segmentation, the pickled origins are read with an unpickler that knows only their types.
""",
        items=(
            _copy(
                "fib25/LICENSE.txt",
                _NEUROPROOF,
                ("LICENSE.txt",),
                "8bd14ac41d8cbb77106780a088bb41ab1f884328a68edbed17dde9b63e20d15e",
            ),
            _copy("ffn_fib25_checkpoint/LICENSE", _FFN, ("LICENSE",), _APACHE),
            _copy(
                "ffn_fib25_checkpoint/model.ckpt-27465036.index",
                _FFN,
                ("models/fib25/model.ckpt-27465036.index",),
                "6c7b66baa8dae766907f86ca068517fedcfdd85fb7e322d05cd2401ab7b252cc",
            ),
            _copy(
                "ffn_fib25_checkpoint/model.ckpt-27465036.data-00000-of-00001",
                _FFN,
                ("models/fib25/model.ckpt-27465036.data-00000-of-00001",),
                "a2910768255bbb1dc5be27a947e4107dd29ccd221646b676ec225981af5526f1",
            ),
            _image(
                "training_sample2",
                "6660e2270cb80a92cb3317f53e2fe8c664508da3c70a7d56393f0de319fbeda0",
            ),
            Item(
                path="fib25/training_sample2/groundtruth.h5",
                repository=_NEUROPROOF,
                originals=(("training_sample2/groundtruth.h5.gz",),),
                make=prepare.bodies,
                arrays={
                    "stack": Array(
                        sha256="cab143ccfad7ef027f8efa9114c5d71313d6997098fc6a78085b0caae08d0fc0",
                        shape=_CUBE,
                        dtype="int32",
                    ),
                    "superpixels": Array(
                        sha256="f4d5915501a08316219b300b623161d1bad505513482a7df164401e406cf71b7",
                        shape=_CUBE,
                        dtype="int32",
                    ),
                    "transforms": Array(
                        sha256="5633ac3670a0b6cf24f90842e7f819d353766c63ccacb974479e76ed7ef9d997",
                        shape=(21317, 2),
                        dtype="int64",
                    ),
                },
                voxel_size_nm=_TEN_NM,
            ),
            _image(
                "training_sample1",
                "78cf8163c0b93d892efbea9ed66d3de17c4f2fafa28751efaabb4ed81688463d",
            ),
            Item(
                path="ffn_fib25_reference/sample-training2.h5",
                repository=_FFN,
                originals=(("results/fib25/sample-training2.npz",),),
                make=prepare.published_segmentation,
                arrays={
                    "segmentation": Array(
                        sha256="de4ad49a3c80fa822655fbf8a10a2d372dc491da57816b34d6b80f3d293dadec",
                        shape=_CUBE,
                        dtype="uint8",
                    ),
                    "origins/id": Array(
                        sha256="8310b98bfe6038055e9c3fbc89e8064c256bac9993062749726400dd6e3485c0",
                        shape=(254,),
                        dtype="int32",
                    ),
                    "origins/iters": Array(
                        sha256="e6ff9ad9e91f4b687895450760421f154764f69badced604e1b31f93c94918e3",
                        shape=(254,),
                        dtype="int64",
                    ),
                    "origins/start_zyx": Array(
                        sha256="15fe9c4b0a2243c2b9ad3536407dbafd4669542bef6f1a65cfa8375a8e1ed540",
                        shape=(254, 3),
                        dtype="int32",
                    ),
                },
                voxel_size_nm=_TEN_NM,
            ),
        ),
    ),
    "gala": DataSet(
        summary="FIB-SEM of fly brain with another contrast: 50 x 100 x 200 voxels with labels",
        about="""\
A small volume of electron microscopy (FIB-SEM) of fly brain with dense labels; 0 is a boundary of one voxel between
bodies. The source does not state the voxel size. The image looks isotropic.

Licence: BSD-style, HHMI, `gala_fib/LICENSE.txt`.
Publication: J. Nunez-Iglesias et al., "Graph-based active learning of agglomeration (GALA)", Frontiers in
Neuroinformatics 8, 34 (2014)

Preparation: the arrays of the original HDF5 files, written again with gzip. The original labels are compressed with
LZF.
""",
        items=(
            _copy(
                "gala_fib/LICENSE.txt",
                _GALA,
                ("LICENSE.txt", "license.txt"),
                "d210665f3bf30dfda2d1c5f8b50b4c4f0d14704ccda33fab49a1dd4b1901d046",
            ),
            Item(
                path="gala_fib/train/grayscale_maps.h5",
                repository=_GALA,
                originals=(("tests/example-data/train-image.h5",),),
                make=prepare.gala_image,
                arrays={
                    "raw": Array(
                        sha256="ec9c2b745765f010ac057066d158e55962772c3e4829f1124cc71ab2b1f16c65",
                        shape=(50, 100, 200),
                        dtype="uint8",
                    )
                },
            ),
            Item(
                path="gala_fib/train/groundtruth.h5",
                repository=_GALA,
                originals=(("tests/example-data/train-gt.lzf.h5",),),
                make=prepare.gala_truth,
                arrays={
                    "stack": Array(
                        sha256="33ba95cc5172c22c55cb86a7d8e5c7137bb058aae7a5a32465283f0b72690eb2",
                        shape=(50, 100, 200),
                        dtype="int32",
                    )
                },
            ),
        ),
    ),
    "liver": DataSet(
        summary="CT slices of 102 patients, 256 x 256, with liver masks, for 2-D U-Nets",
        about="""\
Axial CT slices with masks of the liver (with its tumours), adapted from the Medical Segmentation Decathlon, Task03
Liver (the volumes of the LiTS challenge). Licence of the original and of these files: CC BY-SA 4.0,
<https://creativecommons.org/licenses/by-sa/4.0/> (attribution, share alike).

Attribution

* M. Antonelli et al., "The Medical Segmentation Decathlon", Nature Communications 13, 4128 (2022)
* A. L. Simpson et al., "A large annotated medical image dataset for the development and evaluation of segmentation
  algorithms", arXiv:1902.09063 (2019)
* P. Bilic et al., "The Liver Tumor Segmentation Benchmark (LiTS)", Medical Image Analysis 84, 102680 (2023)

Changes by the repository below (its code is Apache-2.0): slices with liver, intensities clipped to 0..255, labels made
masks, resized to 256 x 256, flipped or mirrored, stored as JPEG. Changes here: decoded, the flip undone, one of each
repeated slice kept, masks thresholded at 128, split by patient. `patient` and `slice` are the numbers in the names of
the JPEG files.
""",
        items=(
            _liver(
                "train",
                430,
                "47afff194c51b84616aedeab4da445ddc7f42e21fcc49cc930e966b6fef43ea0",
                "f70de95a98b58e7c7efec98eab6e2ecf7dcb778c7d514c6bbebb085e72ce5944",
                "119c7782b68fe465ebe9065d7417a340ba867369047949211fbe67a9dc034c90",
                "14dc32e5cae594f2ed06a618a92df488f9de080ca26eedc5bda650e78cfede93",
            ),
            _liver(
                "validation",
                97,
                "6f26f209de15c5a12c5c60a228a598841ec9c5ead80df63ba4a0534a9baf10be",
                "39e66bbaed85ee72b5ad3462d1240da70013d40e7d43aaaf4d7529df97dcbc08",
                "4351a284a4fc039569b6709f46c13a15bd1b39b55a31d870b2633794e9db4b11",
                "84558f39bbe9616fa6beb6c19ef6da96aaedd2ac63f0efafe4ee95a39ac4bc97",
            ),
        ),
    ),
}
