"""Every family of planners: a regression planted into it is caught and told in words, a rebuilt equal one passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from meshwright import gate
from meshwright.planners import training as training_planners
from meshwright.planners.alpa import baselines
from meshwright.planners.alpa.inter import choose
from meshwright.planners.alpa.inter.search import Search
from meshwright.planners.collage.placement import placement_of
from meshwright.planners.graphpipe import planner as graphpipe
from meshwright.planners.megatron import options as search_options
from meshwright.planners.megatron import space as search_space
from meshwright.planners.pipedream import planner as pipedream
from meshwright.planners.piper import planner as piper
from meshwright.planners.stages.sequential.options import SequentialOptions
from meshwright.planners.terapipe import choose as terapipe
from meshwright.planners.themis import Themis
from meshwright.planners.vllm import planner as vllm_planner
from meshwright.planners.vllm import search as vllm
from meshwright.simulator import sharing
from meshwright.simulator.sharing.policy import baselines as policies
from meshwright.worlds.inference import solve as inference_solve
from meshwright.worlds.llm import solve as llm_solve
from meshwright.worlds.sharing import build as sharing_build
from meshwright.worlds.sharing import guard as sharing_guard
from meshwright.worlds.training import solve as training_solve

SUITE = gate.load_suite("standard")
BASELINE = gate.read_baseline(gate.default_baseline(SUITE), SUITE)
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    """Something wrong (or only rebuilt) in a planner, and what the gate must say of it.

    Parameters
    ----------
    plant : callable
        Does it.
    cases : tuple of str
        Cases that are run.
    caught : tuple of str
        Those of them that must fail; empty: all must pass.
    kind : str
        What the finding of the first must be.
    said : tuple of str
        What its lines must hold.
    """

    plant: Callable[[Patch], None]
    cases: tuple[str, ...]
    caught: tuple[str, ...] = ()
    kind: str = "worse"
    said: tuple[str, ...] = ()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No plan of another test is remembered."""
    for cache in (llm_solve._planned, training_solve._planned):
        cache.cache_clear()
    yield
    for cache in (llm_solve._planned, training_solve._planned):
        cache.cache_clear()


def with_microbatches_of_one(patch: Patch) -> None:
    """Alpa's stage DP without its term of the longest stage: Σ t + (B − 1) · max t of B = 1."""
    honest: Any = choose._solve

    def forgetful(table: Any, cost: Any, mask: Any, later: Any, cluster: Any, _microbatches: int, *rest: Any) -> Any:
        return honest(table, cost, mask, later, cluster, 1, *rest)

    patch.setattr(choose, "_solve", forgetful)


def without_memory(patch: Patch) -> None:
    """Alpa takes every stage for one that fits."""
    honest = Search._choice
    patch.setattr(Search, "_choice", lambda self, count, table, _bytes: honest(self, count, table, 1e18))


def unsharded_zero2(patch: Patch) -> None:
    """A baseline that forgets to cut gradients and optimiser states."""
    patch.setattr(baselines, "BASELINES", {**baselines.BASELINES, "zero2": baselines.BASELINES["data"]})


def whole_sequences(patch: Patch) -> None:
    """TeraPipe with slices of samples alone."""
    honest = terapipe._ways
    patch.setattr(terapipe, "_ways", lambda options, n, unit: list(honest(options, n, unit))[:1])


def uniform_slices(patch: Patch) -> None:
    """TeraPipe without its programme: slices that are alike."""
    honest = terapipe._ways
    patch.setattr(terapipe, "_ways", lambda o, n, unit: [w for w in honest(o, n, unit) if w[0] != "dp"])


def chains(patch: Patch) -> None:
    """GraphPipe that puts its stages in one line."""
    honest = graphpipe.GraphPipeOptions.of
    patch.setattr(graphpipe.GraphPipeOptions, "of", lambda said: replace(honest(said), topology="chain"))


def without_replicas(patch: Patch) -> None:
    """PipeDream whose stages have one device each."""
    honest = SequentialOptions.of
    patch.setattr(SequentialOptions, "of", lambda said: replace(honest(said), devices=(1,)))


def one_branch_after_another(patch: Patch) -> None:
    """Piper that sees no downsets but those of a line: parts of several branches never share a stage."""
    patch.setattr(piper, "differences", lambda costs, _states, _microbatch, _threshold: pipedream.runs(costs))


def search_without_memory(patch: Patch) -> None:
    """A search of configurations that does not look at memory."""
    honest = search_options.search
    patch.setattr(search_options, "search", lambda *said, **more: honest(*said, **{**more, "memory": 1e18}))


