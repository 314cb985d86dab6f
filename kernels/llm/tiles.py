"""Tile sizes of the Triton kernels, and how many pieces a decode is cut into. Needs neither torch nor Triton.

Fixed by a rule, not tuned at run time: a run always launches the same kernels, and what is timed is what is served.
The benchmark's sweep tries other tiles on the present device.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tiles", "decode_tiles", "gemm_tiles", "next_power_of_2", "prefill_tiles", "splits_for"]

LEAST_PIECE = 256
"""Tokens of a piece, at least: below, starting a program costs as much as its reads (256 KB at 8 heads of 128)."""

WAVES = 4
"""Programs per multiprocessor that a decode is cut into: two run at a time, and two rounds even out ragged ends."""

DECODE_TILE_BYTES = 16384
"""Keys of a decode tile. With as many values and three stages in flight 64 KB are on their way per program; two
programs per multiprocessor then keep about 100 KB on their way, four times what bandwidth times latency asks for."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Sizes of one kernel's tiles and how it is compiled.

    Parameters
    ----------
    m, n, k : int
        Rows (queries), columns (keys) and depth (matrix product only) of a tile; powers of 2, at least 16.
    warps, stages : int
        Warps per program, and tiles in flight.
    """

    m: int
    n: int
    k: int = 16
    warps: int = 4
    stages: int = 3

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            size = getattr(self, name)
            if size < 16 or size & (size - 1):
                raise ValueError(f"Tiles: {name} must be a power of 2 of at least 16 (got {size})")
        if self.warps not in (1, 2, 4, 8, 16) or self.stages < 1:
            raise ValueError(
                f"Tiles: warps must be 1, 2, 4, 8 or 16 and stages at least 1 (got {self.warps} and {self.stages})"
            )


def next_power_of_2(size: int) -> int:
    """The least power of 2 that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def decode_tiles(group: int, width: int, element_bytes: int) -> Tiles:
    """Tiles of paged decode: all of a group as rows (16 to 64), keys of 16 KB as columns.

    Decode is bound by memory: rows are padded to the 16 that matrix units take, and what counts is bytes in flight.

    Parameters
    ----------
    group : int
        Query heads per KV head.
    width : int
        Head width.
    element_bytes : int
        Bytes of one number of the cache.
    """
    keys = DECODE_TILE_BYTES // (next_power_of_2(max(16, width)) * element_bytes)
    return Tiles(m=min(64, max(16, next_power_of_2(group))), n=min(128, max(16, keys)))


def prefill_tiles(width: int, element_bytes: int, capability: int) -> Tiles:
    """Tiles of prefill attention: what fits the registers and shared memory of the architecture.

    128 queries and 8 warps are two warp groups of 64 rows on sm_90. The output tile (queries x width, fp32) is kept in
    registers: wide heads, fp32, and sm_80, whose products read their operands from registers too, take smaller tiles,
    the largest whose registers do not spill much (compiled and looked at; none was tuned on a device).

    Parameters
    ----------
    width : int
        Head width.
    element_bytes : int
        Bytes of one number of queries and cache.
    capability : int
        80, 90, 100, …
    """
    padded = next_power_of_2(max(16, width))
    if element_bytes > 2:
        return Tiles(m=64, n=32, warps=4, stages=2)
    if padded > 128:
        return Tiles(m=64, n=32, warps=4, stages=3)
    if capability < 90:
        return Tiles(m=128, n=64 if padded < 128 else 32, warps=8, stages=3)
    return Tiles(m=128, n=128 if padded < 128 else 64, warps=8, stages=3)


def gemm_tiles(element_bytes: int, capability: int) -> Tiles:
    """Tiles of the matrix product: 128 x 256 where warp-group products read from shared memory, else 128 x 128."""
    if element_bytes > 2:
        return Tiles(m=64, n=64, k=32, warps=4, stages=3)
    if capability >= 90:
        return Tiles(m=128, n=256, k=64, warps=8, stages=3)
    return Tiles(m=128, n=128, k=32, warps=4, stages=4)


def splits_for(programs: int, tokens: int, processors: int) -> int:
    """Pieces that each context is cut into: one where the grid is large, more where it would leave processors idle.

    Parameters
    ----------
    programs : int
        Programs without a cut: sequences x KV heads.
    tokens : int
        Longest context that the tables have room for. What the device holds would need a wait for it; pieces of
        shorter contexts past their end are empty and cost a few loads.
    processors : int
        Multiprocessors of the device.

    Returns
    -------
    int
        At least 1; no piece of the longest context is below 256 tokens.
    """
    wanted = -(-WAVES * processors // max(1, programs))
    # At most 64: the kernel that merges the pieces holds all of them at once.
    return max(1, min(wanted, tokens // LEAST_PIECE, 64))
