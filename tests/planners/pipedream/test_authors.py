"""PipeDream's own planner on its own profiles: published tables, plain loops, brute force, bad files."""

import importlib
import itertools

import numpy as np
import pytest
from loops import all_cuts, crossing, table, wide
from meshwright.errors import InfeasibleError, InputError, LimitError
from meshwright.planners.graphpipe import PipeDreamProfile, pipedream_partition
from meshwright.planners.pipedream.kernel import level_table
from meshwright.planners.pipedream.states import antichain_states
from meshwright.seeds import generator

# VGG-16 on a V100, as PipeDream's profiler measured it (github.com/msr-fiddle/pipedream, MIT licence,
# profiler/image_classification/profiles/vgg16): layer, ms forward, ms backward, bytes of its result, of its weights.
VGG16 = """
conv 22.307 24.613 1644167168 7168|relu 4.446 5.553 1644167168 0|conv 46.201 113.330 1644167168 147712
relu 4.455 5.311 1644167168 0|pool 3.795 5.579 411041792 0|conv 15.155 39.648 822083584 295424
relu 2.359 2.738 822083584 0|conv 22.062 53.379 822083584 590336|relu 2.513 2.620 822083584 0
pool 2.211 2.788 205520896 0|conv 10.814 18.335 411041792 1180672|relu 1.377 1.380 411041792 0
conv 17.458 27.023 411041792 2360320|relu 1.640 1.463 411041792 0|conv 14.245 33.888 411041792 2360320
relu 1.549 1.321 411041792 0|pool 1.169 1.513 102760448 0|conv 9.249 14.574 205520896 4720640
relu 1.026 0.696 205520896 0|conv 15.359 21.900 205520896 9439232|relu 0.848 0.679 205520896 0
conv 11.775 28.670 205520896 9439232|relu 0.881 0.642 205520896 0|pool 0.802 0.781 51380224 0
conv 5.608 7.381 51380224 9439232|relu 0.784 0.266 51380224 0|conv 4.070 7.396 51380224 9439232
relu 0.463 0.190 51380224 0|conv 4.042 8.648 51380224 9439232|relu 0.455 0.175 51380224 0
pool 0.553 0.234 12845056 0|size 0 0 4 0|view 0 0 12845056 0|linear 2.475 4.575 2097152 411058176
relu 0.377 0.030 2097152 0|dropout 0 0 2097152 0|linear 0.709 0.734 2097152 67125248
relu 0.277 0.032 2097152 0|dropout 0 0 2097152 0|linear 0.393 0.548 512000 16388000
"""


def vgg16():
    rows = [row.split() for row in VGG16.replace("\n", "|").split("|") if row]
    lines = [layer("input", "Input", 17.972, 0, 77070336, 0)]
    lines += [layer(f"n{k}", kind, *numbers) for k, (kind, *numbers) in enumerate(rows)]
    edges = [("input", "n0"), ("n30", "n32"), *((f"n{k}", f"n{k + 1}") for k in range(len(rows) - 1))]
    return PipeDreamProfile.parse("\n".join(lines + [f"\t{a} -- {b}" for a, b in edges]))


def layer(name, kind, forward, backward, activation, parameter):
    return (
        f"{name} -- {kind} -- forward_compute_time={forward}, backward_compute_time={backward}, "
        f"activation_size={activation}, parameter_size={parameter}"
    )


def drawn(rng, n, edges):
    lines = []
    for k in range(n):
        times = rng.uniform(0.5, 20.0, 2).round(3)
        lines.append(layer(f"n{k}", "Linear", *times, *rng.uniform(1e5, 5e7, 2).round(1)))
    return PipeDreamProfile.parse("\n".join(lines + [f"\tn{a} -- n{b}" for a, b in edges]))


def dag(rng, n):
    """A graph of one source, whose layers all reach the last one."""
    edges = {(int(rng.integers(0, b)), b) for b in range(1, n)}
    edges |= {(a, b) for b in range(n) for a in range(b) if rng.random() < 0.15}
    edges |= {(a, n - 1) for a in range(n - 1) if all(x != a for x, _ in edges)}
    return sorted(edges)


