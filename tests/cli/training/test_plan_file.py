"""Training plan files: bytes, schema, words, and every bad input with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hand_plans import hand_plan, run
from meshwright.errors import InputError
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.plan.layers import blocks

ROOT = Path(__file__).resolve().parents[3]


def test_round_trip_is_equal_and_byte_identical(tmp_path: Path) -> None:
    path = hand_plan().save(tmp_path / "plan.json")
    again = TrainingPlan.load(path)
    assert again == hand_plan()
    assert again.save(tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert TrainingPlan.is_one(path)
    assert not TrainingPlan.is_one(tmp_path / "none.json")


def test_committed_schema_is_the_models() -> None:
    committed = json.loads((ROOT / "docs/schema/training-plan.schema.json").read_text())
    said = "write TrainingPlan.json_schema() to docs/schema/training-plan.schema.json"
    assert committed == TrainingPlan.json_schema(), said
    jsonschema.Draft202012Validator.check_schema(committed)
    jsonschema.validate(json.loads(hand_plan().to_json()), committed)


def changed(*path: str | int, value: object) -> dict[str, Any]:
    data = json.loads(hand_plan().to_json())
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cluster", "nodes"), 0),
        (("stages", 0, "forward_s"), -1.0),
        (("stages", 0, "logical"), [2, 2, 1]),
        (("stages", 0, "operators", "embed", "axes"), ["b"]),
        (("model", "optimizer"), "adagrad"),
        (("meshes",), []),
        (("resharding",), "telepathy"),
        (("shedule",), "1f1b"),
        (("kind",), "meshwright/plan"),
        (("version",), 2),
    ],
)
def test_schema_and_reader_refuse_the_same(path: tuple[str | int, ...], value: object) -> None:
    data = changed(*path, value=value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, TrainingPlan.json_schema())
    with pytest.raises(InputError):
        TrainingPlan.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("cluster", "device", "intra_node"), [0.0, 1e-5], "cluster.device: LinkSpec.bandwidth_bytes_per_s: "),
        (("stages", 1, "logical"), [2, 2, 1], "stages[1].logical: a logical mesh is two-dimensional"),
        (("stages", 1, "logical"), [4, 2], "stages[1].logical: 4 x 2 is no view of 1 x 4 devices"),
        (("stages", 1, "logical"), [-2, -2], "stages[1].logical: expected two positive sizes (got [-2, -2])"),
        (("stages", 1, "mesh"), 2, "stages[1].mesh: there are 2 meshes (got 2)"),
        (("stages", 1, "last"), 3, "stages[1]: expected first < last"),
        (("microbatches",), 7, "microbatches: 7 do not divide the global batch of 64"),
        (("meshes", 1, "first_device"), 2, "meshes[1]: device 2 is in mesh 0 already"),
        (("meshes", 1, "devices"), 5, "meshes[1]: mesh: expected a rectangle of 1 x 8 devices"),
        (("transfers", 0, "target"), 3, "transfers[0]: expected two of 2 stages (got 0 and 3)"),
        (("shedule",), "1f1b", "shedule: unknown key; did you mean 'schedule'?"),
    ],
)  # fmt: skip
def test_errors_name_line_and_entry(path: tuple[str | int, ...], value: object, message: str) -> None:
    text = json.dumps(changed(*path, value=value), indent=1)
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(text, "x.json")
    (line,) = str(caught.value).splitlines()[:1]
    where, _, rest = line.partition(": ")
    assert where.startswith("x.json:")
    assert int(where.partition(":")[2]) <= text.count("\n") + 1
    assert rest.startswith(message), line


def test_all_errors_at_once() -> None:
    data = changed("microbatches", value=7)
    data["stages"][0]["mesh"] = 9
    data["transfers"][0]["target"] = 3
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(json.dumps(data, indent=1), "x.json")
    assert str(caught.value).count("\n") == 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[: len(text) // 2], "was it cut off?"),
        (lambda text: "[" * 3000, "x.json"),
        (lambda text: text.replace('"meshwright/training-plan"', '"meshwright/llm-plan"'), "not a Meshwright plan"),
        (lambda text: text.replace('"version": 1', '"version": 9', 1), "this Meshwright reads version 1 (got 9)"),
    ],
)
def test_files_that_are_no_plan(spoil: Callable[[str], str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(spoil(hand_plan().to_json()))
    with pytest.raises(InputError) as caught:
        TrainingPlan.load(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the plan"):
        TrainingPlan.load(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        TrainingPlan.load(tmp_path / "bytes.json")


def test_words_say_stages_and_what_dominates() -> None:
    """Eq. 2 by hand: t = 0.03 + 0.004 / 8 and 0.06 + 0.004 / 8; Σ t + 7 · max t = 0.091 + 7 · 0.0605 = 0.5145 s."""
    text = hand_plan().explain()
    assert "Σ t + (B - 1) max t = 514.5 ms an iteration" in text
    assert "93.3%  stage 1, the slowest: 8 x 60 ms" in text  # 0.48 / 0.5145
    assert "0.8%  its gradient reduction and update" in text  # 0.004 / 0.5145
    assert "5.9%  filling" in text  # 0.0305 / 0.5145
    assert "balance: on average 75.2% of the slowest" in text  # 0.0455 / 0.0605
    row = next(line for line in text.splitlines() if line.lstrip().startswith("0  0-3"))
    assert row.split()[2:4] == ["0-3", "2x2"]
    assert "2 x 954 MiB" in row  # stage 0 of two keeps two microbatches of 1e9 bytes under 1F1B


def test_words_of_interleaved_stages() -> None:
    """Two stages on one mesh: all work is the mesh's, and nothing fills the pipeline before it."""
    one = hand_plan()
    stages = tuple(s.model_copy(update={"mesh": 0}) for s in one.stages)
    plan = one.model_copy(update={"meshes": one.meshes[:1], "stages": stages, "schedule": "interleaved_1f1b"})
    text = plan.explain()
    assert "728 ms an iteration" in text  # 8 x (0.03 + 0.06) + 2 x 0.004
    assert "mesh 0, the busiest: 8 x 90 ms" in text


