"""Study files: what they say, and every bad one with its line, all errors at once."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from meshwright import studies
from meshwright.errors import InputError
from meshwright.studies import Point, Study
from meshwright.studies.file.schema import schema, schema_text
from meshwright.worlds import world

ROOT = Path(__file__).resolve().parents[3]
BASE = """\
study: 1
name: test
cluster: {devices: 8}
models: S1
workload: {rate: 10, duration: 20, slo_scale: 5}
"""


def study(text: str = "", base: str = BASE) -> Study:
    return Study.from_text(base + text, "s.yaml")


def refused(text: str, base: str = BASE) -> list[str]:
    with pytest.raises(InputError) as caught:
        study(text, base)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # an axis or field that does not exist
        ("axes: {devces: [1]}", "s.yaml:6: axes.devces: no field 'devces'; did you mean 'devices'?"),
        ("axes:\n  cluster.devise: [1]", "s.yaml:7: axes.cluster.devise: no field 'cluster.devise'; did you mean"),
        ("axes: {Rate: [1]}", "did you mean 'rate'?"),
        ("axes: {zzzzzz: [1]}", "no field 'zzzzzz'; fields: seed, cluster.devices, "),
        ("axes: {devices.big: [1]}", "no field 'devices.big'"),
        ("axes: {cluster: [1]}", "'cluster' is a section; name a field of it: cluster.devices, "),
        ("axes: {planner.name: [a]}", "planners are compared by listing them under planners:"),
        ("axes: {replications: [1]}", "no field 'replications'"),
        ("replication: 3", "s.yaml:6: replication: unknown key; did you mean 'replications'?"),
        ("planner: alpaserve", "planner: unknown key; did you mean 'planners'?"),
        ("worklod: {rate: 3}", "worklod: unknown key; did you mean 'workload'?"),
        ("devices: 3", "devices: unknown key here; it belongs under cluster:"),
        ("serving: {rate_scale: 2}", "serving.rate_scale: unknown key here; it belongs under workload:"),
        ("serving: {max_btch: 2}", "serving.max_btch: unknown key; did you mean 'max_batch'?"),
        # axes
        ("axes: {devices: []}", "axes.devices: an axis without values makes an empty grid"),
        ("axes: {devices: }", "axes.devices: should be a list of values, or a range such as {from: 1, to: "),
        ("axes: {devices: 4}", "(got 4)"),
        ("axes: [devices]", "axes: should be a mapping (got ['devices'])"),
        ("axes: {devices: [4, 0]}", "axes.devices[1]: should be greater than 0 (got 0)"),
        ("axes:\n  devices:\n  - 4\n  - four", "s.yaml:9: axes.devices[1]: should be a whole number (got 'four')"),
        ("axes: {devices: [4, 8.0]}", "axes.devices[1]: should be a whole number (got 8.0)"),
        ("axes: {rate: [true]}", "axes.rate[0]: should be a number (got True)"),
        ("axes: {dispatch: [shortest]}", "axes.dispatch[0]: should be 'shortest_queue', 'earliest_finish' or 'earl"),
        ("axes: {memory: [13 GX]}", "axes.memory[0]: expected bytes, such as 13 GiB"),
        ("axes: {split: [{power_law: x}]}", "axes.split[0].power_law: should be a number (got 'x')"),
        ("axes: {devices: [4, 4]}", "axes.devices[1]: stands twice on this axis (got 4, as value 1 is)"),
        ("axes: {rate: [4, 4.0]}", "axes.rate[1]: stands twice"),
        ("axes: {memory: [1 GiB, 1073741824]}", "axes.memory[1]: stands twice"),
        ("axes: {devices: [4], cluster.devices: [5]}", "'cluster.devices' and 'devices' are the same field"),
        ("axes: {options: [{}], options.a: [5]}", "'options.a' and 'options' are the same field"),
        ("axes: {trace: [a.csv]}", "axes.trace[0]: workload: give one of rate (generated traffic) and trace (a file)"),
        ("axes: {slo: [0.5]}", "axes.slo[0]: workload: give one of slo (seconds) and slo_scale"),
        ("axes: {seed: [1, 2]}\nreplications: 2", "s.yaml:7: replications: seeds are an axis already"),
        # ranges
        ("axes: {rate: {from: 1, to: 9}}", "axes.rate: a range needs points or step: {from: 1.0, to: 9.0, points: 5}"),
        ("axes: {rate: {from: 1, to: 9, points: 3, step: 4}}", "axes.rate: give one of points and step"),
        ("axes: {rate: {from: 1, to: 9, step: 4, scale: log}}", "axes.rate: a log scale has no step; give points"),
        ("axes: {rate: {from: 1, to: 9, points: 3, scale: lg}}", "axes.rate.scale: should be 'linear' or 'log'"),
        ("axes: {rate: {from: 1, to: 9, pionts: 3}}", "axes.rate.pionts: unknown key; did you mean 'points'?"),
        ("axes: {rate: {from: 1, points: 3}}", "axes.rate.to: is missing"),
        ("axes: {rate: {from: 1, to: 9, points: 1}}", "axes.rate.points: should be greater than or equal to 2 (got 1)"),
        ("axes: {rate: {from: 9, to: 1, points: 3}}", "axes.rate: from must be below to (got 9 to 1)"),
        ("axes: {rate: {from: 0, to: 1, points: 3}}", "axes.rate.from: should be greater than 0 (got 0)"),
        ("axes: {warmup: {from: 0, to: 1, points: 3, scale: log}}", "axes.warmup.from: a log scale starts above 0"),
        ("axes: {rate: {from: 1, to: 9, step: -1}}", "axes.rate.step: should be a number above 0 (got -1)"),
        ("axes: {devices: {from: 1, to: 9, step: 0.5}}", "devices.step: should be a whole number above 0 (got 0.5)"),
        ("axes: {devices: {from: 1, to: 4, points: 7}}", "7 points from 1 to 4 are not all different whole numbers"),
        ("axes: {devices: {from: 1, to: 9, points: 8, scale: log}}", "are not all different whole numbers"),
        ("axes: {device: {from: a, to: b, points: 3}}", "axes.device: a range is for numbers (got 'a' to 'b')"),
        ("axes: {rate: {from: 1, to: 2, points: 1000001}}", "at most 1,000,000 values (got 1,000,001)"),
        # designs and points
        ("design: gird", "design: should be 'grid' or 'list'"),
        ("design: list", "design: needs axes; give some"),
        ("design: {latin_hypercube: 5}", "design: needs axes; give some"),
        ("design: {latin_hypercube: 0}\naxes: {rate: [1]}", "design.latin_hypercube: should be greater than 0 (got 0)"),
        ("design: list\naxes: {rate: [1, 2], cv: [1]}", "axes of equal length (got workload.rate 2, workload.cv 1)"),
        ("design: list\naxes: {rate: [1, 1], cv: [2, 2]}", "values 1 and 2 of the axes are the same point"),
        ("points: []", "points: no points: an empty grid"),
        ("points: [5]", "points[0]: should be a mapping such as {devices: 8, rate: 10} (got 5)"),
        ("points: [{devces: 5}]", "points[0].devces: no field 'devces'; did you mean 'devices'?"),
        ("points: [{devices: 5}, {devices: 0}]", "points[1].devices: should be greater than 0 (got 0)"),
        ("points: [{devices: 5}, {devices: 5}]", "points[1]: the same point as number 1"),
        ("points: [{slo: 1.0}]", "points[0]: workload: give one of slo (seconds) and slo_scale"),
        ("points: [{devices: 5}]\naxes: {rate: [1]}", "axes: points says all combinations already"),
        # planners
        ("planners: []", "planners: a study needs a planner; list at least one"),
        ("planners: alpaserve", "planners: should be a list (got 'alpaserve'); write [alpaserve]"),
        ("planners: [alpaserve, alpaserve]", "planners[1]: planner 'alpaserve' stands twice; give each a label"),
        ("planners: [{name: a, label: b}, b]", "planners[1]: planner 'b' stands twice"),
        ("planners: [{options: {a: 1}}]", "planners[0].name: is missing"),
        (
            "planners:\n- alpaserve\n- {name: a, lable: b}",
            "s.yaml:8: planners[1].lable: unknown key; did you mean 'label'",
        ),
        ("planners: [{name: a, plan_on: past}]", "planners[0].plan_on: should be 'same' or 'history' (got 'past')"),
        # numbers of the study
        ("replications: 0", "replications: should be greater than or equal to 1 (got 0)"),
        ("replications: 2.5", "replications: should be a whole number (got 2.5)"),
        ("seed: -1", "seed: should be greater than or equal to 0 (got -1)"),
        ("confidence: 1", "confidence: should be less than 1 (got 1)"),
        ("confidence: 95", "confidence: should be less than 1 (got 95)"),
        ("world: servin", "world: unknown world (got 'servin'); did you mean 'serving'?"),
        # questions
        ("question: {find: fewest devces}", "question: unknown question 'fewest devces'; did you mean 'fewest"),
        ("question: {find: fewest devices, taget: 0.9}", "question.taget: unknown key; did you mean 'target'?"),
        ("questions: [{find: {highest: rat}, low: 1, high: 2}]", "questions[0]: no field 'rat'; did you mean 'rate'?"),
    ],
)
def test_bad_file_is_refused_in_one_line(text: str, says: str) -> None:
    (line,) = refused(text)
    assert says in line
    assert re.match(r"s\.yaml:\d+: ", line)


def test_every_error_of_a_file_at_once_in_the_order_of_the_file() -> None:
    text = """\
