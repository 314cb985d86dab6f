"""Instances of strangers: one clear error each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.planners.collage import Instance, place, read_instance

GOOD: dict[str, Any] = {
    "nodes": [{"id": 0, "op": "conv2d", "inputs": [-1]}, {"id": 1, "op": "relu", "inputs": [0]}],
    "matches": [{"backend": "a", "nodes": [0, 1], "root": 1, "cost": 1.5}],
    "eps": 0.01,
}


def node(k: int, **changed: Any) -> dict[str, Any]:
    nodes = [dict(n) for n in GOOD["nodes"]]
    nodes[k] |= changed
    return {**GOOD, "nodes": nodes}


def match(**changed: Any) -> dict[str, Any]:
    return {**GOOD, "matches": [{**GOOD["matches"][0], **changed}]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "instance: expected a mapping"),
        ({"nodes": []}, "'matches' is missing"),
        ({**GOOD, "nodes": []}, "at least one operator"),
        ({**GOOD, "nodes": {}}, "nodes: expected a list"),
        ({**GOOD, "eps": -0.1}, "eps: expected finite milliseconds >= 0"),
        ({**GOOD, "eps": "1"}, "eps: expected a number of milliseconds"),
        ({**GOOD, "eps": [0.1, 0.2]}, r"eps: expected a number, or one for each of 1 matches \(got 2\)"),
        ({**GOOD, "eps": [-0.1]}, r"eps\[0\]: expected finite milliseconds >= 0"),
        ({**GOOD, "boundary_cost": float("inf")}, "boundary_cost: expected finite"),
        ({**GOOD, "boundary_costs": 1.0}, "unknown key 'boundary_costs'; did you mean 'boundary_cost'"),
        (node(1, id=0), r"nodes\[1\].id: .*0 is taken"),
        (node(0, id=-1), "is negative"),
        (node(0, id=0.5), "expected a whole number"),
        (node(0, inputs=[1]), r"nodes\[0\].inputs: operator 0 reads 1, which is not listed before it"),
        (node(0, inputs=[-2]), "reads -2"),
        (node(0, op=None), r"nodes\[0\].op"),
        (node(1, inputs=[-1]), r"expected one operator that no other reads, the output \(got \[0, 1\]\)"),
        (match(root=7), "root: expected one of its nodes"),
        (match(nodes=[]), "at least one operator"),
        (match(nodes=[0, 0], root=0), "each operator once"),
        (match(nodes=[0, 9], root=0), r"matches\[0\].nodes: no operator has the id 9"),
        (match(cost=-1.0), r"matches\[0\].cost: expected finite milliseconds >= 0"),
        (match(cost=float("nan")), "expected finite"),
        (match(cost=True), "expected a number"),
        (match(backend=""), r"matches\[0\].backend"),
        ({**GOOD, "matches": [{"backend": "a", "node": [0], "root": 0, "cost": 1}]}, "did you mean it by 'node'"),
    ],
)
def test_what_is_wrong_is_said(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_instance(given)


def test_eps_of_each_match() -> None:
    """The dearer match wins where its own context costs less."""
    one = {"backend": "b", "nodes": [0, 1], "root": 1, "cost": 1.6}
    given = {**GOOD, "matches": [*GOOD["matches"], one], "eps": [0.3, 0.1]}
    found = place(given)
    assert (found.matches, found.cost) == ((1,), pytest.approx(1.7))


def test_files_hold_instances(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({**GOOD, "note": "measured on a Tuesday"}))
    instance = Instance.load(path)
    assert instance == read_instance(GOOD)
    assert place(instance).cost == 1.51
    assert repr(instance) == "Instance(2 operators, 1 matches of a)"
    path.write_text("{")
    with pytest.raises(InputError, match=r"table.json: no JSON"):
        Instance.load(path)
    path.write_text(json.dumps(match(root=7)))
    with pytest.raises(InputError, match=r"table.json: matches\[0\].root"):
        Instance.load(path)
