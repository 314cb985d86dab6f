"""Everything of the public face shows itself on one line, and in a small table that is well-formed and escaped."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import matplotlib.figure
import meshwright
import numpy as np
import pydantic
import pytest
from meshwright import profiles, simulator, studies, traces
from meshwright.profiles.graph import build_graph
from meshwright.profiles.llm import ConstantCost, decoder
from meshwright.reprs import WIDTH, Shown, html_table, one_line, value_text
from meshwright.simulator import llm, sharing, training
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.summary import Figure, Summary
from meshwright.worlds import WORLDS, Case
from meshwright.worlds.cases import build
from meshwright.worlds.door import Answer, Asked
from meshwright.worlds.faces import Planned
from meshwright.worlds.inference.result import InferenceResult
from meshwright.worlds.registry import names, open_world

EXAMPLES = Path(meshwright.__file__).parent / "examples"

FACES = (
    "traces",
    "profiles",
    "simulator",
    "planners",
    "runtime",
    "studies",
    "worlds",
    "gate",
    "reproduce",
    "simulator.serving",
    "simulator.llm",
    "simulator.training",
    "simulator.sharing",
    "profiles.llm",
    "profiles.graph",
    "planners.alpa",
    "planners.alpaserve",
    "planners.collage",
    "planners.graphpipe",
    "planners.megatron",
    "planners.pipedream",
    "planners.piper",
    "planners.terapipe",
    "planners.themis",
    "planners.vllm",
    "runtime.export",
    "runtime.llm",
    "runtime.serving",
    "runtime.sharing",
    "runtime.training",
)


def public_classes() -> list[type]:
    found: dict[type, None] = {}
    for face in FACES:
        room = importlib.import_module(f"meshwright.{face}")
        for name in getattr(room, "__all__", ()):
            one = getattr(room, name)
            if isinstance(one, type) and one.__module__.startswith("meshwright."):
                found[one] = None
    return list(found)


@pytest.mark.parametrize("kind", public_classes(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_public_records_are_shown_on_one_line(kind: type) -> None:
    """What holds columns or entries says how many there are; what a decorator or pydantic would write has no end."""
    if not (dataclasses.is_dataclass(kind) or issubclass(kind, pydantic.BaseModel)) or issubclass(kind, Exception):
        pytest.skip("no record")
    if kind is Case:
        pytest.skip("a base without fields of its own")
    assert issubclass(kind, Shown), f"{kind.__name__}: class {kind.__name__}(Shown)"
    assert kind.__repr__ is Shown.__repr__, f"{kind.__name__}: say repr=False to the dataclass decorator"


class Markup(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def serving_result() -> simulator.SimulationResult:
    config = simulator.ParallelConfig(1, 1)
    known = {"a": profiles.ModelProfile.from_stages("a", {config: {1: [0.1]}})}
    trace = traces.poisson(rate=8.0, duration=20.0, models=["a"], slo=0.5, seed=0)
    return simulator.simulate(simulator.Placement([simulator.Group(config, ["a"])]), trace, known)


def llm_result() -> llm.LLMResult:
    trace = llm.LLMTrace(
        arrival=np.arange(20) * 0.1, prompt_tokens=np.full(20, 30), output_tokens=np.full(20, 10)
    )  # fmt: skip
    return llm.simulate_llm(trace, config={"num_blocks": 100, "block_size": 16}, cost=ConstantCost(0.01))


def test_a_fleet_is_summed_up_as_results_are() -> None:
    trace = llm.LLMTrace(
        arrival=np.arange(20) * 0.1, prompt_tokens=np.full(20, 30), output_tokens=np.full(20, 10)
    )  # fmt: skip
    said = llm.SimulateOptions(faults=llm.Faults((llm.Fault(engine=0, at_s=0.05, repair_s=1.0),), load_s=0.5))
    config = {"num_blocks": 100, "block_size": 16}
    fleet = llm.simulate_llm(trace, config=config, cost=ConstantCost(0.01), engines=2, options=said).fleet
    assert fleet is not None
    summary = fleet.summary()
    assert isinstance(summary, Summary)
    assert summary["deaths"] == 1.0
    assert all(figure.says for figure in summary.figures)
    assert repr(fleet) == "FleetReport(2 both; 20 requests, 1 deaths, 1 retries)"
    assert Markup(fleet._repr_html_()).text.startswith("FleetReport(")


def sharing_result() -> sharing.SharingResult:
    apps = sharing.workload1(sharing.WorkloadOptions(apps=4))
    world = sharing.SharingWorld(cluster=sharing.themis_testbed(), apps=apps)
    return sharing.simulate(world, sharing.baseline("gandiva"), engine="simpy")


def training_plan() -> training.TrainingPlan:
    stage = {
        "forward_s": 1.0, "backward_input_s": 1.5, "backward_weight_s": 0.5, "reduce_s": 0.0, "update_s": 0.0,
        "state_bytes": 4e9, "activation_bytes": 1e9, "work_bytes": 5e8, "flops": 2e12, "logical": (1, 8),
    }  # fmt: skip
    return training.TrainingPlan.of(
        simulator.Cluster(nodes=2, devices_per_node=8, device="v100-16gb"),
        model=training.ModelEntry(name="hand-made"), global_batch=32, microbatches=8,
        meshes=tuple(training.MeshEntry(hosts=1, devices=8, first_host=h) for h in range(2)),
        stages=tuple(training.StageEntry(mesh=s, first=s, last=s + 1, **stage) for s in range(2)),
        planner=PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
    )  # fmt: skip


def inference_result() -> InferenceResult:
    case = meshwright.case(
        "inference", model="dcgan", planner="collage-op", costs=str(EXAMPLES / "dcgan-costs.json"),
        backends=["torch-onednn", "torch-jit"],
    )  # fmt: skip
    return case.plan(again=False).simulate()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(scope="module")
def results() -> dict[str, object]:
    trained = training.simulate_training(training_plan())
    found = {
        "serving": serving_result(), "llm": llm_result(), "sharing": sharing_result(), "training": trained,
        "inference": inference_result(),
    }  # fmt: skip
    assert list(found) == list(WORLDS)
    return found


def objects(results: dict[str, object]) -> dict[str, object]:
    served = results["serving"]
    shared = results["sharing"]
    assert isinstance(served, simulator.SimulationResult)
    assert isinstance(shared, sharing.SharingResult)
    known = profiles.load("alpaserve-v100")
    graph = build_graph("gpt3-350m")
    return {
        **results,
        **{f"summary of {name}": result.summary() for name, result in results.items()},  # type: ignore[attr-defined]
        "trace": served.trace,
        "placement": served.placement,
        "timeline": served.timeline(),
        "profile set": known,
        "profile": known["bert-1.3b"],
        "stage profile": next(iter(known["bert-1.3b"].stages.values())),
        "plan": simulator.Plan.load(EXAMPLES / "plan.json"),
        "entry of a plan": simulator.Plan.load(EXAMPLES / "plan.json").groups[0],
        "graph": graph,
        "operator": graph.operators[3],
        "decoder": decoder("opt-13b"),
        "cluster": simulator.Cluster(nodes=1, devices_per_node=8, device="v100-16gb"),
        "device": profiles.device("a100-40gb"),
        "shared world": shared.world,
        "app": shared.world.apps[0],
        "shared cluster": shared.world.cluster,
        "training plan": training_plan(),
        "program": training.make_program("1f1b", 4, 64),
        "windows": traces.fit_gamma(served.trace, window=5.0),
        "points of a study": studies.Outcome(metrics={f"metric {k}": float(k) for k in range(99)}),
    }


def test_objects_have_one_line_and_a_table(results: dict[str, object]) -> None:
    for name, one in objects(results).items():
        line = repr(one)
        assert "\n" not in line, name
        assert len(line) <= WIDTH <= 200, name
        assert line.startswith(f"{type(one).__name__}("), name
        page = Markup(one._repr_html_())  # type: ignore[attr-defined]
        assert page.seen[0] == "table", name
        assert len(page.text) < 20_000, name


def cases() -> dict[str, Case]:
    """The sample of every world."""
    worlds = [open_world(name) for name in names()]
    return {world.name: build(world, {}, world.sample) for world in worlds}


@pytest.mark.parametrize("name", names())
def test_what_goes_through_the_doors_of_every_world_has_one_line(name: str) -> None:
    """Cases, their sections, options, answers, plans with their case: nobody's screen fills with a case file."""
    world, case = open_world(name), cases()[name]
    sections = [getattr(case, field) for field in type(case).model_fields]
    options = [door.options() for door in world.doors.values()]
    answer = Answer("text\n" * 1000, {"plan": [0] * 10_000}, value=case)
    shared = case.plan() if name == "sharing" else Planned(world, simulator.Plan.load(EXAMPLES / "plan.json"), case)
    asked = Asked((case,), {"plan": shared.file})
    parts = [part for part in sections if isinstance(part, pydantic.BaseModel)]
    for one in (case, *parts, *options, answer, asked, shared, *world.doors.values()):
        line = repr(one)
        assert "\n" not in line
        assert len(line) <= WIDTH, line
        assert line.startswith(f"{type(one).__name__}(")
        assert Markup(one._repr_html_()).seen  # type: ignore[union-attr]
    assert any(f"{path}={value!r}" in repr(case) for path, value in world.sample.items())


