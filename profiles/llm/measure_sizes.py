"""Which calls of a model are timed: sizes of the tables' grids, and batches that look like those in service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product

from ...errors import InputError

__all__ = ["Call", "Sizes", "spread"]


@dataclass(frozen=True, slots=True)
class Call:
    """One batch that a forward pass is timed on.

    Parameters
    ----------
    prefill : tuple of (int, int)
        New tokens of each prompt chunk, and the tokens before it.
    contexts : tuple of int
        Tokens that each decode reads, its own new one included.
    at : tuple of int
        Where its attention belongs in the table: prefill chunk, its context before, decodes, their context.
    """

    prefill: tuple[tuple[int, int], ...]
    contexts: tuple[int, ...]
    at: tuple[int, int, int, int]

    @property
    def tokens(self) -> int:
        """Tokens that pass through the matrices."""
        return sum(new for new, _ in self.prefill) + len(self.contexts)

    @property
    def sequences(self) -> int:
        """Sequences, each of which gives a token."""
        return len(self.prefill) + len(self.contexts)

    def blocks(self, block_size: int) -> int:
        """KV blocks that its sequences hold."""
        held = [new + before for new, before in self.prefill] + list(self.contexts)
        return sum(-(-length // block_size) for length in held)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the grids, each sorted.

    Parameters
    ----------
    tokens : tuple of int
        Numbers of tokens at which dense layers are measured.
    sequences : tuple of int
        Numbers of sequences at which the output head and the sampler are measured.
    decodes, contexts : tuple of int
        Of decodes alone: sequences, and tokens that one reads in the mean.
    chunk, before : tuple of int
        Of prompt chunks: new tokens (from 1 on), and tokens before them (from 0 on).
    beside, beside_context : tuple of int
        Decodes beside a chunk, and their context.
    """

    tokens: tuple[int, ...]
    sequences: tuple[int, ...]
    decodes: tuple[int, ...]
    contexts: tuple[int, ...]
    chunk: tuple[int, ...]
    before: tuple[int, ...]
    beside: tuple[int, ...]
    beside_context: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            least = 0 if field.name == "before" else 1
            if len(values) < 2 or list(values) != sorted(set(values)) or values[0] < least:
                raise InputError(f"sizes: {field.name}: expected two or more rising sizes >= {least} (got {values})")

    @classmethod
    def upto(cls, max_tokens: int, max_sequences: int, max_context: int, *, fast: bool = False) -> Sizes:
        """Grids up to the largest batch, most sequences and longest context that will be served.

        Neighbours are a factor of 1.5 or so apart where one size is varied, of 4 where four are; `fast`: 4 throughout.

        Raises
        ------
        InputError
            On a limit too small to make a grid of.
        """
        for name, value, least in (
            ("max_tokens", max_tokens, 16),
            ("max_sequences", max_sequences, 2),
            ("max_context", max_context, 64),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
        fine, wide = (4.0, 8.0) if fast else (1.5, 4.0)
        two = 4.0 if fast else 2.0
        return cls(
            tokens=_grid(1, max_tokens, fine),
            sequences=_grid(1, max_sequences, fine),
            decodes=_grid(1, max_sequences, two),
            contexts=_grid(16, max_context, two),
            chunk=(1, *_grid(8, min(max_tokens, max_context), two)),
            before=(0, *_grid(16, max_context, wide)),
            beside=_grid(1, max_sequences, wide),
            beside_context=_grid(16, max_context, wide),
        )

    def dense(self) -> Iterator[Call]:
        """One prompt of each number of tokens."""
        for tokens in self.tokens:
            yield Call(((tokens, 0),), (), (tokens, 0, 0, 0))

    def heads(self) -> Iterator[Call]:
        """As many short decodes as sequences."""
        for sequences in self.sequences:
            yield Call((), spread(sequences, 16), (0, 0, sequences, 16))

    def attention(self) -> Iterator[Call]:
        """Decodes alone; chunks alone; chunks beside decodes."""
        for decodes, context in product(self.decodes, self.contexts):
            yield Call((), spread(decodes, context), (0, 0, decodes, context))
        for chunk, before in product(self.chunk, self.before):
            yield Call(((chunk, before),), (), (chunk, before, 0, 0))
            for beside, context in product(self.beside, self.beside_context):
                yield Call(((chunk, before),), spread(beside, context), (chunk, before, beside, context))

    def several(self) -> Iterator[Call]:
        """Two and four equal prompts in one batch: what a further chunk adds."""
        for chunk, chunks in product(self.chunk[1:4], (2, 4)):
            if chunk * chunks <= self.tokens[-1]:
                yield Call(((chunk, 0),) * chunks, (), (chunk, 0, 0, 0))


def spread(sequences: int, mean: int) -> tuple[int, ...]:
    """Contexts of a batch in service: evenly from half their mean to one and a half of it, `mean` in the mean.

    Sequences that decode together are at different places of their outputs; kernels that pad, or that take sequences
    of one length together, are faster on equal ones, which hardly occur.
    """
    if sequences == 1 or mean < 2:
        return (mean,) * sequences
    half = mean // 2
    found = [mean - half + (2 * half * i) // (sequences - 1) for i in range(sequences)]
    found[-1] += sequences * mean - sum(found)  # what rounding down took
    return tuple(found)


def _grid(low: int, high: int, factor: float) -> tuple[int, ...]:
    """Sizes from `low` to `high`, each the next integer at least, `factor` apart at most; both ends are in it."""
    found = [low]
    while found[-1] < high:
        found.append(min(high, max(found[-1] + 1, int(found[-1] * factor))))
    return tuple(found) if len(found) > 1 else (low, low + 1)