def test_the_table_that_the_authors_program_prints_for_vgg16():
    """github.com/msr-fiddle/pipedream, issue 37: ``-n 8 2 -b 4294967296 2147483648 --activation_compression_ratio 1``.

    The printed entries of the first level on eight machines, which the second level starts from.
    """
    states = antichain_states(vgg16().for_planning(), compat=True)
    n = len(states.compute_s)
    assert n == 40
    earlier = np.concatenate([[0.0], states.compute_s[:-1]])
    stage_s = np.where(np.triu(np.ones((n, n), bool)), states.compute_s - earlier[:, None], np.inf)
    best = level_table(
        n, stage_s, states.activation_bytes, states.parameter_bytes, states.output_bytes, states.before,
        np.ones((n, n), bool), 8, 4294967296.0, 1.0, np.inf, 1.0, False, False, True,
    )[0][:, :, -1]  # fmt: skip
    printed = {
        (0, 0): 0.005865730156898499, (0, 1): 0.007115605156898499, (0, 2): 0.027072026604413987,
        (0, 37): 0.09235717243739539, (0, 39): 0.09235717243739539, (1, 1): 0.0012498750000000001,
        (1, 2): 0.02120629644751549, (1, 39): 0.0856534978594099, (2, 2): 0.01995642144751549,
        (2, 37): 0.08422506928798132, (2, 39): 0.08422506928798132,
    }  # fmt: skip
    for at, value in printed.items():
        assert best[at] == pytest.approx(value, rel=1e-12), at


def test_vgg16_is_replicated_but_for_its_weights():
    """Seven machines of eight for the convolutions, one for the rest, at the optimiser's default bandwidth."""
    found = pipedream_partition(vgg16(), machines=(8,), bandwidths=(1e9,), compression=1, compat=True)
    assert [(s.first, s.last, s.replication) for s in found.stages] == [(0, 24, (7,)), (24, 40, (1,))]
    assert found.single_s == pytest.approx(0.672535)
    assert found.speedup > found.single_s / found.data_parallel_s


@pytest.mark.parametrize("compat", [False, True])
def test_states_are_all_cuts(compat):
    rng = generator(7, "states")
    for _ in range(25):
        n = int(rng.integers(2, 9))
        edges = dag(rng, n)
        profile = drawn(rng, n, edges)
        states = antichain_states(profile, compat=compat)
        cuts = all_cuts(n, edges, 0)
        held = [frozenset(np.flatnonzero(row).tolist()) for row in states.members]
        assert set(held) == cuts
        assert len(held) == len(cuts)
        for a, b in itertools.product(range(len(held)), repeat=2):
            assert states.before[a, b] == (held[a] < held[b])
        size = np.array([x.activation_bytes for x in profile.layers])
        for s, cut in enumerate(held):
            over = wide(cut, edges, n) if compat else crossing(cut, edges)
            assert states.output_bytes[s] == pytest.approx(sum(size[v] for v in over))


def test_several_sources_are_cut_anywhere_but_in_compat():
    edges = [(0, 1), (2, 3), (1, 4), (3, 4)]
    profile = drawn(generator(1, "two"), 5, edges)
    both = antichain_states(profile)
    assert len(both.compute_s) == 3 * 3 - 1 + 1  # sets of two chains of two, not the empty one; and everything
    first = antichain_states(profile, compat=True)
    assert [set(np.flatnonzero(row).tolist()) for row in first.members] == [{0}, {0, 1}, {0, 1, 2, 3, 4}]


