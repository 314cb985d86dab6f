"""The tables of the loop over groups of sequences filled from a world, and the loop run over them to its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...decoding.genealogy import CHUNK, Genealogy
from ...memory.swapping import SwapCost
from ...policy.vllm02_state import Vllm02Config
from ...policy.vllm_paper import VllmPaperScheduler
from ...world import World
from ..lists import wider
from .tables import ENGINE, GROUP, GroupRules, GroupTables

__all__ = ["Served", "needs_groups", "serve_groups", "why_not_groups"]

IntColumn = npt.NDArray[np.int64]
MOST_BEAMS = 62
"""A set of beams is the bits of one integer."""


class Served(NamedTuple):
    """What came of one engine's requests; see `GroupTables` and `loop.serve_engine`."""

    times: Any
    counts: Any
    clock: Any
    state: Any
    runs: Any


def needs_groups(world: World) -> bool:
    """Whether a world of the paper's vLLM or of 0.2 is more than the loop for single sequences can do."""
    if world.policy.scheduler is VllmPaperScheduler:
        return True
    several = world.trace.best_of is not None and bool(np.any(world.trace.best_of > 1))
    return several or world.config.preemption_mode == "swap" or bool(world.config.prefixes)


def why_not_groups(world: World) -> str | None:
    """Why such a world needs the reference; None where the loop over groups gives the same answers."""
    trace = world.trace
    if world.swap is not None and type(world.swap) is not SwapCost:
        return f"a swap cost of type {type(world.swap).__name__} is not compiled"
    if trace.beam is None or trace.best_of is None or not np.any(trace.beam & (trace.best_of > 1)):
        return None
    if world.survivors is None:
        return "beams without survivors are not compiled"
    if type(world.survivors) is not Genealogy:
        return f"survivors of type {type(world.survivors).__name__} are not compiled"
    if int(trace.best_of[trace.beam].max()) > MOST_BEAMS:
        return f"more than {MOST_BEAMS} beams are not compiled"
    from ..streams import agree

    return None if agree() else "this version of NumPy draws other numbers than the compiled engine"