def search_without_intervals(patch: Patch) -> None:
    """One that tries no interleaved stages."""
    honest = search_options.search
    patch.setattr(search_options, "search", lambda *said, **more: honest(*said, **{**more, "interleave": 1}))


def first_candidate(patch: Patch) -> None:
    """vLLM's planner that stops after the first candidate."""
    honest = vllm.candidates
    patch.setattr(vllm, "candidates", lambda *said: list(honest(*said))[:1])


def fewest_devices_each(patch: Patch) -> None:
    """One that gives each model the fewest devices that serve it."""
    patch.setattr(vllm_planner, "split", lambda fronts, *_: [front.brackets[0] for front in fronts])


def all_take_part(patch: Patch) -> None:
    """Themis that skips the filter: all apps bid, not only the worst off."""
    honest = Themis.run_compiled
    patch.setattr(Themis, "run_compiled", lambda self, *said: honest(replace(self, fairness=0.0), *said))


def operator_by_operator(patch: Patch) -> None:
    """Collage that gives each operator to the backend on which it is fastest by itself."""
    honest = inference_solve.place

    def single(instance: Any, **said: Any) -> Any:
        alone = [k for k, match in enumerate(instance.matches) if len(match.nodes) == 1]
        found = honest(instance.only(alone), **said)
        return placement_of(instance, [alone[k] for k in found.matches], "collage-op")

    patch.setattr(inference_solve, "place", single)


def policy_for(name: str, planted: Callable[[], Any]) -> Callable[[Patch], None]:
    """A policy's place taken by another one."""

    def plant(patch: Patch) -> None:
        honest = sharing_build.policy_of

        def other(case: Any, *said: Any) -> Any:
            return planted() if case.planner.name == name else honest(case, *said)

        for module in (sharing_build, sharing_guard):
            patch.setattr(module, "policy_of", other)

    return plant


PLANTED = {
    "alpa forgets the longest stage": Planted(
        with_microbatches_of_one, ("alpa-slow-network", "alpa-experts"), ("alpa-slow-network",), "worse",
        ("iteration s", "one exact score", "stages"),
    ),
    "alpa forgets memory": Planted(
        without_memory, ("alpa-full-memory",), ("alpa-full-memory",), "infeasible", ("became infeasible",)
    ),
    "a baseline of Alpa forgets to shard": Planted(
        unsharded_zero2, ("zero2", "zero3"), ("zero2",), "worse", ("sharding",)
    ),
    "terapipe cuts no sequence": Planted(
        whole_sequences, ("terapipe-long-sequence",), ("terapipe-long-sequence",), "worse", ("slices",)
    ),
    "terapipe cuts alike": Planted(
        uniform_slices, ("terapipe-long-sequence",), ("terapipe-long-sequence",), "worse", ("slices",)
    ),
    "graphpipe makes chains": Planted(
        chains, ("graphpipe-full-memory", "graphpipe-branches"),
        ("graphpipe-full-memory", "graphpipe-branches"), "worse", ("stages (of",),
    ),
    "pipedream replicates nothing": Planted(
        without_replicas, ("pipedream-replicated-stages", "pipedream-no-room"), ("pipedream-replicated-stages",),
        "worse", ("stages (of",),
    ),
    "piper loses branches": Planted(
        one_branch_after_another, ("piper-slow-network", "piper-full-memory"),
        ("piper-slow-network",), "worse", ("stage",),
    ),
    "the search forgets memory": Planted(
        search_without_memory, ("search-full-memory",), ("search-full-memory",), "invalid", ("GiB of a device",)
    ),
    "the search forgets intervals": Planted(
        search_without_intervals, ("search-slow-network",), ("search-slow-network",), "worse",
        ("schedule interleaved_1f1b",),
    ),
    "vllm stops early": Planted(
        first_candidate, ("vllm-tight-tpot", "vllm-no-room"), ("vllm-tight-tpot",), "worse",
        ("attainment", "over 8 pairs", "instead of 1 x TP4"),
    ),
    "vllm splits no devices": Planted(
        fewest_devices_each, ("vllm-two-models",), ("vllm-two-models",), "worse", ("instead of",)
    ),
    "themis skips the filter": Planted(
        all_take_part, ("themis-listed-apps", "fifo"), ("themis-listed-apps",), "worse", ("apps end", "baseline keeps")
    ),
    "tiresias counts no service": Planted(
        policy_for("tiresias", lambda: policies.Greedy("tiresias", lambda view: view.app.arrival_s)),
        ("tiresias-listed-apps",), ("tiresias-listed-apps",), "worse", ("mean completion s", "apps end later"),
    ),
    "gandiva looks at no distance": Planted(
        policy_for("gandiva", lambda: sharing.baseline("gandiva", 1200.0, "blind", 0)),
        ("gandiva-listed-apps",), ("gandiva-listed-apps",), "worse", ("makespan s", "apps end later"),
    ),
    "collage fuses nothing": Planted(
        operator_by_operator, ("collage-dcgan", "single-backend-dcgan"), ("collage-dcgan",), "worse",
        ("latency", "operators elsewhere", "groups instead of"),
    ),
}  # fmt: skip


