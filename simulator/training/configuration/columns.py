"""`Columns`: many configurations as arrays, checked row by row; the first thing wrong with each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError
from ...cluster import Cluster
from .model import TransformerShape
from .rules import MEND, problems_of, rule_text
from .words import CONTEXT, RECOMPUTE, SCHEDULES, WORDS

__all__ = ["CONTEXT", "DEFAULTS", "FLAGS", "RECOMPUTE", "SCHEDULES", "WORDS", "Columns"]

FLAGS = ("sequence_parallel", "overlap_experts", "reshard", "offload_optimizer", "offload_activations")
DEFAULTS: dict[str, Any] = {
    "interleave": 1, "recompute": "none", "sequence_parallel": False, "zero": 0, "cp": 1, "context": "ring", "ep": 1,
    "etp": 0, "overlap_experts": False, "shard": 0, "reshard": True, "schedule": "1f1b", "offload_optimizer": False,
    "offload_activations": False, "first_layers": 0, "last_layers": 0,
}  # fmt: skip
"""What a column is that is not given."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Configurations, one per row, all arrays of one length.

    Parameters
    ----------
    tp, pp, dp, microbatch, global_batch, interleave, zero : array of int64
        As in `estimate`.
    recompute : array of int64
        Index into `RECOMPUTE`.
    sequence_parallel : array of bool
        As in `estimate`.
    cp, ep, etp, shard : array of int64
        As in `Settings`.
    context, schedule : array of int64
        Indices into `CONTEXT` and `SCHEDULES`.
    overlap_experts, reshard, offload_optimizer, offload_activations : array of bool
        As in `Settings`.
    first_layers, last_layers : array of int64
        As in `Settings`.
    """

    tp: NDArray[np.int64]
    pp: NDArray[np.int64]
    dp: NDArray[np.int64]
    microbatch: NDArray[np.int64]
    global_batch: NDArray[np.int64]
    interleave: NDArray[np.int64]
    recompute: NDArray[np.int64]
    sequence_parallel: NDArray[np.bool_]
    zero: NDArray[np.int64]
    cp: NDArray[np.int64]
    context: NDArray[np.int64]
    ep: NDArray[np.int64]
    etp: NDArray[np.int64]
    overlap_experts: NDArray[np.bool_]
    shard: NDArray[np.int64]
    reshard: NDArray[np.bool_]
    schedule: NDArray[np.int64]
    offload_optimizer: NDArray[np.bool_]
    offload_activations: NDArray[np.bool_]
    first_layers: NDArray[np.int64]
    last_layers: NDArray[np.int64]

    @classmethod
    def of(cls, **given: Any) -> Columns:
        """Broadcast scalars and arrays to columns.

        Raises
        ------
        InputError
            If something is not a whole number, a recomputation is unknown, or lengths differ.
        """
        names = [field.name for field in fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise InputError(f"{unknown[0]}: no such column; expected some of {', '.join(names)}")
        said = {**DEFAULTS, **given}
        if missing := [name for name in names if name not in said]:
            raise InputError(f"{', '.join(missing)} missing: expected a column or a number for each")
        arrays = {name: _column(name, said[name]) for name in names}
        try:
            columns = np.broadcast_arrays(*(np.atleast_1d(a) for a in arrays.values()))
        except ValueError:
            lengths = ", ".join(f"{name} {np.size(a)}" for name, a in arrays.items() if np.size(a) > 1)
            raise InputError(f"estimate_many: expected columns of one length (got {lengths})") from None
        return cls(**dict(zip(names, columns, strict=True)))

    def problems(self, shape: TransformerShape, cluster: Cluster) -> NDArray[np.int64]:
        """The first thing wrong with each row, as an index into `PROBLEMS`; 0 where nothing is."""
        return problems_of(self, shape, cluster)

    def say(self, row: int, code: int, shape: TransformerShape, cluster: Cluster) -> str:
        """One line about what is wrong with a row."""
        got = (
            f"tp {self.tp[row]}, pp {self.pp[row]}, dp {self.dp[row]}, microbatch {self.microbatch[row]}, "
            f"global_batch {self.global_batch[row]}, interleave {self.interleave[row]}, zero {self.zero[row]}"
        )
        more = [
            f"{name} {getattr(self, name)[row]}"
            for name in ("cp", "ep", "etp", "shard", "first_layers", "last_layers")
            if getattr(self, name)[row] != DEFAULTS[name]
        ]
        rule = rule_text(code, shape, cluster)
        return f"{rule} (got {', '.join([got, *more])})" + (f"; {MEND[code]}" if code in MEND else "")

    def take(self, rows: Any) -> Columns:
        """Some rows."""
        return Columns(**{field.name: _some(getattr(self, field.name), rows) for field in fields(self)})

    @property
    def microbatches(self) -> NDArray[np.int64]:
        """Microbatches of each pipeline in one iteration."""
        return self.global_batch // (self.dp * self.microbatch)

    @property
    def by_heads(self) -> NDArray[np.bool_]:
        """Whether a sequence that is cut is put together around the attention core, and heads cut in its place."""
        return (self.context == 1) & (self.cp > 1)

    @property
    def expert_tensor(self) -> NDArray[np.int64]:
        """Devices that share one expert."""
        return np.where(self.etp == 0, self.tp, self.etp)

    @property
    def replicas(self) -> NDArray[np.int64]:
        """Devices that hold the same weights, but for experts: data and context parallelism together."""
        return self.dp * self.cp

    @property
    def expert_replicas(self) -> NDArray[np.int64]:
        """Devices that hold the same experts."""
        return np.maximum(self.tp * self.replicas // (self.ep * self.expert_tensor), 1)

    @property
    def shards(self) -> NDArray[np.int64]:
        """Devices over which ZeRO shards what is not in experts."""
        return np.where(self.shard > 0, self.shard, self.replicas)

    @property
    def expert_shards(self) -> NDArray[np.int64]:
        """Devices over which ZeRO shards experts: those of a shard group that hold the same ones."""
        among = np.maximum(self.tp * self.shards // (self.ep * self.expert_tensor), 1)
        return np.gcd(among, self.expert_replicas)


def _column(name: str, given: Any) -> NDArray[Any]:
    """One column, as its type has it."""
    column = np.asarray(given)
    if name in WORDS:
        return _codes(name, column, WORDS[name])
    if name in FLAGS:
        if column.dtype.kind != "b":
            raise InputError(f"{name}: expected True or False (got {given!r})")
        return column
    if column.dtype.kind not in "iu":
        raise InputError(f"{name}: expected an integer (got {given!r})")
    return column.astype(np.int64)


def _codes(name: str, words: NDArray[Any], known: tuple[str, ...]) -> NDArray[np.int64]:
    if words.dtype.kind in "US":
        codes = np.full(words.shape, -1)
        for code, word in enumerate(known):
            codes[words == word] = code
    else:
        inside = np.isin(words, range(len(known))) if words.dtype.kind in "iu" else None
        codes = np.array(-1) if inside is None else np.where(inside, words, -1)
    if (codes < 0).any():
        wrong = words[codes < 0].flat[0] if words.shape == codes.shape and words.ndim else words
        raise InputError(f"{name}: expected one of {', '.join(known)} (got {str(wrong)!r})")
    return codes.astype(np.int64)


def _some(column: NDArray[Any], rows: Any) -> NDArray[Any]:
    """Rows of a column; one number that was spread over all rows stays one."""
    if column.strides == (0,):
        return np.broadcast_to(column[:1], np.shape(rows))
    return column[rows]
