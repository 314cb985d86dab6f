"""The demo of the training world: a small GPT planned, simulated, and trained by the plan on this machine."""

from __future__ import annotations

from ...planners.training import training_planner
from ...profiles.graph import zoo_graph
from ...runtime.training import RunOptions, run_training
from ...simulator import Cluster
from ...simulator.training import simulate_training
from ...simulator.training.plan.words import seconds_text
from ..demo import DemoAsked, Shown
from .doors.run import with_measured

__all__ = ["demo"]

MODEL, BATCH, MICROBATCHES, ITERATIONS = "tiny-gpt", 16, 4, 5


def demo(asked: DemoAsked) -> Shown:
    """Plan, simulate, train, compare; the plan and a timeline are left in the folder.

    Raises
    ------
    InfeasibleError
        If the model does not fit so many devices.
    RunError
        If a process dies.
    """
    out, say = asked.out, asked.say
    say("Training: a small GPT in stages, a process for each device")
    graph = zoo_graph(MODEL)
    cluster = Cluster(1, asked.devices, "cpu-core")
    # One stage per device: what there is to see are stages, microbatches and bubbles.
    plan = training_planner("inter-only")(graph, cluster, global_batch=BATCH, microbatches=MICROBATCHES)
    plan.save(out / "plan-training.json")
    say(f"   {len(plan.stages)} stages, {plan.microbatches} microbatches, {plan.schedule}")
    run = run_training(
        plan, graph, seed=asked.seed, iterations=ITERATIONS, compare=True, options=RunOptions(timeout_s=180.0)
    )
    apart = run.difference
    first, last = run.losses[0], run.losses[-1]
    say(f"   {asked.devices} processes, loss {first:.4g} to {last:.4g} in {ITERATIONS} iterations")
    if apart is not None:
        say(f"   gradients are {apart.gradient:.0e} from those of one device, relative")
    again = simulate_training(with_measured(plan, run))
    again.timeline().to_chrome(out / "timeline-training.json")
    say(
        f"   an iteration takes {seconds_text(run.median_s)}; simulated with the stages' measured times "
        f"{seconds_text(again.seconds)} ({again.seconds / run.median_s - 1:+.0%})"
    )
    document = {
        "stages": len(plan.stages),
        "losses": list(run.losses),
        "gradient_difference": None if apart is None else apart.gradient,
        "seconds": run.median_s,
        "simulated_s": again.seconds,
    }
    return Shown(document, written=(out / "plan-training.json", out / "timeline-training.json"))