@pytest.mark.parametrize("compat", [False, True])
def test_tables_are_those_of_plain_loops(compat):
    rng = generator(13, f"loops {compat}")
    some_infinite = 0
    for trial in range(12):
        n = int(rng.integers(3, 8))
        profile = drawn(rng, n, dag(rng, n))
        states = antichain_states(profile)
        size = len(states.compute_s)
        follows = np.ones((size, size), bool)
        if not compat:
            follows[1:] = states.before[:-1]
        earlier = np.concatenate([[0.0], states.compute_s[:-1]])
        stage_s = np.where(np.triu(np.ones((size, size), bool)) & follows, states.compute_s - earlier[:, None], np.inf)
        memory = np.inf if trial % 3 else float(states.parameter_bytes[-1]) * 1.2
        machines, within, ratio, straight = 2 + trial % 3, 1 + trial % 2 * 3, float(trial % 2), trial % 4 == 3
        got = level_table(
            size, stage_s, states.activation_bytes, states.parameter_bytes, states.output_bytes, states.before, follows,
            machines, 1e9, float(within), memory, ratio, straight, False, compat,
        )[0]  # fmt: skip
        plain = [[None if np.isinf(x) else x for x in row] for row in stage_s]
        expected = table(
            size, plain, states.activation_bytes, states.parameter_bytes, states.output_bytes, states.before, follows,
            machines, 1e9, within, memory, ratio, straight, compat,
        )  # fmt: skip
        want = np.array([[[np.inf if x is None else x for x in cell] for cell in row] for row in expected])
        upper = np.triu(np.ones((size, size), bool))
        np.testing.assert_allclose(got[upper], want[upper], rtol=1e-12)
        some_infinite += np.isinf(want[upper]).sum()
    assert some_infinite


def test_one_level_is_brute_force_over_lines_of_stages():
    """Every line of cuts with every replication, by the formula alone: T/m + 4 (m − 1) W / (bandwidth m)."""
    rng, bandwidth, machines = generator(17, "brute"), 1e8, 4
    for _ in range(8):
        n = int(rng.integers(2, 6))
        edges = dag(rng, n)
        profile = drawn(rng, n, edges)
        cuts = all_cuts(n, edges, 0)
        everything = frozenset(range(n))

        def lines(held, cuts=cuts, everything=everything):
            if held == everything:
                yield []
            for more in cuts:
                if held < more:
                    for rest in lines(more):
                        yield [more - held, *rest]

        best = np.inf
        for line in lines(frozenset()):
            for counts in itertools.product(range(1, machines + 1), repeat=len(line)):
                if sum(counts) == machines:
                    best = min(
                        best, max(one_stage(profile, s, m, bandwidth) for s, m in zip(line, counts, strict=True))
                    )
        found = pipedream_partition(profile, machines=(machines,), bandwidths=(bandwidth,))
        assert found.seconds == pytest.approx(best)
        names = {x.name: k for k, x in enumerate(profile.layers)}
        again = [one_stage(profile, [names[x] for x in s.layers], s.replication[0], bandwidth) for s in found.stages]
        assert max(again) == pytest.approx(best)
        assert sum(s.replication[0] for s in found.stages) == machines


def one_stage(profile, layers, m, bandwidth):
    time = sum(profile.layers[v].forward_ms + profile.layers[v].backward_ms for v in layers) / 1e3
    return time / m + 4 * (m - 1) * sum(profile.layers[v].parameter_bytes for v in layers) / (bandwidth * m)


def test_levels_put_replicas_of_machines_outside():
    found = pipedream_partition(vgg16(), machines=(4, 4), bandwidths=(12e9, 1.25e9))
    assert all(len(s.replication) == 2 for s in found.stages)
    by_outer: dict[int, set[tuple[int, int]]] = {}
    for s in found.stages:
        by_outer.setdefault(s.replication[1], set()).add((s.first, s.last))
    assert [s.first for s in found.stages] == [0, *(s.last for s in found.stages[:-1])]
    layers = [name for s in found.stages for name in s.layers]
    assert sorted(layers) == sorted(f"n{k}" for k in range(40))


def test_memory_counts_minibatches_in_flight():
    profile = drawn(generator(3, "memory"), 4, [(0, 1), (1, 2), (2, 3)])
    need = [x.activation_bytes + x.parameter_bytes for x in profile.layers]
    # Straight on four machines: machine k of four holds four − k minibatches of one layer each.
    least = max((4 - k) * need[k] for k in range(4))
    fits = {"machines": (4,), "bandwidths": (1e9,), "straight": True}
    found = pipedream_partition(profile, memory_bytes=least, **fits)
    assert [len(s.layers) for s in found.stages] == [1, 1, 1, 1]
    with pytest.raises(InfeasibleError, match="nothing fits"):
        pipedream_partition(profile, memory_bytes=least * 0.999, **fits)