def _rules(world: World, until: float | None) -> GroupRules:
    """The options in numbers."""
    c, swap, survivors = world.config, world.swap, world.survivors
    return GroupRules(
        pool=c.num_gpu_blocks,
        reserved=sum(-(-tokens // c.block_size) for tokens in c.prefixes),
        size=c.block_size,
        budget=c.token_budget,
        max_seqs=c.max_num_seqs,
        limit=min(c.max_model_len, c.token_budget),
        paddings=c.max_paddings if isinstance(c, Vllm02Config) else 0,
        mixed=world.policy.scheduler is VllmPaperScheduler,
        watermark=int(c.watermark * c.num_gpu_blocks),
        padded=world.padded and world.policy.scheduler is not VllmPaperScheduler,
        swap=c.preemption_mode == "swap",
        copies=0 if swap is None else 2 * swap.layers,
        copy_s=0.0 if swap is None else max(swap.start_s, swap.piece_bytes / swap.bandwidth),
        survival=survivors.survival if isinstance(survivors, Genealogy) else 1.0,
        concurrency=world.concurrency or 0,
        until=float("inf") if until is None else float(until),
    )


def serve_groups(world: World, until: float | None, price: Any, rows: IntColumn, arrival: Any) -> Served | None:
    """Serve some rows of a world, in order of arrival, on one engine; None where the reference must say what is
    wrong."""
    from ..kernel import FULL
    from .loop import serve_engine

    x = _rules(world, until)
    s = _tables(world, x, rows, arrival)
    # A guess of the iterations: what is full is widened.
    clock, state, runs = np.empty((2, 4096)), np.empty((10, 4096), np.int64), np.empty((3, 4096), np.int64)
    status, now, g = FULL, 0.0, s.engine[0]
    while status == FULL:
        n, noted = int(g["rows"]), int(g["runs"])
        clock, state, runs = wider(clock, n, 1), wider(state, n, 1), wider(runs, noted, 2 * len(s.running))
        status, now = serve_engine(x, price, s, now, clock, state, runs)
    if status:
        return None
    n, noted, q = int(g["rows"]), int(g["runs"]), s.group
    open_ = np.flatnonzero(q["first"] >= 0)
    unfinished = np.stack((open_, q["first"][open_], q["final"][open_]))
    return Served(s.times, s.counts, clock[:, :n], state[:, :n], np.concatenate((runs[:, :noted], unfinished), axis=1))


def _tables(world: World, x: GroupRules, rows: IntColumn, arrival: Any) -> GroupTables:
    """Tables in which nobody has come yet."""
    trace, c, n = world.trace, world.config, len(rows)
    group, engine = np.zeros(n, dtype=GROUP), np.zeros(1, dtype=ENGINE)
    prompt, output = trace.prompt_tokens[rows], trace.output_tokens[rows]
    wide = np.ones(n, dtype=np.int64) if trace.best_of is None else trace.best_of[rows]
    beam = (np.zeros(n, dtype=bool) if trace.beam is None else trace.beam[rows]) & (wide > 1)
    group["wide"], group["beam"], group["start"], group["length"] = wide, beam, prompt, prompt
    group["target"] = np.minimum(prompt + output, c.max_model_len + 1)  # 0.2 stops beyond it
    group["prefix"], group["first"], group["final"], group["mark"] = -1, -1, -2, -1
    if c.prefixes and trace.shared_prefix is not None:
        place = trace.shared_prefix[rows]
        tokens = np.where(place < 0, 0, np.array(c.prefixes)[np.maximum(place, 0)])
        group["prefix"], group["before"], group["full"] = place, tokens, tokens // c.block_size
    engine["free"], engine["host"] = x.pool - x.reserved, c.num_cpu_blocks
    engine["known"] = n if x.concurrency == 0 else min(x.concurrency, n)
    seqs = min(x.max_seqs, n) + 1
    cells = np.where(beam, wide * -(-group["target"] // c.block_size), 0)
    parents = np.where(beam, CHUNK * wide, 0)
    chunks = np.where(beam, output // CHUNK + 1, 0)
    group["table"], group["drawn"] = np.cumsum(cells) - cells, np.cumsum(parents) - parents
    group["key"] = np.cumsum(chunks) - chunks
    entropy, keys = _streams(world, rows, wide, chunks)
    most = int(wide.max(initial=1, where=beam))
    return GroupTables(
        group=group,
        engine=engine,
        arrival=arrival,
        times=np.full((3, n), np.nan),
        counts=np.zeros((3, n), dtype=np.int64),
        running=np.empty(seqs, dtype=np.int64),
        swapped=np.empty(seqs, dtype=np.int64),
        back=np.empty(n, dtype=np.int64),
        users=np.zeros(len(c.prefixes), dtype=np.int64),
        blocks=np.array([tokens // c.block_size for tokens in c.prefixes], dtype=np.int64),
        new=np.empty(seqs, dtype=np.int64),
        old=np.empty(seqs, dtype=np.int64),
        row=np.empty(most, dtype=np.int64),
        table=np.zeros(int(cells.sum()), dtype=np.int16),
        parent=np.zeros(int(parents.sum()), dtype=np.int16),
        stays=np.empty(CHUNK * most),
        entropy=entropy,
        keys=keys,
        stream=np.zeros(5, dtype=np.uint64),
    )


def _streams(world: World, rows: IntColumn, wide: IntColumn, chunks: IntColumn) -> tuple[Any, Any]:
    """The seed of the genealogies and the keys of all their streams."""
    from ..streams import entropy_of, keys_of

    survivors = world.survivors
    if not isinstance(survivors, Genealogy) or not chunks.any():
        return entropy_of(0), np.zeros((1, 4), dtype=np.uint64)
    names = zip(rows.tolist(), wide.tolist(), chunks.tolist(), strict=True)
    return entropy_of(survivors.seed), keys_of(
        ("llm", "beams", row, k, chunk) for row, k, count in names for chunk in range(count)
    )