name: many
cluster: {device: 5, rate: 3}
workload: {cv: 0}
planners: [alpaserve, {name: a, optoins: {}}, alpaserve]
axes:
  devices: [0]
  rte: [1]
  slo_scale: {from: 1}
points_: 3
replications: 0
"""
    said = [line.split(": ")[:2] for line in refused(text, base="")]
    assert said == [
        ["s.yaml:1", "study"],
        ["s.yaml:2", "cluster.device"],
        ["s.yaml:2", "cluster.rate"],
        ["s.yaml:3", "workload.cv"],
        ["s.yaml:4", "planners[2]"],
        ["s.yaml:4", "planners[1].optoins"],
        ["s.yaml:6", "axes.devices[0]"],
        ["s.yaml:7", "axes.rte"],
        ["s.yaml:8", "axes.slo_scale.to"],
        ["s.yaml:9", "points_"],
        ["s.yaml:10", "replications"],
    ]


def test_other_versions_and_missing_parts() -> None:
    assert refused("", BASE.replace("study: 1", "study: 2")) == [
        "s.yaml:1: study: this Meshwright reads version 1 (got 2)"
    ]
    assert refused("", "study: 1\n") == ["s.yaml:1: cluster: is missing", "s.yaml:1: workload: is missing"]
    assert refused("", "study: 1\nworkload: {slo_scale: 5}\npoints: [{rate: 5, devices: 4}, {rate: 6}]\n") == [
        "s.yaml:3: points[1]: cluster: is missing"
    ]


def test_what_axes_set_need_not_be_in_the_base_case() -> None:
    s = study("workload: {slo_scale: 5}\naxes: {rate: [1, 2], devices: [4, 8]}\n", "study: 1\n")
    assert [s.base.cluster.devices, s.base.workload.rate] == [4, 1]  # pyright: ignore
    assert refused("workload: {slo_scale: 5}\naxes: {rate: [0], devices: [x]}\n", "study: 1\n") == [
        "s.yaml:3: axes.rate[0]: should be greater than 0 (got 0)",
        "s.yaml:3: axes.devices[0]: should be a whole number (got 'x')",
    ]


def test_a_million_point_grid_takes_no_time_and_asks_for_yes() -> None:
    s = study("axes: {rate: {from: 1, to: 1000, points: 1000}, cv: {from: 1, to: 10, points: 1000}}")
    assert len(s) == 1_000_000
    assert s.point(999_999).values == (("workload.rate", 1000.0), ("workload.cv", 10.0))
    with pytest.raises(InputError, match=r"1,000,000 points .* say --yes"):
        s.check_size(yes=False)
    s.check_size(yes=True)
    study("axes: {rate: {from: 1, to: 1000, points: 1000}}").check_size(yes=False)
    (line,) = refused("axes: {rate: {from: 1, to: 2, points: 1000000}, cv: {from: 1, to: 2, points: 1000000},"
                      " warmup: {from: 1, to: 2, points: 1000000}}")  # fmt: skip
    assert "1.0e+18 points, which no machine evaluates" in line


def test_a_point_says_its_case_in_full() -> None:
    s = study(
        "planners: [{name: a, options: {fast: true}}, {name: b, plan_on: history}]\n"
        "axes: {devices: [4, 8], options.depth: [1, 2], split: [uniform, {power_law: 0.5}]}\nseed: 7\nreplications: 2\n"
    )
    points = list(s.points())
    assert len(points) == len(s) == 32
    assert [s.point(i) for i in range(32)] == points
    assert points[1] == Point(1, points[0].values, "a", 1)
    case: Any = s.case(points[31])
    assert (case.cluster.devices, case.seed, case.workload.split) == (8, 8, {"power_law": 0.5})
    assert (case.planner.name, case.planner.plan_on, case.planner.options) == ("b", "history", {"depth": 2})
    first: Any = s.case(points[0])
    assert (first.seed, first.planner.options) == (7, {"fast": True, "depth": 1})


def test_names_with_dots_below_a_mapping() -> None:
    s = study("axes: {split.bert-1.3b: [0.5], speed.a100-80gb: [2]}")
    assert s.design[0] == (("workload.split.bert-1.3b", 0.5), ("speed.a100-80gb", 2.0))
    assert s.case(s.point(0)).workload.split == {"bert-1.3b": 0.5}  # pyright: ignore


def test_values_of_checks_names_and_orders() -> None:
    s = study("axes: {rate: [1, 2], devices: [4, 8]}")
    values = s.values_of({"max_batch": np.int64(4), "devices": 16, "workload.rate": np.float64(3)})
    assert values == (("workload.rate", 3.0), ("cluster.devices", 16), ("serving.max_batch", 4))
    assert [type(v) for _, v in values] == [float, int, int]
    for wrong, says in [
        ({"rat": 1}, "did you mean 'rate'"),
        ({"rate": 0}, "greater than 0"),
        ({"rate": 1, "workload.rate": 1}, "the same field twice"),
        ({"rate": float("nan")}, "finite"),
        ({"rate": object()}, "expected text, numbers"),
    ]:
        with pytest.raises(InputError, match=says):
            s.values_of(wrong)


EVERYTHING = """\
planners: [alpaserve, {name: a, label: "no", options: {x: 1.5, y: "1e5"}}]
axes:
  rate: {from: 0.1, to: 0.7, step: 0.1}
  devices: {from: 1, to: 64, points: 7, scale: log}
  models: [S1, {bert-1.3b: 2}]
