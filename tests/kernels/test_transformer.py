"""Real models: the same numbers however they are cut, and as many all-reduces as the cost model says."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="the kernels are torch modules")

from meshwright.kernels import sizes  # noqa: E402
from meshwright.kernels.specs import SPECS, hidden_shape  # noqa: E402
from meshwright.kernels.transformer import (  # noqa: E402
    build_layers,
    build_stage,
    make_input,
    make_stage_input,
    weight_bytes,
)

TINY = ("cpu-bert-tiny", "cpu-gpt-tiny", "cpu-moe-tiny")


class FakeGroup:
    """All-reduce among threads: each leaves its share, all take the sum."""

    def __init__(self, size):
        self.size, self.shares, self.calls = size, [None] * size, []
        self.barrier = threading.Barrier(size, timeout=30)

    def of(self, rank):
        def all_reduce(tensor):
            self.shares[rank] = tensor.clone()
            self.barrier.wait()
            total = sum(self.shares[1:], self.shares[0])
            self.barrier.wait()
            if rank == 0:
                self.calls.append(tensor.numel() * tensor.element_size())
            return total

        return all_reduce

    def run(self, work):
        """``work(rank)`` on a thread each; what they returned."""
        out, errors = [None] * self.size, []

        def one(rank):
            try:
                out[rank] = work(rank)
            except Exception as error:
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return out


def whole(spec, **options):
    return build_stage(spec, 0, spec.n_layers, **options)


@pytest.mark.parametrize("op", [2, 4])
@pytest.mark.parametrize("name", TINY)
def test_a_split_model_computes_what_the_whole_one_does(name, op):
    spec, group = SPECS[name], FakeGroup(op)
    tokens = make_input(spec, 3, seed=5)
    expected = whole(spec, seed=7)(tokens)
    outputs = group.run(lambda r: whole(spec, seed=7, op_rank=r, op_size=op, all_reduce=group.of(r))(tokens))
    for output in outputs:
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
    assert not torch.equal(whole(spec, seed=8)(tokens), expected)


@pytest.mark.parametrize("name", TINY)
def test_all_reduces_are_those_that_the_cost_model_counts(name):
    spec, group = SPECS[name], FakeGroup(2)
    tokens = make_input(spec, 1)
    group.run(lambda r: whole(spec, op_rank=r, op_size=2, all_reduce=group.of(r))(tokens))
    expected = [
        sizes.allreduce_bytes(spec, layer, 2)
        for layer in range(spec.n_layers)
        for _ in range(sizes.allreduces(spec, layer))
    ]
    assert group.calls == expected


@pytest.mark.parametrize("name", TINY)
def test_stages_one_after_another_are_the_model(name):
    spec = SPECS[name]
    tokens = make_input(spec, 2)
    hidden = build_stage(spec, 0, 2, seed=1)(tokens)
    assert tuple(hidden.shape) == hidden_shape(spec, 2)
    assert hidden.numel() * hidden.element_size() == 2 * sizes.output_bytes(spec, 1)
    answer = build_stage(spec, 2, spec.n_layers, seed=1)(hidden)
    assert torch.equal(answer, whole(spec, seed=1)(tokens))
    assert answer.numel() * answer.element_size() == 2 * sizes.output_bytes(spec, spec.n_layers - 1)


@pytest.mark.parametrize("name", TINY)
def test_weights_do_not_depend_on_the_partition(name):
    spec = SPECS[name]
    full = build_layers(spec, seed=3)[2].state_dict()
    alone = build_layers(spec, seed=3, first=2, last=3)[0].state_dict()
    assert all(torch.equal(alone[key], full[key]) for key in full)
    shards = [build_layers(spec, 3, "cpu", r, 2, lambda t: t, first=2, last=3)[0].state_dict() for r in range(2)]
    split = 0
    for key, weight in full.items():
        if shards[0][key].shape == weight.shape:
            assert torch.equal(shards[0][key], weight)
            continue
        axis = next(i for i, (a, b) in enumerate(zip(shards[0][key].shape, weight.shape, strict=True)) if a != b)
        assert torch.equal(torch.cat([shard[key] for shard in shards], dim=axis), weight)
        split += 1
    assert split >= 5


def test_weights_are_drawn_from_the_seed_layer_and_name():
    spec = SPECS["cpu-gpt-tiny"]
    layers = build_layers(spec, seed=3)
    again = build_layers(spec, seed=3)
    assert torch.equal(layers[1].attention.w_qkv, again[1].attention.w_qkv)
    assert not torch.equal(layers[1].attention.w_qkv, layers[2].attention.w_qkv)
    assert not torch.equal(layers[1].attention.w_qkv, build_layers(spec, seed=4)[1].attention.w_qkv)
    assert not any(p.requires_grad for layer in layers for p in layer.parameters())


@pytest.mark.parametrize("op", [1, 2])
@pytest.mark.parametrize("name", TINY)
def test_weight_bytes_are_counted_without_making_weights(name, op):
    spec = SPECS[name]
    split = (lambda tensor: tensor) if op > 1 else None
    made = [
        sum(p.numel() * p.element_size() for p in layer.parameters())
        for layer in build_layers(spec, 0, "cpu", 0, op, split)
    ]
    assert list(weight_bytes(spec, op)) == made


def test_gpt_looks_back_only_and_bert_both_ways():
    for name, causal in (("cpu-gpt-tiny", True), ("cpu-bert-tiny", False)):
        spec = SPECS[name]
        tokens = make_input(spec, 1)
        changed = tokens.clone()
        changed[0, -1] = (changed[0, -1] + 1) % spec.vocab
        stage = build_stage(spec, 0, spec.n_layers - 1)
        before, after = stage(tokens)[0, :-1], stage(changed)[0, :-1]
        assert torch.allclose(before, after, atol=1e-6) == causal


def test_language_head_gives_the_best_token_of_every_position():
    spec = SPECS["cpu-gpt-tiny"]
    hidden = make_stage_input(spec, 1, 2)
    head = build_layers(spec, first=spec.n_layers - 1)[0]
    logits = head.norm(hidden) @ head.w_vocab.T
    token, logit = head(hidden).unbind(-1)
    assert torch.equal(token.long(), logits.argmax(-1))
    torch.testing.assert_close(logit, logits.max(-1).values)


def test_experts_work_on_what_chose_them():
    spec = SPECS["cpu-moe-tiny"]
    experts = build_layers(spec, first=2, last=3)[0].block
    hidden = make_stage_input(spec, 1, 2)
    flat = hidden.reshape(-1, spec.hidden)
    gates = torch.softmax(flat @ experts.gate.T, -1)
    weight, chosen = gates.topk(spec.top_k, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    expected = torch.zeros_like(flat)
    for e in range(spec.experts):
        wanted = torch.where(chosen == e, weight, 0.0).sum(-1)
        kept = wanted.argsort(descending=True)[: spec.capacity(len(flat))]
        inner = torch.nn.functional.gelu(flat[kept] @ experts.w_in[e] + experts.b_in[e])
        expected[kept] += wanted[kept, None] * (inner @ experts.w_out[e] + experts.b_out[e])
    torch.testing.assert_close(experts(hidden), expected.view_as(hidden), rtol=1e-4, atol=1e-5)


def test_inputs_are_the_same_for_the_same_seed():
    spec = SPECS["cpu-gpt-tiny"]
    assert torch.equal(make_input(spec, 2, seed=1), make_input(spec, 2, seed=1))
    assert not torch.equal(make_input(spec, 2, seed=1), make_input(spec, 2, seed=2))
    assert make_input(spec, 2).max() < spec.vocab
    assert make_stage_input(spec, 0, 2).dtype == torch.int64
    assert tuple(make_stage_input(spec, 1, 2).shape) == hidden_shape(spec, 2)


def test_impossible_stages_are_refused():
    spec = SPECS["cpu-gpt-tiny"]
    with pytest.raises(ValueError, match=r"expected 0 <= first < last <= 4 \(got 2 and 2\)"):
        build_stage(spec, 2, 2)
    with pytest.raises(ValueError, match="all_reduce is needed exactly when op_size > 1"):
        build_stage(spec, 0, 1, op_size=2)
    with pytest.raises(ValueError, match="expected 0 <= op_rank < op_size"):
        build_stage(spec, 0, 1, op_rank=2, op_size=2, all_reduce=lambda t: t)
    with pytest.raises(ValueError, match="op degree 3 must divide"):
        build_stage(spec, 0, 1, op_size=3, all_reduce=lambda t: t)
