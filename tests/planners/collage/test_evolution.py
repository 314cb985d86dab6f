"""The graph level's search: finds the best bits within its budget, goes on where it was stopped, same seed same way."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from how_many import examples
from meshwright.errors import InputError
from meshwright.planners.collage import EngineCosts, Evolution, EvolutionOptions, evolve
from meshwright.planners.collage.evolution import Enough


def drawn_costs(seed: int, bits: int) -> dict[str, Any]:
    draw = np.random.default_rng([seed, bits])
    return {
        "bits": bits,
        "op_level_ms": draw.uniform(0.2, 2.0, bits).tolist(),
        "graph_library_ms": draw.uniform(0.2, 2.0, bits).tolist(),
        "engine_fixed_ms": float(draw.choice((0.2, 0.5, 1.0, 2.0, 4.0)) * draw.uniform(0.3, 1.5)),
        "merge_saving_ms": draw.uniform(0.0, draw.choice((0.1, 0.2)), bits - 1).tolist(),
    }


def table_of(costs: dict[str, Any]) -> dict[str, float]:
    table = EngineCosts.of(costs)
    return {bits: table.ms(bits) for bits in map("".join, itertools.product("01", repeat=costs["bits"]))}


def test_costs_by_hand() -> None:
    costs = {
        "bits": 4, "op_level_ms": [1.0, 2.0, 3.0, 4.0], "graph_library_ms": [10.0, 20.0, 30.0, 40.0],
        "engine_fixed_ms": 100.0, "merge_saving_ms": [0.1, 0.2, 0.4],
    }  # fmt: skip
    table = EngineCosts.of(costs)
    assert [table.ms(bits) for bits in ("0000", "0110", "1011", "1111")] == pytest.approx([10, 154.8, 281.6, 199.3])
    assert EngineCosts.of({**costs, "merge_saving_ms": [0.1, 0.2, 0.4, 9.0]}).ms("1111") == pytest.approx(199.3)


@pytest.mark.parametrize("bits", [8, 11])
def test_the_best_bits_are_found(bits: int) -> None:
    for seed in range(examples(1, anew=10)):
        costs = drawn_costs(seed, bits)
        best = min(table_of(costs).values())
        found = [evolve(costs, seed=s) for s in range(20)]
        assert all(one.evaluations <= 600 and one.time_ms == EngineCosts.of(costs).ms(one.bits) for one in found)
        assert sum(one.time_ms <= best + 1e-9 for one in found) >= 19


@pytest.mark.slow
@pytest.mark.parametrize("bits", [13, 16])
@pytest.mark.parametrize("instance", range(6))
def test_the_best_of_many_bits_is_found(bits: int, instance: int) -> None:
    table = table_of(drawn_costs(instance, bits))
    best = min(table.values())
    found = [Evolution(bits, table.__getitem__, EvolutionOptions(seed=s)).run().time_ms for s in range(20)]
    assert sum(ms <= best + 1e-9 for ms in found) >= 19


def test_no_string_is_asked_for_twice_and_both_seeds_are_first() -> None:
    asked: list[str] = []

    def fitness(bits: str) -> float:
        asked.append(bits)
        return float(bits.count("1") ^ 5)

    found = Evolution(12, fitness, EvolutionOptions(evaluations=90)).run()
    assert asked[:2] == ["0" * 12, "1" * 12]
    assert len(asked) == len(set(asked)) == found.evaluations == 90
    assert [bits for bits, _ in found.history] == asked
    assert found.time_ms == 0.0


def test_the_same_seed_goes_the_same_way_and_another_does_not() -> None:
    costs = drawn_costs(0, 14)
    assert evolve(costs, seed=3).history == evolve(costs, seed=3).history != evolve(costs, seed=4).history


@pytest.mark.parametrize("stop", [1, 77, 150])
def test_a_stopped_search_goes_on_where_it_was(stop: int, tmp_path: Path) -> None:
    table, log, asked = table_of(drawn_costs(1, 12)), tmp_path / "log.json", list[str]()

    def fitness(bits: str) -> float:
        if len(asked) == stop:
            raise KeyboardInterrupt
        asked.append(bits)
        return table[bits]

    options = EvolutionOptions(evaluations=200)
    with pytest.raises(KeyboardInterrupt):
        Evolution(12, fitness, options, log=log).run()
    again: list[str] = []
    resumed = Evolution(12, lambda bits: again.append(bits) or table[bits], options, log=log).run()
    assert len(again) == 200 - stop
    assert not set(again) & set(asked)
    whole = Evolution(12, table.__getitem__, options).run()
    assert (resumed.history, resumed.bits) == (whole.history, whole.bits)


def test_small_spaces_are_searched_whole() -> None:
    for bits in range(5):
        found = Evolution(bits, lambda b: 1.0 + b.count("0")).run()
        assert (found.evaluations, found.bits) == (2**bits, "1" * bits)


def test_what_cannot_run_is_passed_by() -> None:
    found = Evolution(6, lambda b: float("inf") if b.startswith("1") else 2.0 + b.count("0")).run()
    assert found.bits == "011111"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bits": 3}, "op_level_ms: expected 3 numbers"),
        ({"graph_library_ms": [1.0]}, "graph_library_ms: expected 2 numbers"),
        ({"merge_saving_ms": []}, "merge_saving_ms: expected 1 numbers"),
        ({"op_level_ms": [1.0, float("nan")]}, r"op_level_ms\[1\]"),
        ({"engine_fixed_ms": -1.0}, "engine_fixed_ms"),
    ],
)
def test_wrong_costs_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        evolve(drawn_costs(0, 2) | changed)


def test_wrong_options_and_logs_are_refused(tmp_path: Path) -> None:
    for wrong, said in (({"evaluations": 0}, "evaluations"), ({"population": 3}, "population"), ({"flip": 2}, "flip")):
        with pytest.raises(InputError, match=said):
            EvolutionOptions(**wrong)
    with pytest.raises(InputError, match="seed"):
        evolve(drawn_costs(0, 2), seed=-1)
    with pytest.raises(InputError, match="fitness of '000': expected milliseconds"):
        Evolution(3, lambda _: float("nan")).run()
    with pytest.raises(InputError, match="known: expected strings of 3 bits"):
        Evolution(3, lambda _: 1.0, known={"01": 1.0})
    log = tmp_path / "log.json"
    for text, said in (("{", "no log of a search"), ('{"bits": 2, "known": {}}', "a log of 2 bits")):
        log.write_text(text)
        with pytest.raises(InputError, match=said):
            Evolution(3, lambda _: 1.0, log=log)


def test_a_fitness_may_say_that_it_is_enough() -> None:
    asked = list[str]()

    def fitness(bits: str) -> float:
        if len(asked) == 7:
            raise Enough
        asked.append(bits)
        return float(bits.count("0"))

    found = Evolution(6, fitness).run()
    assert [bits for bits, _ in found.history] == asked
    assert (found.bits, found.time_ms) == ("111111", 0.0)
