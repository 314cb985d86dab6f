"""A cost table by hand: a chain with a branch, three backends, and what the best placement is."""

from __future__ import annotations

from pathlib import Path

from meshwright.profiles.backends import (
    CostTable,
    InferenceGraph,
    Machine,
    Match,
    Node,
    Provenance,
    Refused,
    Used,
    Value,
    save_costs,
)

SHAPE = (1, 4)


def node(name: str, op: str, *inputs: str) -> Node:
    """An operator whose operands and result have one shape."""
    return Node(name, op, inputs, (), Value(name, SHAPE, "float32", (4, 1)), (SHAPE,) * len(inputs))


GRAPH = InferenceGraph(
    (Value("x", SHAPE, "float32", (4, 1)),),
    (),
    (node("a", "relu", "x"), node("b", "tanh", "a"), node("c", "sigmoid", "a"), node("d", "add", "b", "c")),
    "d",
)


def table(model: str = "resnet-18", batch: int = 1) -> CostTable:
    """Alone `one` takes 4.04 ms, `all` 3.05 as one; `one` for a, c and d, `all` for b: 2.28."""
    matches = [
        Match("one", (name,), name, ms, 0.01, 5, 0.0) for name, ms in zip("abcd", (0.5, 2.5, 0.5, 0.5), strict=True)
    ]
    matches += [Match("all", (name,), name, ms, 0.01, 5, 1e-7) for name, ms in zip("abcd", (1, 0.7, 1, 1), strict=True)]
    matches.append(Match("all", ("a", "b", "c", "d"), "d", 3.0, 0.01, 5, 1e-7))
    return CostTable(
        GRAPH,
        (Used("one", "operator library", "1", 0.01), Used("all", "graph library", "2", 0.05)),
        tuple(matches),
        (Refused("all", ("c", "d"), "d", "wrong: it differs", 0.1),),
        (),
        Provenance(model, batch, Machine("a cpu", 1), (("torch", "2"),), "2026-11-28T00:00:00+00:00", 8, 0, 1.5),
    )


def written(folder: Path, **said: object) -> str:
    """The table as a file; its name."""
    save_costs(table(**said), folder / "costs.json")  # type: ignore[arg-type]
    return "costs.json"
