"""`decomposed`: a program in calls that handlers know, where torch knows how; the others are left whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

__all__ = ["decomposed"]

ROUNDS = 3
"""What a call decomposes into may decompose again; nothing that is known takes more rounds."""

WHOLE = frozenset({"eye.default", "eye.m", "gru.input", "lstm.input", "rnn_relu.input", "rnn_tanh.input"})
"""Calls that are never taken apart: torch would write out every step of a sequence, or use types of its own."""


def decomposed(program: Any, known: Collection[str], keep: bool) -> Any:
    """The program with calls that are not known written as those that are, where torch knows how.

    With `keep`, a call of which a part would not be known stays as it is: it falls back as a whole.
    """
    if keep and any(_writes_into_a_part(node) for node in _calls(program)):
        program = program.run_decompositions({})  # torch writes it as functions, and takes nothing else apart
    kept = set[Any]()
    while True:
        found, strange = _taken_apart(program, known, keep, kept)
        if not keep or strange <= kept:
            return found
        kept |= strange


def _taken_apart(program: Any, known: Collection[str], keep: bool, kept: set[Any]) -> tuple[Any, set[Any]]:
    """The program, and those of its calls that something unknown came from."""
    import torch

    made_of: dict[str, Any] = {}  # call -> the call of the first program that it came from
    for _ in range(ROUNDS):
        strange = {
            node.target for node in _calls(program)
            if not _known(node, known) and node.target not in kept and not (keep and _name(node) in WHOLE)
        }  # fmt: skip
        table = {op: rule for op, rule in torch.export.default_decompositions().items() if op in strange}
        if not table:
            break
        before = {node.name: made_of.get(node.name, node.target if node.target in table else None)
                  for node in _calls(program)}  # fmt: skip
        program = program.run_decompositions(table)
        made_of = {}
        for node in _calls(program):
            sources = node.meta.get("from_node") or ()
            made_of[node.name] = before.get(sources[-1].name) if sources else None
    left = {made_of.get(node.name) for node in _calls(program) if not _known(node, known) or _picks(node)}
    return program, left - {None}


def _writes_into_a_part(node: Any) -> bool:
    """Whether a call writes in place into what is a view of something else, or has one."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or not node.args or not hasattr(node.args[0], "target"):
        return False
    return any(map(_views, (node.args[0], *node.args[0].users)))


def _views(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)


def _picks(node: Any) -> bool:
    """Whether a call picks elements by several tensors of indices: what is made of these says less than the whole."""
    if _name(node).partition(".")[0] not in ("_unsafe_index", "_unsafe_index_put", "index", "index_put"):
        return False
    return sum(x is not None for x in node.args[1]) > 1


def _calls(program: Any) -> Iterator[Any]:
    for part in program.graph_module.modules():
        if hasattr(part, "graph"):
            yield from (node for node in part.graph.nodes if node.op == "call_function")


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return f"{schema.name.partition('::')[2]}.{node.target._overloadname}" if schema is not None else ""


def _known(node: Any, known: Collection[str]) -> bool:
    name = _name(node)
    if not name:
        return getattr(node.target, "__name__", "") == "getitem" or getattr(node.target, "__name__", "") in known
    op = name.partition(".")[0] if node.target._schema.name.startswith("aten::") else node.target._schema.name
    return not {op, op.rstrip("_"), name}.isdisjoint(known)