def test_results_of_every_world_have_one_face(results: dict[str, object]) -> None:
    for name, result in results.items():
        summary = result.summary()  # type: ignore[attr-defined]
        assert isinstance(summary, Summary), name
        assert all(figure.says for figure in summary.figures), name
        assert str(summary).count("\n") == len(summary)
        assert summary.to_frame()["value"].to_dict() == pytest.approx(summary.to_dict(), nan_ok=True)
        rows = len(result.program) if isinstance(result, training.TrainingResult) else len(result)  # type: ignore[arg-type]
        assert len(result.to_frame()) == rows, name  # type: ignore[attr-defined]
        assert isinstance(result.plot(), matplotlib.figure.Figure), name  # type: ignore[attr-defined]
        if name != "training":  # an iteration has no SLO; a NaN there would be averaged by somebody
            assert 0.0 <= result.attainment <= 1.0, name  # type: ignore[attr-defined]
        assert hasattr(result, "attainment") is (name != "training")
        assert result.goodput >= 0.0, name  # type: ignore[attr-defined]


def test_llm_result_is_judged_by_its_own_limits_and_by_others() -> None:
    result = llm_result()
    strict = result.under(ttft=0.009)
    assert (result.attainment, strict.attainment) == (1.0, 0.0)
    assert result.attainment(ttft=0.009) == 0.0
    assert strict.attainment() == 1.0  # called, it forgets the result's own
    assert "attainment" not in result.summary()
    assert strict.summary()["attainment"] == 0.0
    with pytest.raises(meshwright.InputError, match="limits > 0"):
        result.under(tpot=0.0)


