"""Stages that run microbatches a slice of their tokens at a time, in one process, against whole sequences at once."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.profiles.graph import Builder, from_torch, zoo_graph, zoo_module
from meshwright.profiles.graph.models.language import Llama
from meshwright.profiles.graph.models.transformer import GPT
from meshwright.profiles.graph.token_flow import token_flow
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.optimizer import Optimizer
from meshwright.runtime.training.single import make_input, make_parameter, single_device
from meshwright.runtime.training.slices.layout import SliceLayout
from meshwright.runtime.training.slices.stage import SliceStage
from meshwright.runtime.training.slices.turns import checked_tokens, microbatch_samples, turns_of
from meshwright.runtime.training.stage.recompute import redone
from meshwright.runtime.training.wires.comm import MeshComm
from meshwright.simulator.training.plan.file import SliceEntry

SEQ = 8
SHAPE = {"layers": 2, "hidden": 8, "heads": 2, "vocab": 11, "seq": SEQ, "dtype": "float32"}
GRAPHS = {
    "gpt": GPT(**SHAPE).graph("gpt"),
    "fused": GPT(**SHAPE, attention="fused").graph("fused"),
    "rotary, grouped": Llama(**{**SHAPE, "heads": 4}, ffn=12, kv_heads=2).graph("rotary"),
    "rotary, grouped, fused": Llama(**{**SHAPE, "heads": 4}, ffn=12, kv_heads=2, attention="fused").graph("rotary"),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def entries(*cuts):
    return [SliceEntry(samples=b, tokens=tokens, count=n) for b, tokens, n in cuts]


class Chain:
    """All stages of a sliced plan, one after another in this process."""

    def __init__(self, graph, slices, stages=1, *, recompute="none", dtype="float64", inputs=None):
        self.graph, self.dtype, self.seed = graph, dtype, 3
        plan = hand_plan(graph, meshes=[(1, 1)] * stages, slices=slices, schedule="terapipe", recompute=recompute)
        self.samples, self.turns = microbatch_samples(plan), turns_of(plan)
        tokens = checked_tokens(plan, graph)
        self.given = inputs or self.drawn
        self.stages = []
        for number in range(stages):
            comm = MeshComm((0,), (1, 1), 0)
            layout = SliceLayout.of(plan, graph, number, comm, tokens, self.samples)
            self.stages.append(
                SliceStage(
                    layout, self.turns, comm, inputs=self.given, optimizer=Optimizer(),
                    parameter=lambda name: make_parameter(graph, name, self.seed, dtype),
                    loss=graph.operators[-1].name, redo=redone(layout.any, recompute),
                )
            )  # fmt: skip
        self.made, self.back = {}, {}

    def drawn(self, name, microbatch):
        graph = self.graph.with_batch(self.samples[microbatch])
        return make_input(graph, name, self.seed, 0, microbatch, self.dtype)

    def forward(self, turn):
        for stage in self.stages:
            out = stage.forward(turn, {name: self.made[name, turn] for name in stage.layout.received})
            self.made |= {(name, turn): x for name, x in out.items()}

    def backward(self, turn):
        for stage in reversed(self.stages):
            mine = {name: x for (name, t), x in self.back.items() if t == turn and name in stage.layout.sent}
            found = stage.backward(turn, mine)
            for name in stage.layout.received:
                known = self.back.get((name, turn))
                self.back[name, turn] = found[name] if known is None else known + found[name]

    def run(self):
        for turn in range(len(self.turns)):
            self.forward(turn)
        for turn in reversed(range(len(self.turns))):
            self.backward(turn)
        return self.result()

    def result(self):
        gradients = {}
        for stage in self.stages:
            stage.reduce()
            for name, g in stage.gradients.items():
                gradients[name] = gradients[name] + g if name in gradients else g
        return sum(s.weight(t) * x for s in self.stages for t, x in s.losses.items()), gradients


def apart(graph, found, samples, dtype="float64"):
    """Relative difference of the loss, and the worst of any gradient over the largest of its parameter."""
    loss, gradients = found
    whole = single_device(graph, seed=3, microbatches=len(samples), dtype=dtype, samples=samples)
    assert set(gradients) == set(whole.gradients)
    largest = max(float(g.abs().max()) for g in whole.gradients.values())
    worst = 0.0
    for name, g in whole.gradients.items():
        size = float(g.abs().max())  # a key's bias moves no softmax: its gradient is rounding alone
        worst = max(worst, float((gradients[name] - g).abs().max()) / (size if size > 1e-6 * largest else largest))
    return abs(loss - whole.losses[0]) / abs(whole.losses[0]), worst


def held(graph, slices, stages=1, **options):
    chain = Chain(graph, slices, stages, **options)
    return apart(graph, chain.run(), chain.samples, chain.dtype)


CUTS = {
    "one slice": entries((2, (SEQ,), 1)),
    "equal": entries((2, (2,) * 4, 2)),
    "a token each": entries((1, (1,) * SEQ, 1)),
    "uneven, otherwise in each": entries((1, (5, 2, 1), 2), (3, (1, 7), 1), (2, (SEQ,), 1)),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", GRAPHS)
def test_loss_and_every_gradient_are_those_of_whole_sequences(name, cut):
    assert max(held(GRAPHS[name], CUTS[cut])) < 1e-12
    assert max(held(GRAPHS[name], CUTS[cut], dtype="float32")) < 5e-6


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("stages", [2, 4, 7])
def test_wherever_stages_end_in_a_layer(stages, recompute):
    """Seven stages cut attention: scores, keys and values cross between them."""
    assert max(held(GRAPHS["gpt"], CUTS["uneven, otherwise in each"], stages, recompute=recompute)) < 1e-12


@st.composite
def slicings(draw):
    found = []
    for _ in range(draw(st.integers(1, 3))):
        tokens, left = [], SEQ
        while left:
            tokens.append(draw(st.integers(1, left)))
            left -= tokens[-1]
        found.append(SliceEntry(samples=draw(st.integers(1, 3)), tokens=tuple(tokens), count=draw(st.integers(1, 2))))
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(slicings(), st.sampled_from(sorted(GRAPHS)), st.integers(1, 5), st.sampled_from(["none", "selective", "full"]))
def test_any_slicing_of_any_stages_changes_nothing(slices, name, stages, recompute):
    assert max(held(GRAPHS[name], slices, stages, recompute=recompute)) < 1e-12


def test_microbatches_may_go_back_before_others_go_forward():
    chain = Chain(GRAPHS["gpt"], entries((1, (3, 4, 1), 3)), 2)
    back = {3: [2], 4: [1], 5: [0, 5], 6: [4], 8: [3, 8, 7, 6]}  # after which slice forward which go back
    for turn in range(9):
        chain.forward(turn)
        for other in back.get(turn, []):
            chain.backward(other)
    assert max(apart(chain.graph, chain.result(), chain.samples)) < 1e-12


def test_nothing_of_a_microbatch_is_kept_when_it_is_done():
    chain = Chain(GRAPHS["gpt"], entries((1, (3, 5), 2)))
    chain.run()
    (stage,) = chain.stages
    assert not any((stage._carried, stage._due, stage._running))


def test_slices_out_of_order_are_refused():
    chain = Chain(GRAPHS["gpt"], entries((1, (3, 4, 1), 1)))
    chain.forward(0)
    with pytest.raises(RunError, match="slice 2 of microbatch 0 is too early"):
        chain.forward(2)
    chain.forward(1)
    with pytest.raises(RunError, match="slice 0 of microbatch 0 goes back too early"):
        chain.backward(0)


@pytest.mark.parametrize("attention", ["matmuls", "fused"])
def test_a_traced_module_runs_by_slices(attention):
    ids = torch.zeros((1, 16), dtype=torch.int64)
    module = zoo_module("tiny-gpt", attention=attention)
    graph = from_torch(module, (ids, ids), name="traced", items="tokens", items_per_sample=16)
    assert max(held(graph, entries((2, (9, 6, 1), 1)), 2)) < 1e-12


def ignoring(ignore):
    """A model of embeddings whose loss leaves out the labels `ignore`."""
    b = Builder("ignoring", 1, "float32")
    ids, labels = b.input("tokens", SEQ), b.input("labels", SEQ)
    x = b.add("embedding", "embedding", "v h, b s -> b s h", b.parameter("table", 11, 4), ids, saves=(1,))
    x = b.add("head", "contraction", "b s h, h v -> b s v", x, b.parameter("weight", 4, 11), saves=(0, 1))
    b.add(
        "loss", "loss", "b s v, b s ->", x, labels, statistic="v", saves=(0, 1), fn="cross_entropy", reduction="mean",
        ignore_index=ignore,
    )  # fmt: skip
    return b.graph(SEQ, "tokens", "")


def test_the_mean_is_over_the_labels_that_count_in_the_whole_sequence():
    graph, slices = ignoring(3), entries((2, (5, 1, 2), 2))
    drawn = [make_input(graph.with_batch(2), "labels", 3, 0, m, "float64") for m in (0, 1)]
    counts = [(x == 3).sum(dim=0) for x in drawn]
    assert any(c.any() for c in counts), "some label of the data must be left out for this to show anything"
    assert max(held(graph, slices)) < 1e-12


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("bert-large", "'layers.0.attention.scores' lets every token read all others"),
        ("tiny-moe", "'layers.1.moe.gate.top' needs all tokens at once"),
        ("tiny-mlp", "token slices need sequences of tokens, and its samples are 1 samples"),
        ("tiny-resnet", "token slices need sequences of tokens"),
    ],
)
def test_models_whose_tokens_need_later_ones_are_refused(model, what):
    graph = zoo_graph(model)
    plan = hand_plan(zoo_graph("tiny-gpt"), meshes=[(1, 1)], slices=entries((1, (8, 8), 1)), schedule="terapipe")
    with pytest.raises(InputError, match=what) as told:
        checked_tokens(plan, graph)
    assert "\n" not in str(told.value)


def mixing(add):
    """Embeddings, what `add` does to them, and a loss."""
    b = Builder("mixing", 1, "float32")
    ids, labels = b.input("tokens", SEQ), b.input("labels", SEQ)
    x = b.add("embedding", "embedding", "v h, b s -> b s h", b.parameter("table", 11, 4), ids, saves=(1,))
    x = add(b, x)
    x = b.add("head", "contraction", "b s h, h v -> b s v", x, b.parameter("weight", 4, 11), saves=(0, 1))
    b.add("loss", "loss", "b s v, b s ->", x, labels, statistic="v", saves=(0, 1), fn="cross_entropy")
    return b.graph(SEQ, "tokens", "")


def attending(causal, after=None):
    """Attention of embeddings to themselves; `after` changes its weights."""

    def add(b, x):
        y = b.add("scores", "contraction", "b s h, b t h -> b s t", x, x, saves=(0, 1))
        y = b.add(
            "weights", "softmax", "b s t -> b s t", y, statistic="t", saves=(-1,), causal=causal, query="s", key="t"
        )
        y = after(b, y) if after else y
        return b.add("mixed", "contraction", "b s t, b t h -> b s h", y, x, saves=(0, 1))

    return add


NEED_LATER = {
    "mixed' needs all tokens at once": lambda b, x: b.add(
        "mixed", "norm", "b s h, s -> b s h", x, b.parameter("g", SEQ), statistic="s", saves=(0,), fn="layer", eps=1e-5
    ),
    "mean' sums over tokens": lambda b, x: b.add(
        "mixed", "elementwise", "b s h, b h -> b s h", x, b.add("mean", "reduction", "b s h -> b h", x, fn="mean"),
        fn="add",
    ),
    "mixed' sums over tokens": lambda b, x: b.add(
        "mixed", "contraction", "b s h, s t -> b t h", x, b.parameter("m", SEQ, SEQ), saves=(0, 1)
    ),
    "mixed' takes tokens from other places": lambda b, x: b.add(
        "mixed", "view", "b s h -> b s h", x, fn="roll", shifts=(1,), dims=(1,)
    ),
    "scores' lets every token read all others": attending(False),
    "mixed' sums over tokens (loop 't')": attending(
        True, lambda b, y: b.add("more", "elementwise", "b s t, s t -> b s t", y, b.parameter("m", SEQ, SEQ), fn="add")
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NEED_LATER)
def test_operators_that_need_later_tokens_are_refused(what):
    with pytest.raises(InputError) as told:
        token_flow(mixing(NEED_LATER[what]))
    assert what in str(told.value)
    assert "train it without slices" in str(told.value)


def test_attention_weights_may_be_scaled_once_they_are_masked():
    graph = mixing(attending(True, lambda b, y: b.add("more", "elementwise", "b s t -> b s t", y, fn="mul", value=0.5)))
    flow = token_flow(graph)
    assert flow.loops["weights"] == {"s": "query", "t": "key"}
    assert flow.carried == {"embedding"}
    assert flow.shape("scores", (2, SEQ, SEQ), 3, 2) == (2, 2, 5)
    assert max(held(graph, entries((2, (3, 4, 1), 1)))) < 1e-12


def test_slices_that_do_not_sum_to_the_sequence_are_refused():
    plan = hand_plan(GRAPHS["gpt"], meshes=[(1, 1)], slices=entries((1, (3, 3), 1)), schedule="terapipe")
    with pytest.raises(InputError, match=r"slices.0.tokens: expected lengths that sum to the 8 tokens .*\(got 6\)"):
        checked_tokens(plan, GRAPHS["gpt"])
