"""Plan files: bytes, schema, words, and every bad input with its line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InfeasibleError, InputError
from meshwright.profiles import ModelProfile
from meshwright.simulator import Cluster, Group, ParallelConfig, Placement, Plan, simulate
from meshwright.simulator.serving.plan.file import PlannerEntry, Serving

ROOT = Path(__file__).resolve().parents[3]
ONE, PIPE = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    name: ModelProfile.from_stages(
        name,
        {ONE: {1: [0.4], 2: [0.6], 4: [1.0]}, PIPE: {1: [0.2, 0.25], 2: [0.3, 0.35]}},
        weight_bytes={ONE: [3e9], PIPE: [1.5e9, 1.5e9]},
        hop_s={PIPE: 0.001},
    )
    for name in ("a", "b", "c")
}
PLACEMENT = Placement([Group(PIPE, ["a", "b"]), Group(ONE, ["c"])])


@pytest.fixture(scope="module")
def trace() -> traces.Trace:
    return traces.gamma(rate=2.0, cv=2.0, duration=60.0, models=["a", "b", "c"], slo=2.0, seed=0)


@pytest.fixture(scope="module")
def plan(trace: traces.Trace) -> Plan:
    return Plan.of(
        Cluster(1, 4),
        PLACEMENT,
        PROFILES,
        planner=PlannerEntry(name="hand", options={"beam": 2}, seed=7),
        trace=trace,
        serving=Serving(max_batch=2),
        predicted={"attainment": 0.97},
        source="Gamma",
    )


def test_round_trip_is_equal_and_byte_identical(plan: Plan, tmp_path: Path) -> None:
    path = plan.save(tmp_path / "plan.json")
    again = Plan.load(path)
    assert again == plan
    assert again.save(tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert again.placement == PLACEMENT
    assert again.cluster_spec == Cluster(1, 4)


def test_reread_plan_gives_the_same_simulation(plan: Plan, trace: traces.Trace) -> None:
    """What the plan carries of the profiles is enough for its own placement."""
    again = Plan.from_json(plan.to_json())
    direct = simulate(PLACEMENT, trace, PROFILES)
    reread = simulate(again.placement, trace, again.planned_profiles())
    np.testing.assert_array_equal(reread.finish, direct.finish)
    assert np.isfinite(direct.finish).any()


def test_stages_up_to_the_largest_batch_of_the_plan(plan: Plan) -> None:
    profiles = plan.planned_profiles()
    assert profiles["c"].batches(ONE) == (1, 2)  # not 4: the plan batches up to 2
    assert profiles["a"].configs == (PIPE,)
    assert profiles["a"].hop_s(PIPE) == 0.001
    assert profiles["a"].weight_bytes(PIPE) == (1.5e9, 1.5e9)


def test_planned_profiles_missing_are_named(plan: Plan) -> None:
    data = json.loads(plan.to_json())
    data["models"][2]["stages"] = {}
    with pytest.raises(InputError, match=r"'c' has no stage latencies for op1pp1.*give a profile"):
        Plan.from_json(json.dumps(data)).planned_profiles()


def test_committed_schema_is_the_models(plan: Plan) -> None:
    committed = json.loads((ROOT / "docs/schema/plan.schema.json").read_text())
    assert committed == Plan.json_schema(), "run: meshwright new serving --plan-schema > docs/schema/plan.schema.json"
    jsonschema.Draft202012Validator.check_schema(committed)
    jsonschema.validate(json.loads(plan.to_json()), committed)
    jsonschema.validate(json.loads((ROOT / "examples/plan.json").read_text()), committed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cluster", "nodes"), 0),
        (("cluster", "node"), 1),
        (("groups", 0, "op"), "2"),
        (("serving", "dispatch"), "random"),
        (("version",), 2),
        (("models", 0, "stages", "pp2"), {"latency_s": {"1": [1.0]}, "weight_bytes": [1.0]}),
    ],
)
def test_schema_and_reader_refuse_the_same(plan: Plan, path: tuple[str | int, ...], value: object) -> None:
    data = json.loads(plan.to_json())
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, Plan.json_schema())
    with pytest.raises(InputError):
        Plan.from_json(json.dumps(data))


def test_example_is_readable_and_written_by_us() -> None:
    text = (ROOT / "examples/plan.json").read_text(encoding="utf-8")
    assert Plan.from_json(text).to_json() == text


def test_explain_says_who_what_and_for_what(plan: Plan) -> None:
    lines = plan.explain().splitlines()
    assert lines[0].startswith("hand ")
    assert "seed 7" in lines[0]
    assert "3 models on 1 node(s) x 4 v100-16gb" in lines[0]
    assert lines[1].startswith("traffic: ")
    assert lines[1].endswith("Gamma")
    assert "SLO: 2 s" in lines
    assert "serving: shortest_queue, admission on, batches up to 2" in lines
    assert "group 0: op1pp2 on devices 0-1: a, b" in lines
    assert "idle devices: 1" in lines
    assert "attainment: 0.97" in lines


def test_explain_names_models_without_a_replica(trace: traces.Trace) -> None:
    placement = Placement([Group(ONE, ["a"])])
    plan = Plan.of(Cluster(1, 1), placement, PROFILES, planner=PlannerEntry(name="x"), trace=trace)
    assert "models without a replica (all their requests are rejected): b, c" in plan.explain()


def test_plan_for_another_cluster(plan: Plan) -> None:
    plan.validate_for(Cluster(1, 4), PROFILES)
    with pytest.raises(InputError, match=r"made for devices of type 'v100-16gb', the cluster has 'a100-40gb'"):
        plan.validate_for(Cluster(1, 4, "a100-40gb"), PROFILES)
    with pytest.raises(InputError, match=r"device 2 does not exist; the cluster has 2"):
        plan.validate_for(Cluster(1, 2), PROFILES)


def test_plan_that_does_not_fit_is_refused() -> None:
    heavy = {"a": ModelProfile.from_stages("a", {ONE: {1: [0.1]}}, weight_bytes={ONE: [14 * 2**30]})}
    with pytest.raises(InfeasibleError, match=r"14\.00 GiB"):
        Plan.of(Cluster(1, 1), Placement([Group(ONE, ["a"])]), heavy, planner=PlannerEntry(name="x"))


def test_nan_metric_is_refused_when_made() -> None:
    with pytest.raises(InputError, match=r"predicted\.latency: .*finite.*nan"):
        Plan.of(Cluster(1, 4), PLACEMENT, PROFILES, planner=PlannerEntry(name="x"), predicted={"latency": float("nan")})


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        Plan.from_json(text, "p.json")
    return str(caught.value)


def replaced(plan: Plan, *pairs: tuple[str, str]) -> str:
    text = plan.to_json()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.99])
def test_truncated_file(plan: Plan, fraction: float) -> None:
    text = plan.to_json()
    message = error_of(text[: int(fraction * len(text))])
    assert message.startswith("p.json:")
    assert "not JSON" in message
    assert "cut off?" in message


def test_not_json_names_line_and_column() -> None:
    assert error_of('{\n "format": meshwright}').startswith("p.json:2: not JSON: Expecting value (column 12)")


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "{}", '{"format": "other", "version": 1}'])
def test_json_that_is_no_plan(text: str) -> None:
    assert "not a Meshwright plan" in error_of(text)


@pytest.mark.parametrize("version", ["2", '"1"', "null", "true", "1.0"])
def test_wrong_version(plan: Plan, version: str) -> None:
    message = error_of(replaced(plan, ('"version": 1,', f'"version": {version},')))
    assert "version: this Meshwright reads version 1 (got" in message


def test_unknown_key_names_the_nearest(plan: Plan) -> None:
    text = replaced(plan, ('"dispatch"', '"dispach"'))
    assert (
        error_of(text) == f"p.json:{line_of(text, 'dispach')}: serving.dispach: unknown key; did you mean 'dispatch'?"
    )


def test_unknown_key_far_from_all_lists_them(plan: Plan) -> None:
    assert "unknown key; known: op, pp, devices" in error_of(replaced(plan, ('"op": 1', '"op": 1, "xyzzy": 1')))


def test_device_twice(plan: Plan) -> None:
    text = replaced(plan, ('"devices": [2]', '"devices": [0]'))
    expected = "groups[1].devices[0]: device 0 belongs to groups[0] already; a device has one group"
    assert error_of(text) == f"p.json:{line_of(text, '[0]')}: {expected}"


def test_device_twice_in_one_group(plan: Plan) -> None:
    assert "device 0 belongs to groups[0] already" in error_of(
        replaced(plan, ('"devices": [0, 1]', '"devices": [0, 0]'))
    )


@pytest.mark.parametrize("device", [-1, 4])
def test_unknown_device(plan: Plan, device: int) -> None:
    message = error_of(replaced(plan, ('"devices": [2]', f'"devices": [{device}]')))
    assert f"groups[1].devices[0]: device {device} does not exist; the cluster has 0 … 3" in message


def test_too_few_devices_for_the_configuration(plan: Plan) -> None:
    message = error_of(replaced(plan, ('"devices": [0, 1]', '"devices": [0]')))
    assert "groups[0].devices: op1pp2 needs 2 devices (got 1)" in message


def test_unknown_model(plan: Plan) -> None:
    message = error_of(replaced(plan, ('"models": ["c"]', '"models": ["z"]')))
    assert "groups[1].models[0]: unknown model 'z'; the plan lists a, b, c" in message


def test_model_listed_twice(plan: Plan) -> None:
    message = error_of(replaced(plan, ('"name": "b"', '"name": "a"')))
    assert "models[1].name: 'a' is models[0] already" in message


def test_model_twice_in_a_group(plan: Plan) -> None:
    assert "'a' is in this group twice" in error_of(replaced(plan, ('["a", "b"]', '["a", "a"]')))


def test_stage_count_must_be_the_configurations(plan: Plan) -> None:
    message = error_of(replaced(plan, ('"1": [0.2, 0.25]', '"1": [0.2]')))
    assert "models[0].stages.op1pp2.latency_s.1: expected 2 stages (got 1)" in message


@pytest.mark.parametrize("starts", ["[0]", "[1, 2]", "[0, 0]", "[2, 0]"])
def test_partition_must_rise_from_zero(plan: Plan, starts: str) -> None:
    message = error_of(replaced(plan, ('"partition": {}', f'"partition": {{"a": {starts}}}')))
    assert "groups[0].partition.a: expected 2 rising first layers from 0" in message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity(plan: Plan, number: str) -> None:
    assert "predicted.attainment: should be a finite number" in error_of(replaced(plan, ("0.97", number)))
    assert "planner.options: NaN or infinity in option 'beam'" in error_of(
        replaced(plan, ('"beam": 2', f'"beam": [1, {{"x": {number}}}]'))
    )


@pytest.mark.parametrize("value", ["true", '"1"', "1.5", "null"])
def test_wrong_types_are_not_coerced(plan: Plan, value: str) -> None:
    assert "groups[0].op: should be a whole number" in error_of(replaced(plan, ('"op": 1', f'"op": {value}')))


def test_duplicate_key_is_an_error(plan: Plan) -> None:
    assert "nodes: this key stands twice in one object" in error_of(
        replaced(plan, ('"nodes": 1', '"nodes": 1, "nodes": 2'))
    )


def test_all_errors_of_a_file_at_once_each_with_its_line(plan: Plan) -> None:
    text = replaced(
        plan,
        ('"nodes": 1', '"nodes": 0'),
        ('"dispatch": "shortest_queue"', '"dispatch": "random"'),
        ('"devices": [2]', '"devices": [0]'),
        ('"models": ["c"]', '"models": ["z"]'),
        ("0.97", "NaN"),
    )
    lines = error_of(text).splitlines()
    assert len(lines) == 5
    for part, where in {
        '"nodes"': "cluster.nodes", "random": "serving.dispatch", "[0]": "groups[1].devices[0]",
        '["z"]': "groups[1].models[0]", "NaN": "predicted.attainment",
    }.items():  # fmt: skip
        assert any(line.startswith(f"p.json:{line_of(text, part)}: {where}: ") for line in lines), (where, lines)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(InputError):
        Plan.from_json("[" * 100_000)


def test_missing_file_folder_and_binary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.json: cannot read the plan: No such file"):
        Plan.load(tmp_path / "no.json")
    with pytest.raises(InputError, match="cannot read the plan: Is a directory"):
        Plan.load(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        Plan.load(tmp_path / "bytes.json")


def test_hostile_values_stay_data(plan: Plan) -> None:
    """A plan from a stranger is parsed, never evaluated."""
    text = replaced(plan, ('"source": "Gamma"', "\"source\": \"__import__('os').system('false')\""))
    assert Plan.from_json(text).workload is not None
    assert "__import__" in Plan.from_json(text).explain()