def test_attainment_of_sharing_counts_failed_apps() -> None:
    result = sharing_result()
    fair = int((result.rho <= 1.0 + 1e-9).sum())
    assert result.attainment == fair / 4
    failed = dataclasses.replace(result, completed=np.zeros(4, dtype=bool))
    assert failed.attainment == 0.0
    assert failed.goodput == 0.0


def test_long_values_are_cut_and_names_are_escaped() -> None:
    assert len(one_line("Thing", "x" * 1000)) == WIDTH
    assert value_text(np.zeros((3, 4))) == "float64[3 x 4]"
    assert value_text(tuple(range(100))) == "<100 items>"
    assert value_text({"a": 1}) == "{'a': 1}"
    assert value_text("two\nlines") == "'two lines'"
    evil = "<script>alert('&')</script>"
    table = html_table(evil, [(evil, evil)])
    page = Markup(table)
    assert "script" not in page.seen
    assert page.text == evil * 3
    trace = traces.Trace(arrival=[0.0], model=[0], models=(evil,), slo=[1.0])
    assert "script" not in Markup(trace._repr_html_()).seen


def test_secret_fields_stay_unsaid() -> None:
    @dataclasses.dataclass(frozen=True, repr=False)
    class Door(Shown):
        name: str
        token: str = dataclasses.field(default="", repr=False)

    assert repr(Door("a", "hidden")) == "Door(name='a')"
    assert "hidden" not in Door("a", "hidden")._repr_html_()


def test_summaries_refuse_two_figures_of_one_name() -> None:
    with pytest.raises(meshwright.InputError, match="'a'"):
        Summary("x", [Figure("a", 1.0), Figure("a", 2.0)])


QUIET = """
import sys
from meshwright import profiles, simulator, traces
config = simulator.ParallelConfig(1, 1)
known = {"a": profiles.ModelProfile.from_stages("a", {config: {1: [0.1]}})}
trace = traces.poisson(rate=8.0, duration=5.0, models=["a"], slo=0.5, seed=0)
result = simulator.simulate(simulator.Placement([simulator.Group(config, ["a"])]), trace, known, engine="simpy")
before = set(sys.modules)
for one in (trace, result, result.placement, result.summary(), known["a"]):
    repr(one), one._repr_html_()
heavy = {m.split(".")[0] for m in set(sys.modules) - before} & {"pandas", "matplotlib", "torch", "numba", "pyarrow"}
print(sorted(heavy))
"""


def test_showing_loads_nothing_heavy() -> None:
    told = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


LIGHT = """
import sys
import meshwright
names = dir(meshwright)
print(sorted(m for m in sys.modules if m.startswith("meshwright.")), "numpy" in sys.modules, len(names))
"""


def test_import_is_light_and_dir_lists_the_face() -> None:
    told = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("[] False")
    listed = set(dir(meshwright))
    assert {"case", "traces", "profiles", "simulator", "planners", "runtime", "studies", "InputError"} <= listed
    space = SimpleNamespace(**{name: getattr(meshwright, name) for name in listed})
    assert space.InputError is meshwright.errors.InputError
    with pytest.raises(AttributeError, match="it has InfeasibleError"):
        meshwright.simulatr  # noqa: B018