SLOW = {"alpa forgets memory"}
"""Where everything fits the search is a long one; "the longest stage" is caught in the same family."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PLANTED])
def test_a_planted_regression_is_caught(name: str, monkeypatch: Patch) -> None:
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    report = gate.regress(SUITE.only(planted.cases), BASELINE, only=planted.cases)
    assert tuple(case.case for case in report.failed) == planted.caught, gate.text(report)
    for case in report.failed:
        assert case.findings[0].kind == planted.kind
        lines = "\n".join([*(f.text for f in case.findings), *case.notes, case.plans])
        assert all(word in lines for word in planted.said), lines


def reference_engine(patch: Patch) -> None:
    """The policies as the SimPy model runs them: other code, the same decisions."""
    honest = sharing.simulate
    for module in (sharing, sharing_guard):
        patch.setattr(module, "simulate", lambda world, policy: honest(world, policy, engine="simpy"))


def one_table_for_all(patch: Patch) -> None:
    """Configurations laid out a few at a time."""
    patch.setattr(search_space, "CHUNK", 1 << 9)


def other_order(patch: Patch) -> None:
    """GraphPipe simulates its candidates from the last to the first; PipeDream and Piper, too, in one pass."""
    honest = graphpipe._promising
    patch.setattr(graphpipe, "_promising", lambda ways, most: list(reversed(honest(ways, most))))


def masks_reversed(patch: Patch) -> None:
    """Alpa goes through the restrictions of its stages from the last to the first."""
    honest = choose.stages_allowed
    patch.setattr(choose, "stages_allowed", lambda *said: list(reversed(honest(*said))))


def slices_reversed(patch: Patch) -> None:
    """TeraPipe begins with the programme, and then looks at equal slices."""
    honest = terapipe._ways
    patch.setattr(terapipe, "_ways", lambda *said: list(reversed(list(honest(*said)))))


def planners_by_another_name(patch: Patch) -> None:
    """PipeDream and Piper reached through a function that hands everything on."""
    honest = training_planners.training_planner

    def handed_on(name: str) -> Any:
        inner = honest(name)
        return lambda *said, **more: inner(*said, **more)

    patch.setattr(training_solve, "training_planner", handed_on)


def no_memory_of_brackets(patch: Patch) -> None:
    """vLLM's planner that asks for its candidates as a generator, and remembers no bracket."""
    honest = vllm.candidates
    patch.setattr(vllm, "candidates", lambda *said: iter(list(honest(*said))))


def by_programme(patch: Patch) -> None:
    """Collage's operator level as a mixed-integer programme, not as a search."""
    honest = inference_solve.place
    patch.setattr(inference_solve, "place", lambda instance: honest(instance, steps=1))


REBUILT = {
    "alpa": Planted(masks_reversed, ("alpa-slow-network", "inter-only", "equal-layer")),
    "terapipe": Planted(slices_reversed, ("terapipe-replicas",)),
    "graphpipe": Planted(other_order, ("graphpipe-branches",)),
    "pipedream and piper": Planted(planners_by_another_name, ("pipedream-embeddings", "piper-branches")),
    "search": Planted(one_table_for_all, ("search-full-memory",)),
    "vllm": Planted(no_memory_of_brackets, ("vllm-tight-tpot", "vllm-fewest-devices")),
    "collage": Planted(by_programme, ("collage-dcgan", "collage-dcgan-no-native")),
    "sharing": Planted(reference_engine, ("themis-listed-apps", "tiresias-listed-apps", "gandiva-listed-apps")),
}


@pytest.mark.parametrize("name", REBUILT)
def test_a_rebuilt_planner_that_decides_the_same_passes(name: str, monkeypatch: Patch) -> None:
    rebuilt = REBUILT[name]
    rebuilt.plant(monkeypatch)
    report = gate.regress(SUITE.only(rebuilt.cases), BASELINE, only=rebuilt.cases)
    assert report.ok, gate.text(report)
    assert {case.status for case in report.cases} <= {"same", "equal"}