question: {find: fewest devices, target: 99 %}
replications: 3
seed: 5
confidence: 90 %
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        EVERYTHING,
        "axes: {rate: {from: 1, to: 2}, models: [S1, S2]}\ndesign: {latin_hypercube: 9}",
        "axes: {rate: [1, 2], devices: {from: 4, to: 8, step: 4}}\ndesign: list",
        "points: [{rate: 1}, {rate: 2, memory: 13 GiB}]",
    ],
)
def test_a_study_is_the_same_from_its_own_text_and_from_a_pickle(text: str) -> None:
    s = study(text)
    again = Study.from_text(s.to_yaml(), "again.yaml")
    from_dict = Study.from_dict(s.document())
    travelled = pickle.loads(pickle.dumps(s))
    assert again.digest == from_dict.digest == travelled.digest == s.digest
    assert list(again.points()) == list(travelled.points()) == list(s.points())
    assert travelled == s
    assert from_dict.text == again.to_yaml() == s.to_yaml()
    jsonschema.validate(s.document(), schema())


def test_digest_is_the_same_in_every_process_and_tells_studies_apart() -> None:
    s = study(EVERYTHING)
    code = "import sys; from meshwright.studies import Study; print(Study.from_text(sys.stdin.read(), 'b.yaml').digest)"
    run = subprocess.run(
        [sys.executable, "-c", code], input=BASE + EVERYTHING, text=True, capture_output=True, check=True,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )  # fmt: skip
    assert run.stdout.strip() == s.digest
    others = [
        s.but(seed=6), s.but(replications=2), s.but(planners=["alpaserve"]), s.but(axes=None, design=None),
        s.but(axes={"rate": [1]}), s.but(cluster={"devices": 9}), s.but(questions=None),
    ]  # fmt: skip
    assert len({s.digest, *(other.digest for other in others)}) == 8
    assert s.but(name="other").digest == s.digest


