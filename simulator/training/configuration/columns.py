"""`Columns`: many configurations as arrays, checked row by row; the first thing wrong with each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError
from ...cluster import Cluster
from .model import TransformerShape

__all__ = ["PROBLEMS", "RECOMPUTE", "Columns"]

RECOMPUTE = ("none", "selective", "full")
PROBLEMS = (
    "",
    "tp, pp, dp, microbatch, global_batch and interleave: expected positive integers",
    "zero: expected 0, 1, 2 or 3",
    "tp x pp x dp: expected the number of devices of the cluster, {devices}",
    "tp: expected a divisor of heads {heads}",
    "tp: expected a divisor of kv_heads {kv_heads}",
    "tp: expected a divisor of ffn {ffn}",
    "pp x interleave: expected a divisor of layers {layers}, or of two more (embedding and output count as layers)",
    "interleave: more than 1 needs pp > 1",
    "global_batch: expected a multiple of dp x microbatch",
    "interleave: needs a number of microbatches that pp divides",
    "sequence_parallel: expected a seq that tp divides (seq {seq})",
)
"""What can be wrong with a configuration, by code; 0 is nothing."""
MEND = {
    3: "change one of them, or the cluster",
    7: "choose another pp or interleave",
    8: "set interleave=1",
    9: "change the batch, dp or microbatch",
    10: "change the batch, or set interleave=1",
    11: "set sequence_parallel=False",
}


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

    @classmethod
    def of(
        cls, *, tp: Any, pp: Any, dp: Any, microbatch: Any, global_batch: Any, interleave: Any = 1,
        recompute: Any = "none", sequence_parallel: Any = False, zero: Any = 0,
    ) -> Columns:  # fmt: skip
        """Broadcast scalars and arrays to columns.

        Raises
        ------
        InputError
            If something is not a whole number, a recomputation is unknown, or lengths differ.
        """
        words = np.asarray(recompute)
        if words.dtype.kind in "US":
            codes = np.full(words.shape, -1)
            for code, word in enumerate(RECOMPUTE):
                codes[words == word] = code
        else:
            codes = np.where(np.isin(words, (0, 1, 2)), words, -1) if words.dtype.kind in "iu" else np.array(-1)
        if (codes < 0).any():
            wrong = words[codes < 0].flat[0] if words.shape == codes.shape and words.ndim else words
            raise InputError(f"recompute: expected one of {', '.join(RECOMPUTE)} (got {str(wrong)!r})")
        arrays: dict[str, Any] = {"recompute": codes}
        whole = {"tp": tp, "pp": pp, "dp": dp, "microbatch": microbatch, "global_batch": global_batch,
                 "interleave": interleave, "zero": zero}  # fmt: skip
        for name, given in whole.items():
            column = np.asarray(given)
            if column.dtype.kind not in "iu":
                raise InputError(f"{name}: expected an integer (got {given!r})")
            arrays[name] = column.astype(np.int64)
        flag = np.asarray(sequence_parallel)
        if flag.dtype.kind != "b":
            raise InputError(f"sequence_parallel: expected True or False (got {sequence_parallel!r})")
        arrays["sequence_parallel"] = flag
        try:
            columns = np.broadcast_arrays(*(np.atleast_1d(a) for a in arrays.values()))
        except ValueError:
            lengths = ", ".join(f"{name} {np.size(a)}" for name, a in arrays.items() if np.size(a) > 1)
            raise InputError(f"estimate_many: expected columns of one length (got {lengths})") from None
        return cls(**dict(zip(arrays, columns, strict=True)))

    def problems(self, shape: TransformerShape, cluster: Cluster) -> NDArray[np.int64]:
        """The first thing wrong with each row, as an index into `PROBLEMS`; 0 where nothing is."""
        small = np.zeros(len(self.tp), dtype=bool)
        for column in (self.tp, self.pp, self.dp, self.microbatch, self.global_batch, self.interleave):
            small |= column < 1
        tp, pp, dp, b, v = (
            np.where(small, 1, x) for x in (self.tp, self.pp, self.dp, self.microbatch, self.interleave)
        )
        heads, kv = shape.heads, shape.kv_heads
        checks = (
            small,
            (self.zero < 0) | (self.zero > 3),
            tp * pp * dp != cluster.n_devices,
            heads % tp != 0,
            kv % tp != 0,
            shape.ffn % tp != 0,
            (shape.layers % (pp * v) != 0) & ~_uneven(shape.layers, pp, v),
            (v > 1) & (pp == 1),
            self.global_batch % (dp * b) != 0,
            (v > 1) & (self.global_batch // (dp * b) % pp != 0),
            self.sequence_parallel & (shape.seq % tp != 0),
        )
        found = np.zeros(len(tp), dtype=np.int64)
        for code in range(len(checks), 0, -1):  # backwards, so that the first problem is written last and stays
            found[checks[code - 1]] = code
        return found

    def say(self, row: int, code: int, shape: TransformerShape, cluster: Cluster) -> str:
        """One line about what is wrong with a row."""
        rule = PROBLEMS[code].format(
            devices=cluster.n_devices, heads=shape.heads, kv_heads=shape.kv_heads, ffn=shape.ffn,
            layers=shape.layers, seq=shape.seq,
        )  # fmt: skip
        got = (
            f"tp {self.tp[row]}, pp {self.pp[row]}, dp {self.dp[row]}, microbatch {self.microbatch[row]}, "
            f"global_batch {self.global_batch[row]}, interleave {self.interleave[row]}, zero {self.zero[row]}"
        )
        return f"{rule} (got {got})" + (f"; {MEND[code]}" if code in MEND else "")

    def take(self, rows: Any) -> Columns:
        """Some rows."""
        return Columns(**{name: getattr(self, name)[rows] for name in self.__slots__})

    @property
    def microbatches(self) -> NDArray[np.int64]:
        """Microbatches of each pipeline in one iteration."""
        return self.global_batch // (self.dp * self.microbatch)


def _uneven(layers: int, pp: NDArray[np.int64], interleave: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the first and the last stage may have one layer less than the others, and have one."""
    return (pp > 1) & ((layers + 2) % (pp * interleave) == 0) & (layers + 2 > pp)
