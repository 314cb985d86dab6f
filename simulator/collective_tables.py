"""`CollectiveTables`: measured collectives of one type of node, read from the public `nccl.parquet` format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..profiles.llm.tables.checks import read_table, units
from ..profiles.llm.tables.operators import datasheet

__all__ = ["CollectiveTables"]

NAMES: Mapping[str, str] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
"""Name in the files -> name here."""
ELEMENT_BYTES = {"half": 2, "int8": 1}
"""Bytes of an element of each data type in the files. `half` comes first and is taken where both are there, because
int8 all-reduces add in another type than training does."""
MS = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveTables:
    """Seconds of collectives in groups of neighbours within a node, as they were measured.

    Parameters
    ----------
    curves : mapping
        (collective, devices) -> (bytes, seconds), both rising from the smallest message. Bytes are those of a device's
        larger side, as in `meshwright.simulator.mesh.COLLECTIVES`.
    source : str
        What was measured.

    Notes
    -----
    Between two sizes the time is affine, a launch and a rate: on every second size of the public tables, left out,
    that errs by 2.1 % in the median, lines between logarithms by 2.4 to 3.2 %. Smaller messages take what the smallest
    took; larger ones the largest's rate. Groups that were not measured, and any that leave a node, are not here.
    """

    curves: Mapping[tuple[str, int], tuple[Floats, Floats]]
    source: str = ""

    @classmethod
    def load(cls, folder: str | Path) -> CollectiveTables:
        """Read ``<folder>/nccl.parquet`` (milliseconds, elements of the larger side) with ``<folder name>.yaml``.

        Raises
        ------
        InputError
            If a file is missing or wrong.
        """
        folder = Path(folder)
        path = folder / "nccl.parquet"
        if not path.is_file():
            raise InputError(f"{path}: expected measured collectives; there is no such file")
        frame = read_table(path, ("num_gpus", "message_size"), ("op_name", "nccl_dtype"), "latency")
        dtype = next((t for t in ELEMENT_BYTES if (frame["nccl_dtype"] == t).any()), None)
        if dtype is None:
            raise InputError(f"{path}: nccl_dtype: expected half or int8 (got {sorted(set(frame['nccl_dtype']))})")
        link = datasheet(folder).link_bytes_per_s
        curves: dict[tuple[str, int], tuple[Floats, Floats]] = {}
        for (name, devices), rows in frame[frame["nccl_dtype"] == dtype].groupby(["op_name", "num_gpus"]):
            if name not in NAMES:
                continue
            series = rows.groupby("message_size")["latency"].median()
            n_bytes = ELEMENT_BYTES[dtype] * series.index.to_numpy(dtype=float)
            seconds = MS * series.to_numpy(dtype=float)
            # What a ring sends over each link; an all-reduce is a reduce-scatter and an all-gather.
            moved = (2 if name == "all_reduce" else 1) * (devices - 1) / devices * n_bytes
            # At least 2 % of the link's data sheet for the best size: the largest messages of a healthy table reach far
            # more, and a wrong unit is off by a factor of a thousand.
            units(
                f"{path}: latency in ms, message_size in elements: {name}", float((moved / link / seconds).max()), 0.02
            )
            seconds = np.maximum.accumulate(seconds)  # a larger message is never faster: noise of small ones
            curves[NAMES[str(name)], int(devices)] = n_bytes, seconds
        if not curves:
            raise InputError(f"{path}: op_name: expected {', '.join(NAMES)} (got {sorted(set(frame['op_name']))})")
        about = ", ".join(f"{c} {frame[c].iloc[0]}" for c in ("device", "version") if c in frame.columns)
        return cls(curves, f"NCCL measured: {about} ({folder.name})")

    def seconds(self, collective: str, n_bytes: float, devices: int) -> float | None:
        """Seconds of one collective among `devices` devices of a node; None where no such group was measured."""
        found = self.curves.get((collective, devices))
        if found is None:
            return None
        sizes, seconds = found
        if n_bytes > sizes[-1]:
            return float(seconds[-1] * n_bytes / sizes[-1])
        return float(np.interp(n_bytes, sizes, seconds))
