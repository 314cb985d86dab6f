"""`LLMTrace`: requests to a language model as read-only columns: lengths, samples, and whom each one follows."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....traces.trace import Trace
from ..policy.request import LLMRequest
from .clients import Clients
from .columns import OPTIONAL, check_classes, column_of, counts, numbered, place_of, refuse

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LLMTrace"]

IntColumn = npt.NDArray[np.int64]
FloatColumn = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LLMTrace(Shown):
    """Requests in order of arrival.

    Parameters
    ----------
    arrival : array_like of float, shape (n,)
        Seconds, non-decreasing, finite, >= 0. Of a request that follows another: the earliest.
    prompt_tokens, output_tokens : array_like of int, shape (n,)
        Tokens of the prompt, and tokens that each of its sequences generates, >= 1.
    best_of : array_like of int, shape (n,), optional
        Sequences generated from each prompt; 1 without it.
    beam : array_like of bool, shape (n,), optional
        Whether these are beams of a beam search instead of independent samples; False without it.
    priority : array_like of int, shape (n,), optional
        Smaller goes first under policies that look at it; 0 without it.
    after : array_like of int, shape (n,), optional
        Row of the request whose finish a request waits for (an earlier turn of the same conversation, whose tokens its
        prompt begins with); -1 for none.
    think_s : array_like of float, shape (n,), optional
        Seconds between that finish and the request.
    prefix_ids : sequence of sequence of int, optional
        For each request, ids of the blocks of `prefix_block` tokens that its prompt consists of; the same id is the
        same text. Without them only the turns of a conversation share a prefix.
    prefix_block : int
        Tokens of each such block; 1: the ids are tokens.
    shared_prefix : array_like of int, shape (n,), optional
        Which of the prefixes that an engine reserved blocks for each prompt begins with (`Vllm02Config.prefixes`); -1
        for none.
    lora, cache_salt : array_like of int, shape (n,), optional
        Which LoRA adapter each request uses, and its salt (`LLMRequest`); -1 for none.
    kind : array_like of int, shape (n,), optional
        Class of each request, an index into `classes`, their names; limits may differ by class.
    classes : sequence of str
        Names of the classes.
    clients : Clients, optional
        How requests are sent. In a closed loop one waits for another of its client, and has nothing of its text.

    Raises
    ------
    InputError
        On no request at all, columns of different lengths, or a value out of its range.
    """

    arrival: FloatColumn
    prompt_tokens: IntColumn
    output_tokens: IntColumn
    best_of: IntColumn | None = None
    beam: npt.NDArray[np.bool_] | None = None
    priority: IntColumn | None = None
    after: IntColumn | None = None
    think_s: FloatColumn | None = None
    prefix_ids: Sequence[Sequence[int]] | None = None
    prefix_block: int = 512
    shared_prefix: IntColumn | None = None
    lora: IntColumn | None = None
    cache_salt: IntColumn | None = None
    kind: IntColumn | None = None
    classes: tuple[str, ...] = ()
    clients: Clients | None = None

    def __init__(
        self,
        arrival: npt.ArrayLike,
        prompt_tokens: npt.ArrayLike,
        output_tokens: npt.ArrayLike,
        *,
        prefix_ids: Sequence[Sequence[int]] | None = None,
        prefix_block: int = 512,
        classes: Sequence[str] = (),
        clients: Clients | None = None,
        **columns: npt.ArrayLike | None,
    ) -> None:
        unknown = next((name for name in columns if name not in OPTIONAL), None)
        if unknown is not None:
            raise InputError(f"LLMTrace: has no column {unknown!r}; it may have {', '.join(OPTIONAL)}")
        times = column_of(arrival, "arrival", float)
        n = len(times)
        if not n:
            raise InputError("LLMTrace: no request at all; expected at least one")
        refuse("arrival", times, ~(np.isfinite(times) & (times >= 0)), "times must be finite and >= 0 seconds")
        refuse("arrival", times, np.diff(times, prepend=times[0]) < 0, "times must not decrease; sort them")
        made: dict[str, Any] = {
            "arrival": times,
            "prompt_tokens": counts(prompt_tokens, "prompt_tokens", n, 1),
            "output_tokens": counts(output_tokens, "output_tokens", n, 1),
            **{name: of(columns.get(name), name, n) for name, of in OPTIONAL.items()},
        }
        check_classes(made["kind"], classes)
        follows, think = made["after"], made["think_s"]
        if follows is not None:
            refuse("after", follows, follows >= np.arange(n), "a request may follow only an earlier row")
        if think is not None:
            refuse("think_s", think, ~(np.isfinite(think) & (think >= 0)), "expected finite seconds >= 0")
        if prefix_ids is not None:
            if isinstance(prefix_block, bool) or prefix_block < 1:
                raise InputError(f"LLMTrace.prefix_block: expected an integer >= 1 (got {prefix_block!r})")
            need = -(-made["prompt_tokens"] // prefix_block)
            have = np.array([len(ids) for ids in prefix_ids], dtype=np.int64)
            if have.shape != (n,):
                raise InputError(f"LLMTrace.prefix_ids: expected {n} entries, one per arrival (got {len(have)})")
            refuse("prefix_ids", have, have != need, f"expected one id for each {prefix_block} prompt tokens")
        for name, column in made.items():
            if column is not None:
                column.flags.writeable = False
            object.__setattr__(self, name, column)
        object.__setattr__(self, "prefix_ids", prefix_ids)
        object.__setattr__(self, "prefix_block", prefix_block)
        object.__setattr__(self, "classes", tuple(classes))
        object.__setattr__(self, "clients", clients)

    @classmethod
    def of(cls, requests: LLMTrace | Trace | Iterable[LLMRequest]) -> LLMTrace:
        """Requests of any kind as an `LLMTrace`.

        Parameters
        ----------
        requests : LLMTrace, Trace or iterable of LLMRequest
            A `Trace` needs token columns; what it says of models, SLOs and prefixes is left behind. Tokens of
            `LLMRequest`s are kept if all have them; ids are not, and adapters and salts are numbered.

        Raises
        ------
        InputError
            On a trace without tokens, or no request.
        """
        if isinstance(requests, LLMTrace):
            return requests
        if isinstance(requests, Trace):
            prompts, outputs = requests.prompt_tokens, requests.output_tokens
            if prompts is None or outputs is None:
                name = "prompt_tokens" if prompts is None else "output_tokens"
                raise InputError(f"requests: the trace has no column {name!r}; read one that has, or draw lengths")
            return cls(requests.arrival, prompts, outputs)
        given: Any = requests
        rows: list[Any] = list(cast("Iterable[Any]", given)) if isinstance(given, Iterable) else [given]
        for row in rows:
            if not isinstance(row, LLMRequest):
                raise InputError(f"requests: expected an LLMTrace, a Trace or LLMRequests (got {row!r:.100})")
        rows.sort(key=lambda r: r.arrival)
        told = [r.tokens for r in rows if r.tokens is not None]
        prefix = [-1 if r.shared_prefix is None else r.shared_prefix for r in rows]
        return cls(
            [r.arrival for r in rows],
            [r.prompt for r in rows],
            [r.output for r in rows],
            best_of=[r.best_of for r in rows],
            beam=[r.beam for r in rows] if any(r.beam for r in rows) else None,
            priority=[r.priority for r in rows],
            prefix_ids=told if rows and len(told) == len(rows) else None,
            prefix_block=1,
            shared_prefix=prefix if any(place >= 0 for place in prefix) else None,
            lora=numbered([r.lora for r in rows]),
            cache_salt=numbered([r.cache_salt for r in rows]),
        )

    @property
    def dialogue(self) -> bool:
        """Whether a request that follows another one goes on with its text; in a closed loop it does not."""
        return self.clients is None or not self.clients.closed

    def __len__(self) -> int:
        return len(self.arrival)

    def _headline(self) -> str:
        return (
            f"{len(self)} requests over {self.arrival[-1]:.6g} s, mean prompt {self.prompt_tokens.mean():.4g} "
            f"and output {self.output_tokens.mean():.4g} tokens"
        )

    def request(self, row: int, arrival: float | None = None) -> LLMRequest:
        """The request of a row, by its number, arriving at `arrival` seconds (by default, its own)."""
        return LLMRequest(
            row,
            int(self.prompt_tokens[row]),
            int(self.output_tokens[row]),
            float(self.arrival[row]) if arrival is None else arrival,
            1 if self.best_of is None else int(self.best_of[row]),
            beam=self.beam is not None and bool(self.beam[row]),
            priority=0 if self.priority is None else int(self.priority[row]),
            tokens=self.tokens(row),
            text=self._root(row),
            shared_prefix=place_of(self.shared_prefix, row),
            lora=place_of(self.lora, row),
            cache_salt=place_of(self.cache_salt, row),
        )

    def tokens(self, row: int) -> tuple[int, ...] | None:
        """Token ids of a prompt; None where no prefix is known."""
        if self.prefix_ids is None:
            return None
        ids, size, length = self.prefix_ids[row], self.prefix_block, int(self.prompt_tokens[row])
        if size == 1:
            return tuple(ids)
        blocks = chain.from_iterable(range(i * size, (i + 1) * size) for i in map(int, ids))
        return tuple(blocks)[:length]

    def _root(self, row: int) -> int | None:
        """The first turn of a row's conversation; None where it is no part of one."""
        if self.after is None or not self.dialogue:
            return None
        while self.after[row] >= 0:
            row = int(self.after[row])
        return row

    def select(self, rows: Any) -> LLMTrace:
        """Only some rows (a slice or an index), times unchanged; of conversations, whole ones only.

        Raises
        ------
        InputError
            If no row is left, or one that another follows is not among them.
        """
        kept = np.arange(len(self))[rows]
        after = None
        if self.after is not None:
            place = np.full(len(self) + 1, -2)
            place[kept], place[-1] = np.arange(len(kept)), -1
            after = place[self.after[kept]]
            if (after == -2).any():
                raise InputError("LLMTrace.select: a turn of a conversation is left out; later ones follow it")
        ids = self.prefix_ids
        return LLMTrace(
            self.arrival[kept],
            self.prompt_tokens[kept],
            self.output_tokens[kept],
            prefix_ids=None if ids is None else [ids[int(i)] for i in kept],
            prefix_block=self.prefix_block,
            classes=self.classes,
            clients=self.clients,
            **{name: column[kept] for name, column in self._further().items()} | {"after": after},
        )

    def at(self, arrival: npt.ArrayLike, *, clients: Clients | None = None, **columns: npt.ArrayLike) -> LLMTrace:
        """The same requests with other times of arrival (seconds), other clients, or other columns."""
        further: dict[str, Any] = self._further() | columns
        return LLMTrace(
            arrival, self.prompt_tokens, self.output_tokens, prefix_ids=self.prefix_ids,
            prefix_block=self.prefix_block, classes=self.classes, clients=clients or self.clients, **further,
        )  # fmt: skip

    def dealt(self, order: IntColumn) -> LLMTrace:
        """The same arrivals, with everything else in another order of rows; of independent requests only."""
        further: dict[str, Any] = {name: column[order] for name, column in self._further().items()}
        return LLMTrace(
            self.arrival, self.prompt_tokens[order], self.output_tokens[order], classes=self.classes,
            clients=self.clients, **further,
        )  # fmt: skip

    def of_class(self, name: str) -> npt.NDArray[np.bool_]:
        """Which rows are of a class; none where no request has that one.

        Parameters
        ----------
        name : str
            The class; empty: every request.
        """
        if not name:
            return np.ones(len(self), dtype=np.bool_)
        if self.kind is None or name not in self.classes:
            return np.zeros(len(self), dtype=np.bool_)
        return self.kind == self.classes.index(name)

    def to_frame(self) -> pd.DataFrame:
        """One row per request, one column for each that is there (prefix ids aside)."""
        import pandas as pd

        always = {name: getattr(self, name) for name in ("arrival", "prompt_tokens", "output_tokens")}
        return pd.DataFrame(always | self._further())

    def _further(self) -> dict[str, npt.NDArray[Any]]:
        """The optional columns that are there."""
        return {name: getattr(self, name) for name in OPTIONAL if getattr(self, name) is not None}
