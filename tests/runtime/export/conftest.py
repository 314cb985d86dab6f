"""Plans that the export tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from meshwright.profiles import ModelProfile
from meshwright.simulator import Cluster, Group, ParallelConfig, Placement, Plan
from meshwright.simulator.serving.plan.file import ModelEntry, PlannerEntry, Serving

HOSTILE = (
    "a; rm -rf /",
    "$(touch pwned)",
    "`touch pwned`",
    "A",
    "a",
    "quote\"s and 'more'",
    "line\nbreak: yes",
    "../../etc/passwd",
    "--help",
    "${HOME}",
    "ünï/çode",
    "x" * 300,
)
"""Names that are data for us and would be code, options, paths or too much for somebody else."""


def _make_plan(
    groups: list[Group],
    *,
    architecture: str = "cpu-gpt-tiny",
    nodes: int = 1,
    devices_per_node: int = 4,
    device: str = "cpu-core",
    max_batch: int = 1,
) -> Plan:
    """A plan of models of one architecture, each 1 ms per stage."""
    names = list(dict.fromkeys(name for group in groups for name in group.models))
    configs = {group.config for group in groups}
    profiles = {
        name: ModelProfile.from_stages(
            name,
            {c: {b: [0.001] * c.pp for b in (1, 2, 4, 8)} for c in configs},
            weight_bytes={c: [1e6] * c.pp for c in configs},
        )
        for name in names
    }
    plan = Plan.of(
        Cluster(nodes, devices_per_node, device),
        Placement(groups),
        profiles,
        planner=PlannerEntry(name="test"),
        serving=Serving(max_batch=max_batch),
    )
    models = tuple(ModelEntry(**{**dict(m), "architecture": architecture}) for m in plan.models)
    return plan.model_copy(update={"models": models})


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., Plan]:
    """Makes plans; see `_make_plan`."""
    return _make_plan


@pytest.fixture(scope="session")
def hostile() -> tuple[str, ...]:
    """Names that must stay data."""
    return HOSTILE


@pytest.fixture(scope="session")
def pipelines() -> Plan:
    """Two equal 2-stage pipelines on two nodes of GPUs, one split device pair, one single device."""
    groups = [
        Group(ParallelConfig(1, 2), ["a", "b"], (0, 1)),
        Group(ParallelConfig(1, 2), ["a", "b"], (4, 5)),
        Group(ParallelConfig(2, 1), ["b"], (2, 3)),
        Group(ParallelConfig(1, 1), ["c"], (6,)),
    ]
    return _make_plan(groups, nodes=2, device="a100-80gb", max_batch=4)
