# SPDX-License-Identifier: Apache-2.0
"""A plain NumPy reading of google/ffn's flooding, which the C++ core is compared with."""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy.special import logit


def as_logit(probability):
    """google/ffn keeps options in 32-bit fields, before and after the conversion."""
    return np.float32(logit(float(np.float32(probability))))


def face_candidates(deltas, logits, threshold):
    centre = np.array(logits.shape) // 2
    box = [slice(c - d, c + d + 1) for c, d in zip(centre, deltas, strict=True)]
    seen = set()
    for axis, delta in enumerate(deltas):
        if delta == 0:
            continue
        for offset in (-delta, delta):
            selection = list(box)
            selection[axis] = centre[axis] + offset
            face = logits[tuple(selection)]
            place = np.unravel_index(face.argmax(), face.shape)
            score = face[place]
            if score < threshold:
                continue
            relative = [int(p) - n // 2 for p, n in zip(place, face.shape, strict=True)]
            relative.insert(axis, offset)
            seen.add((float(score), tuple(relative)))
    return sorted(seen, reverse=True)


class Twin:
    def __init__(self, image, model, options, halo=(0, 0, 0)):
        self.image, self.model, self.options = image, model, options
        self.fov = np.array(model.fov)
        self.deltas = np.array(model.deltas)
        self.margin = self.fov // 2
        self.seed = np.full(image.shape, np.nan, np.float32)
        self.segmentation = np.zeros(image.shape, np.int32)
        self.inside = np.zeros(image.shape, bool)  # without the halo
        self.inside[
            tuple(slice(n, size - n) for n, size in zip(halo, image.shape, strict=True))
        ] = True
        self.move_logit = as_logit(options.move_threshold)
        self.segment_logit = as_logit(options.segment_threshold)
        self.score_logit = logit(float(np.float32(options.move_threshold)))
        self.origins, self.overlaps = [], []
        self.mask = np.zeros(image.shape, bool)  # where no field of view may be centred
        self.initial = 0  # largest id of the initial segmentation

    def set_initial(self, labels):
        """Only for images without a halo."""
        self.segmentation[...] = labels
        self.initial = int(labels.max(initial=0))

    def is_valid(self, position, ignore_threshold=False):
        if not ignore_threshold and self.seed[position] < self.move_logit:
            return False
        low, high = np.array(position) - self.margin, np.array(position) + self.margin
        if np.any(low < 0) or np.any(high >= self.image.shape):
            return False
        return self.segmentation[position] <= 0 and not self.mask[position]

    def update_at(self, position):
        start = np.array(position) - self.margin
        fov = tuple(slice(a, a + n) for a, n in zip(start, self.fov, strict=True))
        old = self.seed[fov].copy()
        shown = np.where(np.isnan(old), as_logit(self.options.pad_value), old)
        logits = self.model.forward(self.image[fov].copy(), shown).copy()
        share = self.options.disco_seed_threshold
        if share >= 0 and np.mean(logits >= self.move_logit) > share:
            with np.errstate(invalid="ignore"):
                kept = (old < 0) & (logits > old)
            logits[kept] = old[kept]
        self.seed[fov] = logits
        return logits

    def cell(self, position):
        relative = np.array(position) - self.start
        return tuple((relative + self.deltas // 2) // np.maximum(self.deltas, 1))

    def segment_at(self, start):
        self.start = np.array(start)
        self.seed[...] = np.nan
        self.seed[start] = as_logit(self.options.init_activation)
        self.low = self.high = self.start
        queue, done, visited = deque([start]), set(), []
        while queue:
            position = queue.popleft()
            if self.cell(position) in done or not self.is_valid(position):
                continue
            if self.seed[start] < self.move_logit:
                break
            logits = self.update_at(position)
            visited.append(position)
            self.low = np.minimum(self.low, position)
            self.high = np.maximum(self.high, position)
            done.add(self.cell(position))
            for _, offset in face_candidates(self.deltas, logits, self.score_logit):
                queue.append(tuple(int(p) + o for p, o in zip(position, offset, strict=True)))
        return visited

    def segment_all(self, seeds):
        distance = np.array(self.options.min_boundary_dist)
        for seed in seeds:
            if not self.is_valid(seed, ignore_threshold=True):
                continue
            low = np.maximum(np.array(seed) - distance, 0)
            near = tuple(
                slice(a, b + 1) for a, b in zip(low, np.array(seed) + distance, strict=True)
            )
            if np.any(self.segmentation[near] > 0):
                self.segmentation[seed] = -1
                continue
            iterations = len(self.segment_at(seed))
            if iterations == 0:
                continue
            if self.seed[seed] < self.move_logit:
                if self.segmentation[seed] == 0:
                    self.segmentation[seed] = -1
                continue
            reach = tuple(
                slice(max(a, 0), b + 1)
                for a, b in zip(self.low - self.margin, self.high + self.margin, strict=True)
            )
            mask = (self.seed[reach] >= self.segment_logit) & self.inside[reach]
            ids, counts = np.unique(self.segmentation[reach][mask], return_counts=True)
            mask &= self.segmentation[reach] <= 0
            if mask.sum() < self.options.min_segment_size:
                if self.segmentation[seed] == 0:
                    self.segmentation[seed] = -1
                continue
            new = self.initial + len(self.origins) + 1
            self.segmentation[reach][mask] = new
            self.origins.append((new, seed, iterations, int(mask.sum())))
            self.overlaps += [
                (new, int(i), int(n)) for i, n in zip(ids, counts, strict=True) if i > 0
            ]
        return np.maximum(self.segmentation, 0)
