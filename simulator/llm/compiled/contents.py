"""Contents of KV blocks as numbers: two blocks have one number if they hold the same tokens after the same prefix.

A prompt of known tokens shares the contents of its full blocks with every prompt that begins alike; all other blocks
are a text's own, by place: a request's, or those of all turns of its conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..workload.requests import LLMTrace

__all__ = ["Contents", "contents", "roots", "unlike"]

IntColumn = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of full block k of row r: ``nodes[begin[r] + k // per] * per + k % per`` for k < shared[r], else
    ``own[r] + k``.

    Parameters
    ----------
    begin, shared, own : ndarray of int64, shape (n,)
        By request.
    nodes : ndarray of int64
        Beginnings of prompts, numbered; one for each `per` blocks.
    per : int
        Blocks of a node.
    """

    begin: IntColumn
    shared: IntColumn
    own: IntColumn
    nodes: IntColumn
    per: int


def unlike(trace: LLMTrace) -> str | None:
    """Why prompts cannot be told apart as the reference does it, by hashes; None where they can."""
    if trace.prefix_ids is None:
        return None
    least = min(min(map(int, ids), default=0) for ids in trace.prefix_ids)
    most = max(max(map(int, ids), default=0) for ids in trace.prefix_ids)
    # Python's hash of an integer is the integer itself only in this range.
    return None if least >= 0 and (most + 1) * trace.prefix_block < 2**61 - 1 else "prefix ids below 0 or too large"


def roots(after: IntColumn) -> IntColumn:
    """The first turn of each row's conversation."""
    text = np.arange(len(after))
    for row, previous in enumerate(after.tolist()):
        if previous >= 0:
            text[row] = text[previous]
    return text


def contents(trace: LLMTrace, size: int) -> Contents:
    """Contents of the blocks of `size` tokens of every request."""
    n = len(trace)
    begin, shared, per = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), 1
    nodes: list[int] = []
    known: dict[tuple[int, Any], int] = {}
    text = np.arange(n)
    if trace.prefix_ids is not None:
        block = trace.prefix_block
        whole = block % size == 0  # then a node is one id, else the ids that one KV block looks at
        per = block // size if whole else 1
        shared[:] = trace.prompt_tokens // size
        for row, ids in enumerate(trace.prefix_ids):
            begin[row], node = len(nodes), -1
            for k in range(-(-int(shared[row]) // per)):
                part = int(ids[k]) if whole else tuple(map(int, ids[k * size // block : -(-(k + 1) * size // block)]))
                node = known.setdefault((node, part), len(known))
                nodes.append(node)
    elif trace.after is not None and trace.dialogue:
        text = roots(trace.after)
    most = np.zeros(n, dtype=np.int64)
    np.maximum.at(most, text, (trace.prompt_tokens + trace.output_tokens) // size + 1)
    own = (len(known) * per + np.cumsum(most) - most)[text]
    return Contents(begin, shared, own, np.array(nodes or [0], dtype=np.int64), per)