@pytest.mark.parametrize("limit", ["states.MOST_STATES", "partition.MOST_CELLS"])
def test_a_limit_of_ours_is_not_told_as_no_plan(monkeypatch, limit):
    profile = drawn(generator(3, "limit"), 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert pipedream_partition(profile, machines=(4,), bandwidths=(1e9,)).stages
    module, _, name = limit.partition(".")
    monkeypatch.setattr(importlib.import_module(f"meshwright.planners.pipedream.{module}"), name, 2)
    with pytest.raises(LimitError, match=r"our limit of 2 .*ended the search, so whether there is a plan is not known"):
        pipedream_partition(profile, machines=(4,), bandwidths=(1e9,))


def test_fewer_machines_are_never_slower_with_their_leave():
    profile = drawn(generator(4, "fewer"), 5, [(k, k + 1) for k in range(4)])
    every = {"machines": (6,), "bandwidths": (1e7,)}
    assert (
        pipedream_partition(profile, use_fewer=True, **every).seconds <= pipedream_partition(profile, **every).seconds
    )
    used = sum(s.replication[0] for s in pipedream_partition(profile, use_fewer=True, **every).stages)
    assert used < 6  # the network is so slow that replicas are not worth it


def test_profiles_are_written_as_they_are_read():
    profile = vgg16()
    assert PipeDreamProfile.parse(profile.to_text()) == profile
    found = pipedream_partition(profile, machines=(4,), bandwidths=(1e9,))
    staged = PipeDreamProfile.parse(profile.with_stages([s.layers for s in found.stages]).to_text())
    assert {x.stage for x in staged.layers if x.name != "input"} == set(range(len(found.stages)))
    listed = PipeDreamProfile.parse(layer("a", "LSTM", 1, 2, "[10.0; 20.0]", 3))
    assert listed.layers[0].activation_bytes == 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no layer"),
        ("a -- Linear", "line 1: expected '<layer> -- <description>"),
        (layer("a", "x", 1, 2, 3, 4).replace(", parameter_size=4", ""), "parameter_size is missing"),
        (layer("a", "x", "fast", 2, 3, 4), "forward_compute_time: expected a number"),
        (layer("a", "x", -1, 2, 3, 4), "expected a number that is not negative"),
        (layer("a", "x", 1, 2, 3, 4) + "\n" + layer("a", "x", 1, 2, 3, 4), "line 2: layer 'a' is there twice"),
        (layer("a", "x", 1, 2, 3, 4) + "\n\ta -- b", "line 2: edge: no layer 'b' above it"),
        (layer("a", "x", 1, 2, 3, 4) + " -- stage_id=one", "expected stage_id"),
        (layer("a", "x", 1, 2, 3, 4) + "\n" + layer("b", "x", 1, 2, 3, 4) + "\n\ta -- b\n\tb -- a", "circle: a, b"),
    ],
)
def test_bad_profiles_are_named_by_their_line(text, said):
    with pytest.raises(InputError) as error:
        PipeDreamProfile.parse(text, "graph.txt")
    assert said in str(error.value)
    assert str(error.value).startswith("graph.txt")


def test_levels_that_do_not_go_together():
    with pytest.raises(InputError, match="a bandwidth for each level"):
        pipedream_partition(vgg16(), machines=(4, 2), bandwidths=(1e9,))
    with pytest.raises(InputError, match="positive machines"):
        pipedream_partition(vgg16(), machines=(0,), bandwidths=(1e9,))
    only = PipeDreamProfile.parse(layer("a", "Input", 1, 2, 3, 4))
    with pytest.raises(InputError, match="nothing but inputs"):
        pipedream_partition(only, machines=(1,), bandwidths=(1e9,))
