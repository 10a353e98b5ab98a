# SPDX-License-Identifier: Apache-2.0
"""What a volume looks like: statistics of images and labels, bad sections, and whether labels lie on their image.

Large volumes are sampled, always at the same places. Memory stays below about 200 MiB.
"""

from floodtide.data.look.alignment import Alignment, Candidate, Orientation, alignment
from floodtide.data.look.image import ImageStatistics, image_statistics
from floodtide.data.look.labels import LabelStatistics, label_statistics
from floodtide.data.look.problems import Problem, Reading
from floodtide.data.look.sampling import FULL, QUICK
from floodtide.data.look.sections import Finding, Sections
from floodtide.data.look.sharpness import Sharpness, sharpness
from floodtide.data.look.trained_on import FIB25, TrainedOn, trained_on, training_images

__all__ = [
    "FIB25",
    "FULL",
    "QUICK",
    "Alignment",
    "Candidate",
    "Finding",
    "ImageStatistics",
    "LabelStatistics",
    "Orientation",
    "Problem",
    "Reading",
    "Sections",
    "Sharpness",
    "TrainedOn",
    "alignment",
    "image_statistics",
    "label_statistics",
    "sharpness",
    "trained_on",
    "training_images",
]
