"""Training: two plans of a small GPT, simulated and really trained."""

from __future__ import annotations

from ....profiles.graph import zoo_graph
from ....runtime.training.compare.plans import compare_training, example_plans
from ..line import Errors, Line
from ..machine import Machine
from . import Tell

__all__ = ["lines"]

MODEL, BATCH, MICROBATCHES, ROUNDS = "tiny-gpt", 16, 4, 4
PLANS = ("pipeline", "data parallel")


def lines(machine: Machine, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Measure, simulate, train; the median time of an iteration of each plan."""
    graph = zoo_graph(MODEL)
    every = example_plans(graph, global_batch=BATCH, microbatches=MICROBATCHES)
    found = compare_training(
        {name: every[name] for name in PLANS}, graph, rounds=ROUNDS, seed=seed,
        progress=lambda line: tell(f"training: {line}"),
    )  # fmt: skip
    rows = found.rows
    own = min(row.own for row in rows)
    order = "right" if not found.misplaced else "wrong"
    return (
        Line(
            "here", "training", f"seconds of an iteration of {len(rows)} plans of {MODEL} ({', '.join(PLANS)})",
            "the training world with times in service, drawn; 95 % intervals", "this machine", machine.name,
            machine.date, "out",
            "what is simulated rests on other iterations than those that it is held against, neighbours in time; ranks "
            f"had their cores for {own:.1%} of the time or more; where their intervals are apart, the plans' order "
            f"is {order}",
            "made now; `meshwright compare plan.json …` does it for plans of yours",
            Errors.of([100 * row.difference for row in rows], "%", [row.inside for row in rows]),
        ),
    )  # fmt: skip
