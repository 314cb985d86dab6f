"""What goes between processes and into files: worlds, results, policies by name, and what wrong ones say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.runtime.sharing import (
    Lost,
    Measured,
    PolicyChoice,
    RealSharing,
    RunOptions,
    Task,
    load_world_document,
    save_world,
)
from meshwright.runtime.sharing.documents import from_document, to_document
from meshwright.runtime.sharing.dozen import dozen
from meshwright.runtime.sharing.messages import Pause
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppFailure,
    AppView,
    Job,
    MachineFailure,
    SharedCluster,
    SharingWorld,
    Slowdown,
    baseline,
    simulate_reference,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 50), lease_s=st.one_of(st.just(math.inf), st.floats(1e-3, 1e9)),
    max_s=st.one_of(st.just(math.inf), st.floats(1.0, 1e12)), optimism=st.floats(1.0, 3.0),
    convention=st.sampled_from(["fluid", "slowest"]),
)  # fmt: skip
def test_a_world_comes_back_from_json_bit_for_bit(
    seed: int, lease_s: float, max_s: float, optimism: float, convention: Any
) -> None:
    world = dozen(seed, apps=4, lease_s=lease_s)
    curve = replace(world.apps[-1], jobs=(Job(0.1 + 0.2, 3, 2, optimism=optimism),) * 2, phases=world.apps[0].phases)
    odd = replace(curve, name='a "b"\n', kind="curve", believed_slowdown=Slowdown(1, 1.1, 1.2, 1.7))
    world = replace(
        world, apps=(*world.apps, odd), max_s=max_s, convention=convention, app_failures=(AppFailure(1, 1e6 / 3),),
        machine_failures=(MachineFailure(0, 1 / 3, math.inf),),
    )  # fmt: skip
    text = json.dumps(to_document(world), allow_nan=False)  # JSON that any reader takes
    assert from_document(SharingWorld, json.loads(text), "world") == world


def test_a_world_goes_through_a_file(tmp_path: Path) -> None:
    world = dozen(3)
    assert load_world_document(save_world(world, tmp_path / "world.json")) == world


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (3, "w.json: should be a mapping"),
        ({}, r"w.json: cluster: is missing"),
        ({"cluster": {"machines": []}, "apps": []}, "w.json: cluster: SharedCluster.machines: expected at least one"),
        (
            {"cluster": {"machines": [{"slots": 2, "rak": 1}]}, "apps": []},
            r"cluster.machines\[0\].rak: unknown key",
        ),
        (
            {"cluster": {"machines": [{"slots": 2}]}, "apps": [{"name": "a"}]},
            r"w.json: apps\[0\].arrival_s: is missing",
        ),
        ({"cluster": {"machines": [{"slots": 2}]}, "apps": [], "lease_s": "soon"}, r"lease_s: .*\(got 'soon'\)"),
        ({"cluster": {"machines": [{"slots": 2}]}, "apps": [], "lease_s": "nan"}, "lease_s: expected seconds"),
        (
            {"cluster": {"machines": [{"slots": 1}]}, "apps": [to_document(App.single("a", 0, 9, gpus=2, gang=2))]},
            "a gang of 2 tasks is larger than the cluster of 1 GPUs",
        ),
    ],
)
def test_what_is_wrong_in_a_document_is_one_line(document: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        from_document(SharingWorld, document, "w.json")
    assert "\n" not in str(caught.value)


def test_files_that_are_none_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.json: cannot be read: No such file"):
        load_world_document(tmp_path / "nothing.json")
    (tmp_path / "half.json").write_text("{")
    with pytest.raises(InputError, match=r"half\.json: no JSON"):
        load_world_document(tmp_path / "half.json")


def test_views_and_tasks_come_back() -> None:
    seen: list[AppView] = []

    class Watcher:
        name, preempts = "watcher", True

        def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
            seen.extend(apps)
            return baseline("srsf").assign(cluster, offered, apps)

    world = dozen(1, apps=5)
    simulate_reference(world, Watcher())
    assert any(v.lapsed for v in seen)
    for view in seen:
        assert from_document(AppView, json.loads(json.dumps(to_document(view))), "view") == view
    task = Task(world, PolicyChoice("themis", {"fairness": 0.5, "payments": False}), RunOptions(folder=Path("a/b")))
    assert from_document(Task, json.loads(json.dumps(to_document(task))), "task") == task


def test_a_result_comes_back_from_its_file(tmp_path: Path) -> None:
    world = dozen(2, apps=5)
    simulated = simulate_reference(replace(world, app_failures=(AppFailure(2, 900.0),)), Themis())
    measured = Measured((Pause(resumed=True, pause_s=0.1, save_s=0.01, load_s=0.02),), 0.5, 17, 3, 0.25)
    real = RealSharing.from_run(simulated, RunOptions(seed=4), measured, [Lost("app 2", 900.0, "killed by SIGKILL")])
    again = RealSharing.load(real.save(tmp_path / "r.json"))
    assert (again.world, again.policy, again.grants) == (real.world, real.policy, real.grants)
    assert (again.options, again.measured, again.lost) == (real.options, real.measured, real.lost)
    for column in ("start", "finish", "gpu_seconds", "contention", "completed", "placed"):
        np.testing.assert_array_equal(getattr(again, column), getattr(real, column))
    assert not again.completed[2]


@pytest.mark.parametrize("name", ["themis", *BASELINES])
def test_a_choice_makes_the_policy_that_it_names(name: str) -> None:
    world = dozen(5, apps=4)
    made, known = PolicyChoice(name).make(), Themis() if name == "themis" else baseline(name)
    assert made is not PolicyChoice(name).make()
    assert simulate_reference(world, made).grants == simulate_reference(world, known).grants


class Mine:
    """A policy of somebody's own."""

    preempts = False

    def __init__(self, name: str = "mine") -> None:
        self.name = name

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        return {}


def test_options_reach_the_policy() -> None:
    themis = PolicyChoice("themis", {"fairness": 0.25, "rounding": "floor"}).make()
    assert isinstance(themis, Themis)
    assert (themis.fairness, themis.rounding) == (0.25, "floor")
    blind = PolicyChoice("srsf", {"placement": "blind", "seed": 3}).make()
    world = dozen(5, apps=6)
    assert (
        simulate_reference(world, blind).grants
        == simulate_reference(world, baseline("srsf", placement="blind", seed=3)).grants
    )
    assert PolicyChoice(f"{__name__}:Mine", {"name": "ours"}).make().name == "ours"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("themsi", {}, "unknown sharing policy 'themsi'; did you mean 'themis'"),
        ("themis", {"fairnes": 0.5}, "policy themis: unknown option 'fairnes'; did you mean 'fairness'"),
        ("themis", {"name": "x"}, "policy themis: unknown option 'name'"),
        ("themis", {"fairness": 2.0}, r"in \[0, 1\] \(got 2.0\)"),
        ("themis", {"fairness": "much"}, r"Themis.fairness: .*got 'much'"),
        ("fifo", {"seeds": 1}, "policy fifo: unknown option 'seeds'; did you mean 'seed'"),
        ("no.such:Policy", {}, "policy: no.such:Policy: No module named 'no'; expected module:factory"),
        ("json:nothing", {}, "has no attribute 'nothing'"),
        ("math:pi", {}, "expected a class or function that makes a policy"),
        ("fractions:Fraction", {}, "what it makes is no policy: it has no name and no preempts and no assign"),
    ],
)
def test_choices_that_cannot_be_say_so(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PolicyChoice(name, options).make()
