"""In-place costs add up: their sum, with what a group takes besides, is within 5 % of the program that is cut so."""

from __future__ import annotations

from statistics import median

import pytest
from meshwright.planners.collage import read_instance
from meshwright.planners.collage.baselines import rule_based

torch = pytest.importorskip("torch")
from meshwright.kernels.networks import network  # noqa: E402
from meshwright.runtime.backends import Course, MeasureOptions, available, capture, profile  # noqa: E402

OPTIONS = MeasureOptions(least_rounds=9, most_rounds=50, spread=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mobilenet-v2-image96", "torch-onednn"),
        ("resnet-18-image96", "torch-onednn"),
        ("resnet-18-image96", "onnxruntime"),
    ],
)
def test_the_sum_of_costs_is_the_program(model: str, name: str) -> None:
    """Costs are taken before the program is timed and after it; by what they differ, and it from itself, is noise.

    The cover is by the largest matches: which they are depends on no cost, so no least of noisy costs is chosen.
    """
    if available()[name]:
        pytest.skip(available()[name])
    made = network(model)
    captured = capture(made.module, made.inputs(1))
    ids = [node.id for node in captured.graph.nodes]
    sums, groups = list[float](), list[tuple[str, list[str]]]()
    timed: dict[str, float] = {}
    for _ in range(2):
        table = profile(captured, list(dict.fromkeys((name, "torch-onednn"))), model=model, options=OPTIONS)
        instance = read_instance(table.instance())
        parts = instance.only([k for k, m in enumerate(instance.matches) if len(m.nodes) < len(ids)])
        if not groups:
            found = rule_based(parts, list(dict.fromkeys((name, "torch-onednn"))))
            groups = [(m.backend, [ids[k] for k in m.nodes]) for m in found.chosen]
        cost = {(m.backend, frozenset(m.nodes)): m.cost_ms for m in table.matches}
        sums.append(sum(cost[b, frozenset(nodes)] + table.backends[b].context_ms for b, nodes in groups))
        if not timed:
            with Course(captured, list(table.backends), OPTIONS) as course:
                both = course.times({"program": groups, "again": groups})
            assert [one.reason for one in both.values()] == ["", ""]
            pairs = zip(both["program"].samples_ms, both["again"].samples_ms, strict=True)
            timed = {
                "ms": both["program"].ms,
                "noise": abs(median(a / b for a, b in pairs) - 1) + both["program"].spread,
            }
    drift = abs(sums[0] / sums[1] - 1)
    error = sum(sums) / 2 / timed["ms"] - 1
    noise = drift + timed["noise"]
    print(
        f"\n{model} on {name}, {len(groups)} groups: costs {sums[0]:.4g} and {sums[1]:.4g} ms, the program "
        f"{timed['ms']:.4g} ms: {error:+.1%}; noise {noise:.1%} (costs {drift:.1%}, the program {timed['noise']:.1%})"
    )
    assert abs(error) <= 0.05 + noise
