"""Algorithm 2 of AlpaServe: enumerate cluster partitions and parallel configurations, select models for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...reprs import Shown
from .bound import attainable
from .enumeration import coarsest_buckets, device_buckets, discrepancy, layouts, model_buckets
from .evaluator import Evaluator, State, canonical
from .options import PartitionOptions
from .selection import Selection, fast_selection, greedy_selection

__all__ = ["PartitionOptions", "Search"]

LIMITS = (1.0, 0.5, 0.3, 0.2, 0.1)
"""Discrepancies allowed, loosest first; the first that leaves few enough device splits is taken. The paper prunes so
too (§4.2: buckets should serve a similar number of requests per second), and gives no figures."""


@dataclass(repr=False)
class Search(Shown):
    """Algorithm 2 on one evaluator.

    Parameters
    ----------
    evaluator : Evaluator
        Scores.
    options : PartitionOptions
        What to enumerate.
    progress : callable, optional
        Called with a line of text as the search goes on.
    """

    evaluator: Evaluator
    options: PartitionOptions = field(default_factory=PartitionOptions)
    progress: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._everything = (1 << self.evaluator.instance.n_models) - 1
        self._solved: dict[tuple[int, int], tuple[int, State]] = {}
        self._floors: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def run(self) -> Selection:
        """The best solution over all bucketings and device splits; the search ends once one attains everything."""
        before = self.evaluator.evaluations
        instance = self.evaluator.instance
        total = instance.n_requests
        best: tuple[int, State] = (total + 1, ())
        separated = list(self._bucketings())
        whole = (tuple(range(instance.n_models)),)
        if self.options.unseparated or not separated:
            # One bucket first: it is a single problem, and its answer lets most splits of the others be given up early.
            separated = [whole, *(b for b in separated if b != whole)]
        for buckets in separated:
            for split in self._splits(buckets):
                best = self._try(buckets, split, best)
                if best[0] == 0:
                    return Selection(best[1], 0, self.evaluator.evaluations - before)
        return Selection(best[1], best[0], self.evaluator.evaluations - before)

    def _bucketings(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        i = self.evaluator.instance
        latency = [i.profiles[name].single_device_latency() for name in i.models]
        if self.options.bucketings == "coarsest":
            yield coarsest_buckets(latency, self.options.bucket_threshold)
        elif self.options.bucketings == "all":
            yield from model_buckets(latency, self.options.bucket_threshold)

    def _splits(self, buckets: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Device splits, the most even first, pruned by discrepancy."""
        i = self.evaluator.instance
        if len(buckets) == 1:
            return [(i.n_devices,)]
        latency = np.array([i.profiles[name].single_device_latency() for name in i.models])
        rate = [float(i.counts[list(b)].sum()) for b in buckets]
        work = [
            float(np.average(latency[list(b)], weights=i.counts[list(b)] + 1e-9)) for b in buckets
        ]  # device-seconds of a request served by one device
        scored = [(discrepancy(s, rate, work), s) for s in device_buckets(i.n_devices, len(buckets))]
        kept = scored
        for limit in LIMITS:
            if len(kept) <= self.options.max_splits:
                break
            kept = [pair for pair in kept if pair[0] <= limit] or kept
        return [split for _, split in sorted(kept)[: self.options.max_splits]]

    def _try(
        self, buckets: Sequence[Sequence[int]], split: Sequence[int], best: tuple[int, State]
    ) -> tuple[int, State]:
        """Solve the buckets of one split, that with the fewest requests first; give up once it cannot beat `best`.

        A bucket that is not solved yet counts with the requests that no placement of it attains, so what is given up
        could not have been better.
        """
        masks = [sum(1 << m for m in b) for b in buckets]
        lost = [self.floor(mask, n) for mask, n in zip(masks, split, strict=True)]
        groups: list = []
        for k in sorted(range(len(masks)), key=lambda k: (self.evaluator.requests(masks[k]), k)):
            if sum(lost) >= best[0]:
                return best
            unserved, state = self.solve(masks[k], split[k])
            lost[k] = unserved
            groups += state
        if sum(lost) >= best[0]:
            return best
        if self.progress:
            share = 1 - sum(lost) / self.evaluator.instance.n_requests
            self.progress(f"{len(buckets)} bucket(s), devices {'+'.join(map(str, split))}: attainment {share:.4f}")
        return sum(lost), canonical(groups)

    def floor(self, bucket: int, n_devices: int, configs: Sequence[int] | None = None) -> int:
        """Requests of a bucket that no placement on `n_devices` devices attains (of all, or of some configurations)."""
        instance = self.evaluator.instance
        chosen = tuple(range(len(instance.configs)) if configs is None else sorted(set(configs)))
        key = (bucket, n_devices, chosen)
        if key not in self._floors:
            most = attainable(instance, bucket, chosen, n_devices)
            self._floors[key] = self.evaluator.requests(bucket) - most
        return self._floors[key]

    def solve(self, bucket: int, n_devices: int) -> tuple[int, State]:
        """The best placement of one bucket on `n_devices` devices: (its unserved requests, groups); remembered."""
        known = self._solved.get((bucket, n_devices))
        if known is not None:
            return known
        evaluator = self.evaluator
        outside = evaluator.requests(self._everything & ~bucket)
        best: tuple[int, State] = (evaluator.requests(bucket), ())
        names = [m for m in range(evaluator.instance.n_models) if bucket >> m & 1]
        for groups in layouts(evaluator.instance, n_devices, names, self.options.remainder):
            floor = self.floor(bucket, n_devices, groups)
            if best[1] and floor >= best[0]:
                continue
            found = self.select(groups, bucket, floor)
            if found.unserved - outside < best[0] or not best[1]:
                best = (found.unserved - outside, found.state)
            if best[0] == self.floor(bucket, n_devices):
                break  # proven best
        if best[0] > self.floor(bucket, n_devices) and best[1]:
            # The authors' code chooses the group first. On one layout that costs little, and sometimes it is better.
            layout = tuple(config for config, _ in best[1])
            other = fast_selection(evaluator, layout, bucket, order="group")
            if other.unserved - outside < best[0]:
                best = (other.unserved - outside, other.state)
        self._solved[bucket, n_devices] = best
        return best

    def select(self, groups: Sequence[int], bucket: int, floor: int) -> Selection:
        """Select models of a bucket for groups of given configurations."""
        fast = fast_selection(self.evaluator, groups, bucket, floor=floor)
        if self.options.selection == "fast":
            return fast
        full = greedy_selection(self.evaluator, groups, bucket, beam=self.options.beam)
        return full if full.unserved <= fast.unserved else fast