def test_from_dict_takes_numpy_and_says_paths() -> None:
    said = {
        "study": 1, "cluster": {"devices": np.int64(8)}, "workload": {"rate": np.float64(5)},
        "axes": {"rate": np.linspace(1, 2, 3), "devices": (4, 8)},
    }  # fmt: skip
    assert len(Study.from_dict(said)) == 6
    with pytest.raises(InputError) as caught:
        Study.from_dict(said | {"axes": {"rate": [0.0]}, "nmae": "x"})
    assert set(str(caught.value).splitlines()) == {
        "study: axes.rate[0]: should be greater than 0 (got 0.0)",
        "study: nmae: unknown key; did you mean 'name'?",
    }


def test_reach_names_what_points_name() -> None:
    s = study("axes: {rate: [1, 2], models: [S1, S2], device: [v100-16gb, a]}\nplanners: [x, y]")
    reached: list[Any] = s.reach()
    assert {(c.planner.name, c.models, c.cluster.device) for c in reached} == {
        (p, *rest) for p in "xy" for rest in [("S1", "v100-16gb"), ("S2", "v100-16gb"), ("S1", "a")]
    }
    zipped: list[Any] = s.but(design="list", axes={"models": ["S1", "S2"], "device": ["v100-16gb", "a"]}).reach()
    assert {(c.models, c.cluster.device) for c in zipped} == {("S1", "v100-16gb"), ("S2", "a")}
    ranged: list[Any] = study("axes: {rate: {from: 1, to: 9, points: 100000}}").reach()
    assert {c.workload.rate for c in ranged} == {1, 9, 10}