def test_layers_that_are_run_alike_are_folded() -> None:
    text = hand_plan().explain()
    assert text.count("    qkv ") == 1
    assert "  layers 0-3\n" in text
    assert "  layers 4-7: as layers 0-3 of stage 0" in text
    assert "[embed.weight] kept whole" in text
    assert "[qkv.weight and 3 more parameters] kept cut over axis 1" in text
    assert "[qkv.weight] kept RS1" in hand_plan().explain(operators="all")
    plan = hand_plan()
    other = plan.stages[0].operators | {"h.2.up": run(("b", "f"), "S0RS1", "S0RS1", "RS1")}
    odd = plan.stages[0].model_copy(update={"operators": other})
    assert [b.layers for b in blocks(odd)] == [(), (0, 1, 3), (2,)]
    assert [b.layers for b in blocks(plan.stages[0])] == [(), (0, 1, 2, 3)]
    assert [b.name for b in blocks(odd)] == ["", "layers 0-1, 3", "layer 2"]
    assert sum(len(b.parameters) * max(1, len(b.layers)) for b in blocks(odd)) == 17  # 4 x 4 and the embedding


def test_layers_that_alternate_are_folded_too() -> None:
    plan = hand_plan()
    dense = run(("b", "f"), "S0RS1", "S0RS1", "RS1")
    odd = plan.stages[0].model_copy(
        update={"operators": plan.stages[0].operators | {f"h.{i}.up": dense for i in (1, 3)}}
    )
    assert [b.name for b in blocks(odd)] == ["", "layers 0, 2", "layers 1, 3"]


def test_words_without_operators() -> None:
    bare = hand_plan().model_copy(
        update={"stages": tuple(s.model_copy(update={"operators": {}}) for s in hand_plan().stages)}
    )
    assert "does not say how its operators are run" in bare.explain()
    assert "qkv" not in hand_plan().explain(operators="none")


def test_tied_parameters_need_a_transfer() -> None:
    from meshwright.planners.alpa import plan as alpa
    from meshwright.profiles.graph import zoo_graph
    from meshwright.simulator import Cluster
    from meshwright.simulator.training.plan.graph import check_graph, planned_graph

    plan = alpa(
        zoo_graph("tiny-gpt"), Cluster(1, 2, "cpu-core"), global_batch=4, microbatches=2,
        options={"stages": "one_device"},
    )  # fmt: skip
    graph = planned_graph(plan)
    kept = tuple(t for t in plan.transfers if t.value != "embedding.weight")
    assert 0 < len(kept) < len(plan.transfers)
    with pytest.raises(InputError, match=r"stages 0, 1 keep 'embedding\.weight', and no transfer adds up"):
        check_graph(plan.model_copy(update={"transfers": kept}), graph)
    check_graph(plan.model_copy(update={"transfers": ()}), graph)  # left to the graph
