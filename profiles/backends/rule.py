"""Method 2 of Collage (§2.3): a rule says what may be joined, and groups are found by post-dominators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...errors import InputError
from .graph import InferenceGraph, Node, ones
from .kinds import BROADCAST, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, kind_of

__all__ = ["MOST_OPERATORS", "PatternRule", "SingleRule", "TvmRule", "check_path", "generated", "post_dominators"]

MOST_OPERATORS = 256
"""In one group (the authors' code)."""


class PatternRule(Protocol):
    """What a backend can run, and what it can join."""

    def op_rule(self, node: Node) -> bool:
        """Whether it runs one operator."""
        ...

    def fusion_rule(self, kind: int, src: Node, sink: Node, between: Sequence[Node]) -> bool:
        """Whether it runs everything from a seed to one of its post-dominators as one.

        Parameters
        ----------
        kind : int
            Of the seed (`kinds.kind_of`).
        src, sink : Node
            The seed and the post-dominator.
        between : sequence of Node
            Every operator on a path from the seed to the sink, without these two; see `check_path`.
        """
        ...


def check_path(between: Sequence[Node], fchecker: Callable[[Node], bool]) -> bool:
    """Whether every operator on the paths from a seed to its sink passes a check (the paper's helper)."""
    return all(map(fchecker, between))


def post_dominators(readers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Per node of a graph its next post-dominator: the first that every way from it to the end passes; -1: none.

    Parameters
    ----------
    readers : sequence of sequence of int
        Per node, in topological order, the positions of those that read it.
    """
    next_one = [-1] * len(readers)  # Cooper, Harvey and Kennedy's walk; one pass suffices without circles
    for k in range(len(readers) - 1, -1, -1):
        for number, reader in enumerate(readers[k]):
            meeting, other = (next_one[k], reader) if number else (reader, reader)
            while meeting != other and meeting != -1 and other != -1:
                if meeting < other:  # what comes first in the order goes on
                    meeting = next_one[meeting]
                else:
                    other = next_one[other]
            next_one[k] = meeting if meeting == other else -1
            if next_one[k] == -1:
                break
    return tuple(next_one)


def generated(graph: InferenceGraph, rule: PatternRule, backend: str) -> tuple[tuple[int, int], ...]:
    """Every group that a rule allows, as (nodes in bits, root), seed by seed.

    From each operator that `op_rule` takes, the group grows to its next post-dominator as long as every operator
    between passes (`op_rule`) and `fusion_rule` says yes, and stops at the first failure. This is the text's rule; the
    authors' code drops paths that fail and keeps the union of the others.

    Raises
    ------
    InputError
        If the rule raises an error.
    """
    next_one, out = post_dominators(graph.readers), dict[tuple[int, int], None]()
    runs = [_asked(backend, node, rule.op_rule, node) for node in graph.nodes]
    for seed, node in enumerate(graph.nodes):
        if not runs[seed]:
            continue
        out[1 << seed, seed] = None
        kind, sink = kind_of(node), next_one[seed]
        while sink != -1:
            inside = graph.below[seed] & graph.above[sink]
            if inside.bit_count() + 2 > MOST_OPERATORS or not runs[sink]:
                break
            between = [graph.nodes[k] for k in ones(inside)]
            if not all(runs[k] for k in ones(inside)):
                break
            if not _asked(backend, node, rule.fusion_rule, kind, node, graph.nodes[sink], between):
                break
            out[inside | 1 << seed | 1 << sink, sink] = None
            sink = next_one[sink]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class SingleRule:
    """One operator at a time.

    Parameters
    ----------
    only : frozenset of str or None
        Operators that it runs; `None`: every one.
    """

    only: frozenset[str] | None = None

    def op_rule(self, node: Node) -> bool:
        """Whether it is one of them."""
        return self.only is None or node.op in self.only

    def fusion_rule(self, kind: int, src: Node, sink: Node, between: Sequence[Node]) -> bool:
        """Never."""
        del kind, src, sink, between
        return False


@dataclass(frozen=True, slots=True)
class TvmRule:
    """TVM's rule, in the text's form: operators behind a convolution or product, chains of elementwise operators.

    Parameters
    ----------
    excluded : frozenset of str
        Operators that the backend does not run.
    """

    excluded: frozenset[str] = frozenset()

    def op_rule(self, node: Node) -> bool:
        """All but opaque operators and those excluded."""
        return node.op not in self.excluded and kind_of(node) != OPAQUE

    def fusion_rule(self, kind: int, src: Node, sink: Node, between: Sequence[Node]) -> bool:
        """By the kinds of seed, sink and what is between."""
        del src
        last = kind_of(sink)
        if kind == FUSABLE:
            return last <= INJECTIVE and check_path(between, lambda node: kind_of(node) <= BROADCAST)
        if kind <= BROADCAST:
            return last <= REDUCTION and check_path(between, lambda node: kind_of(node) <= INJECTIVE)
        if kind == INJECTIVE:
            return last <= INJECTIVE and check_path(between, lambda node: kind_of(node) <= INJECTIVE)
        return False


def _asked(backend: str, node: Node, function: object, *arguments: object) -> bool:
    try:
        return bool(function(*arguments))  # type: ignore[operator]
    except Exception as error:
        name = getattr(function, "__name__", "rule")
        raise InputError(
            f"backend {backend!r}: its {name} raised {type(error).__name__}: {error} for node {node.id!r} ({node.op})"
        ) from error