def test_errors_about_files_get_the_line_that_names_them(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(BASE + "planners:\n- alpaserve\n- {plan: gone.json}\naxes:\n  device:\n  - v100-16gb\n  - a1000\n")
    s = studies.load(file)
    with pytest.raises(InputError) as caught:
        s.world.share(s.reach(), s.folder)
    lines = str(s.located(caught.value)).splitlines()
    assert [line.removeprefix(f"{file}:").split(": ")[:2] for line in lines] == [
        ["8", "planner.plan"],
        ["12", "cluster.device"],
    ]


def test_published_schema_is_current_and_takes_the_examples() -> None:
    file = ROOT / "docs/schema/study-1.schema.json"
    assert file.read_text(encoding="utf-8") == schema_text(), (
        "run: python -m meshwright.studies.file.schema > that file"
    )
    jsonschema.Draft202012Validator.check_schema(schema())
    examples = [path for path in (ROOT / "examples").glob("*.yaml") if "study: 1" in path.read_text()]
    assert examples
    for path in examples:
        jsonschema.validate(studies.load(path).document(), schema())


def test_reference_names_every_key_and_its_studies_are_valid() -> None:
    text = (ROOT / "docs/study-file.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert len(Study.from_text(block, "block.yaml")) >= 1
        jsonschema.validate(json.loads(json.dumps(Study.from_text(block, "block.yaml").document())), schema())
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "study-file.md", "exec"), {})
    keys = {*schema()["properties"], *(n for f in world("serving").case.model_fields.values() for n in _fields(f))}
    assert [key for key in keys if not re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", text)] == []


def _fields(field: Any) -> list[str]:
    return list(getattr(field.annotation, "model_fields", {}))
