"""Beam search, parallel sampling and shared prefixes in one batch: block sharing against sets of token paths."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMRequest, LLMTrace, SwapCost, drive, simulate_llm
from meshwright.simulator.llm.compiled.engine import why_not_compiled
from meshwright.simulator.llm.decoding.genealogy import CHUNK, REMEMBERED, Genealogy
from meshwright.simulator.llm.memory.accounting import memory_use
from meshwright.simulator.llm.policy.catalogue import POLICIES
from meshwright.simulator.llm.policy.request import Status
from meshwright.simulator.llm.policy.vllm02 import Vllm02Config, Vllm02Scheduler
from meshwright.simulator.llm.world import World

COST = LinearCost(base_s=0.01, token_s=1e-4, context_s=1e-6)


class Told:
    """Beams whose parents a test decides, once for each step."""

    def __init__(self, decide):
        self.decide, self.asked = decide, {}

    def parents(self, request, step):
        if (request.id, step) not in self.asked:
            self.asked[request.id, step] = tuple(self.decide(request, step))
        return self.asked[request.id, step]


def scheduler(decide, **config):
    options = {"num_gpu_blocks": 100, "num_cpu_blocks": 100, "block_size": 4, "max_model_len": 64, "watermark": 0.0}
    return Vllm02Scheduler(Vllm02Config(**{**options, **config}), Told(decide))


def run(engine, steps):
    decisions = []
    for _ in range(steps):
        decisions.append(engine.schedule())
        engine.complete(decisions[-1])
    return decisions


def tables(engine, group):
    return [[b.number for b in engine.memory.tables[s.number]] for s in group.sequences]


def test_a_beam_without_children_gives_its_blocks_back_and_the_first_child_goes_on_in_place():
    # Two beams over a full prompt block: each writes a block of its own; then both children are of beam 1.
    engine = scheduler(lambda request, step: (1, 1) if step == 2 else (0, 1))
    group = engine.add(LLMRequest("a", 4, 6, best_of=2, beam=True))
    run(engine, 2)
    first, second = group.sequences
    step = engine.schedule()
    assert engine.memory.gpu.free_blocks == 100 - 3
    shared, own = tables(engine, group)[1]
    engine.complete(step)
    assert first.status is Status.FINISHED
    assert group.sequences[0] is second
    assert group.sequences[1].number == second.number + 1
    assert tables(engine, group) == [[shared, own], [shared, own]]
    assert engine.memory.gpu.free_blocks == 100 - 2
    step = engine.schedule()  # both write into the shared block: one copies it, the other one has it then alone
    assert [pair[0] for pair in step.copies] == [own]
    assert engine.memory.gpu.free_blocks == 100 - 3


def test_beams_that_diverged_at_a_full_block_copy_nothing():
    engine = scheduler(lambda request, step: (0, 0))
    group = engine.add(LLMRequest("a", 4, 9, best_of=2, beam=True))
    copies = [len(step.copies) for step in run(engine, 8)]
    # After the prompt a new block each. Tokens 6, 7 and 8 go into a block that the dead beam's heir shares.
    assert copies == [0, 0, 1, 1, 1, 0, 1, 1]
    assert {s.length for s in group.sequences} == {4 + 8}


def test_thesis_figure_5_9():
    """Four beams of 4 blocks; 0-2 share three, 3 only the first; then 1 and 2 have two children each."""

    # The prompt fills one block. In the step after it beam 3 goes its own way; the others have one ancestor until the
    # third block is full, and part in the fourth; the last decision is that of the figure's dotted line.
    def decide(request, step):
        if step <= 8:
            return (0, 0, 0, 3)
        return (1, 1, 2, 2) if step == 12 else (0, 1, 2, 3)

    engine = scheduler(decide)
    group = engine.add(LLMRequest("a", 4, 20, best_of=4, beam=True))
    run(engine, 12)
    step = engine.schedule()
    # Before: 1 shared by all, 2 of beams 0-2, 3 of their fourths, 3 of beam 3.
    before = engine.memory.gpu.size - engine.memory.gpu.free_blocks
    assert before == 1 + 2 + 3 + 3
    engine.complete(step)
    rows = tables(engine, group)
    assert len(set(itertools.chain(*rows))) == 1 + 2 + 2  # blocks 0, 1, 3; 6 of the first two, 7 of the others
    assert rows[0][:4] == rows[1][:4]
    assert rows[2][:4] == rows[3][:4]
    assert rows[0][3] != rows[2][3]


def test_a_wrong_answer_of_the_survivors_is_said():
    for wrong in ((0,), (0, 2), (-1, 0)):
        engine = scheduler(lambda request, step, wrong=wrong: wrong)
        engine.add(LLMRequest("a", 4, 6, best_of=2, beam=True))
        with pytest.raises(RunError, match=r"'a': survivors: expected 2 places"):
            run(engine, 2)


def test_the_door_of_drive_gives_beams_no_new_parents():
    beams = drive("vllm-0.2", {"num_gpu_blocks": 50}, [LLMRequest("a", 20, 30, best_of=4, beam=True)])
    samples = drive("vllm-0.2", {"num_gpu_blocks": 50}, [LLMRequest("a", 20, 30, best_of=4)])
    assert beams == samples


KINDS = st.sampled_from(["greedy", "samples", "beams"])
DRAWN = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 14), st.integers(0, 12), st.integers(1, 4), KINDS, st.integers(-1, 1)),
    min_size=1,
    max_size=6,
)


@given(DRAWN, st.integers(1, 5), st.integers(24, 60), st.booleans(), st.integers(0, 99))
@settings(max_examples=examples(40, anew=120), deadline=None)
def test_blocks_are_what_sets_of_token_paths_say(drawn, size, room, prefixes, seed):
    """Each step: distinct (block, tokens up to its end) of all sequences = the pools' used blocks; shares as well."""
    rng = random.Random(seed)
    known = (3, 9) if prefixes else ()
    reserved = sum(-(-n // size) for n in known)
    survivors = Told(lambda request, step: [rng.randrange(request.best_of) for _ in range(request.best_of)])
    config = Vllm02Config(
        num_gpu_blocks=-(-room * 4 // size) + reserved,
        num_cpu_blocks=300,
        block_size=size,
        max_num_seqs=9,
        max_model_len=64,
        prefixes=known,
    )
    engine = Vllm02Scheduler(config, survivors)
    fresh = itertools.count()
    paths = {}  # request -> token path of each of its sequences, in order
    arrivals = []
    for k, (prompt, output, at, several, kind, prefix) in enumerate(drawn):
        best_of = 1 if kind == "greedy" else several
        place = prefix if prefixes and prefix >= 0 else None
        head = [("prefix", place, i) for i in range(known[place])] if place is not None else []
        arrivals.append(
            (at, LLMRequest(k, len(head) + prompt, output, at, best_of, kind == "beams", shared_prefix=place))
        )
        paths[k] = [(*head, *(next(fresh) for _ in range(prompt)))]
    arrivals.sort(key=lambda pair: pair[0])
    step = finished = 0
    while arrivals or engine.waiting or engine.running or engine.swapped:
        while arrivals and arrivals[0][0] <= step:
            engine.add(arrivals.pop(0)[1])
        decision = engine.schedule()
        if decision.kind == "idle" and engine.swapped and not engine.running:
            return  # a pool that cannot hold the group at all: the engines say so
        now = {g.request.id for g in decision.scheduled}
        mirror = {"gpu": {}, "cpu": {}}
        for n, tokens in enumerate(known):
            path = [("prefix", n, i) for i in range(tokens)]
            for i in range(-(-tokens // size)):
                mirror["gpu"][i, tuple(path[: (i + 1) * size])] = 1
        for group, pool in [(g, "gpu") for g in engine.running] + [(g, "cpu") for g in engine.swapped]:
            request = group.request
            full = known[request.shared_prefix] // size if request.shared_prefix is not None else 0
            for path in paths[request.id]:
                # Of who is not in this step the newest token has no slot yet.
                cached = path if request.id in now else path[:-1]
                for i in range(-(-len(cached) // size)):
                    key = i, tuple(cached[: (i + 1) * size])
                    where = mirror["gpu" if i < full else pool]
                    where[key] = where.get(key, 0) + 1
        memory = engine.memory
        assert memory.gpu.size - memory.gpu.free_blocks == len(mirror["gpu"])
        assert memory.cpu.size - memory.cpu.free_blocks == len(mirror["cpu"])
        used = {id(b): b for t in [*memory.tables.values(), *memory.prefixes] for b in t}
        assert sorted(b.shares for b in used.values()) == sorted(
            itertools.chain(*(m.values() for m in mirror.values()))
        )
        assert sum(g.max_running for g in engine.running) <= 9
        assert sum(vars_of(memory_use(engine))) == pytest.approx(1)
        for group in decision.scheduled:
            request, old = group.request, paths[group.request.id]
            token = group.sequences[0].output
            if token == 0:
                old = old * request.best_of
            elif request.beam and request.best_of > 1:
                old = [old[place] for place in survivors.parents(request, token)]
            paths[request.id] = [(*path, next(fresh)) for path in old]
        finished += len(engine.complete(decision)) + len(decision.ignored)
        step += 1
        assert step < 3000
    assert finished == len(drawn)
    assert engine.memory.gpu.free_blocks == engine.memory.gpu.size - reserved
    assert engine.memory.cpu.free_blocks == engine.memory.cpu.size
    assert engine.memory.idle_reserved == reserved


def vars_of(use):
    return use.used, use.reserved, use.internal, use.rounding, use.free


def test_parents_depend_on_seed_request_and_step_only():
    request, other = LLMRequest("a", 4, 500, best_of=4, beam=True), LLMRequest("b", 9, 500, best_of=4, beam=True)
    forward = Genealogy(7, 0.5)
    ahead = [forward.parents(request, step) for step in range(1, 3 * CHUNK)]
    back = Genealogy(7, 0.5)
    mixed = {}
    for step in reversed(range(1, 3 * CHUNK)):
        back.parents(other, step)
        mixed[step] = back.parents(LLMRequest("a", 50, 1, 9.0, best_of=4, beam=True), step)
    assert ahead == [mixed[step] for step in range(1, 3 * CHUNK)]
    assert ahead != [Genealogy(8, 0.5).parents(request, step) for step in range(1, 3 * CHUNK)]
    assert ahead != [forward.parents(other, step) for step in range(1, 3 * CHUNK)]
    few = Genealogy(7, 0.5)
    for k in range(REMEMBERED + 10):  # what is forgotten is drawn again, the same
        few.parents(LLMRequest(k, 1, 9, best_of=4, beam=True), 1)
    assert len(few._chunks) == REMEMBERED
    assert few.parents(LLMRequest(0, 1, 9, best_of=4), 3) == Genealogy(7, 0.5).parents(
        LLMRequest(0, 1, 9, best_of=4), 3
    )


@pytest.mark.parametrize(("k", "survival"), [(2, 0.0), (2, 0.8), (5, 0.3)])
def test_two_beams_have_one_parent_as_often_as_the_model_says(k, survival):
    """(1 - survival^2) / k: both places drawn, or one of them drawn to the other's."""
    genealogy, steps = Genealogy(3, survival), 20_000
    request = LLMRequest("a", 1, steps, best_of=k, beam=True)
    same = [genealogy.parents(request, step) for step in range(1, steps)]
    often = np.mean([row[0] == row[-1] for row in same])
    expected = (1 - survival**2) / k
    assert often == pytest.approx(expected, abs=4 * (expected / steps) ** 0.5)
    assert Genealogy(3, 1.0).parents(request, 5) == tuple(range(k))


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), True])
def test_a_survival_is_a_chance(bad):
    with pytest.raises(InputError, match="survival: expected a chance"):
        Genealogy(0, bad)
    with pytest.raises(InputError, match="seed"):
        Genealogy(-1)


def trace(n=30, **columns):
    given = {"best_of": [1, 2, 4] * (n // 3), "beam": [False, False, True] * (n // 3), **columns}
    return LLMTrace(np.arange(n) * 0.05, [20] * n, [30] * n, **given)


def serve(requests, policy="vllm-0.2", **more):
    config = {"num_slots": 1600} if policy.startswith("orca") else {"num_gpu_blocks": 100, "num_cpu_blocks": 400}
    swap = SwapCost(10, 10_000) if policy == "vllm-0.2" else None
    return simulate_llm(
        requests, policy=policy, config={**config, **more.pop("config", {})}, cost=COST, **llm_asked(swap=swap, **more)
    )


def test_a_trace_tells_greedy_samples_and_beams_apart():
    mixed = trace()
    assert [mixed.request(k).beam for k in range(3)] == [False, False, True]
    assert mixed.select(slice(2, 5)).beam.tolist() == [True, False, False]
    assert mixed.to_frame().beam.tolist() == mixed.beam.tolist()
    again = LLMTrace.of([mixed.request(k) for k in range(len(mixed))])
    np.testing.assert_array_equal(again.beam, mixed.beam)
    assert LLMTrace.of([LLMRequest(0, 3, 3)]).beam is None
    with pytest.raises(InputError, match="beam: expected true or false"):
        trace(beam=[2] * 30)
    with pytest.raises(InputError, match="beam: expected true or false"):
        LLMRequest("a", 1, 1, beam=1)


def test_a_mixed_batch_is_served_and_the_same_seed_gives_the_same_beams():
    ours, again, other = serve(trace()), serve(trace()), serve(trace(), seed=1)
    assert ours.finished.all()
    assert ours.generated.tolist() == [30] * 30
    np.testing.assert_array_equal(ours.finish, again.finish)
    assert ours.memory_saving != other.memory_saving
    assert 0 < ours.memory_saving < 0.75
    assert serve(trace(best_of=[1] * 30)).memory_saving == 0.0
    for reserve in ("max", "pow2", "oracle"):
        plain = serve(trace(), f"orca-{reserve}", config={"max_model_len": 128})
        assert plain.finished.all()
        assert plain.memory_saving == 0.0


def test_orca_takes_chunks_for_all_beams_and_shares_nothing():
    engine = POLICIES["orca-oracle"].scheduler(POLICIES["orca-oracle"].config(num_slots=256))
    group = engine.add(LLMRequest("a", 20, 12, best_of=4, beam=True))
    engine.schedule()
    assert [chunk.size for chunk in group.chunks] == [32] * 4


def test_samples_save_what_arithmetic_says():
    """n samples of a prompt of 8 full blocks over 16 tokens of output: each has one block of its own, then two."""
    one = LLMTrace([0.0], [128], [17], best_of=[3])
    result = serve(one, config={"watermark": 0.0})
    # The prompt's step: 8 blocks of one sequence. Then 16 tokens in one block each: of 27 blocks 16 are saved.
    assert result.iterations.shared_tokens.tolist() == [0] + [16 * 16] * 16
    length = result.iterations.end - result.iterations.start
    assert result.memory_saving == pytest.approx(16 / 27 * length[1:].sum() / length.sum())


def test_beams_are_compiled_unless_something_else_says_who_survives():
    policy = POLICIES["vllm-0.2"]

    def why(requests, survivors=None, **options):
        config = policy.config(num_gpu_blocks=100, **options)
        world = World(requests, policy, config, COST, None, 1, None, None, False, frozenset(), survivors)
        return why_not_compiled(world, "round_robin")

    assert why(trace(), Genealogy(3)) is None
    assert why(trace(), Told(lambda request, step: (0, 1))) == "survivors of type Told are not compiled"
    assert why(trace(), None) == "beams without survivors are not compiled"
    # Who has no beams needs no survivors.
    assert why(trace(beam=None)) is None
    assert why(trace(best_of=[1] * 30)) is None
    assert why(trace(best_of=None, beam=None), prefixes=(8,)) is None


def test_a_reserved_prefix_is_mapped_its_last_block_copied_and_only_the_rest_computed():
    engine = scheduler(lambda request, step: (0, 1), prefixes=(10,))
    assert engine.memory.gpu.free_blocks == 100 - 3
    group = engine.add(LLMRequest("a", 14, 3, shared_prefix=0))
    plain = engine.add(LLMRequest("b", 14, 3))
    step = engine.schedule()
    prefix = [block.number for block in engine.memory.prefixes[0]]
    assert tables(engine, group)[0][:2] == prefix[:2]
    assert step.copies == [(prefix[2], tables(engine, group)[0][2])]
    assert len(set(tables(engine, group)[0]) - set(prefix)) == 2
    assert len(set(tables(engine, plain)[0]) & set(prefix)) == 0
    work = POLICIES["vllm-0.2"].work(engine, step, False)
    assert work.iteration.prefill == ((4, 10), (14, 0))
    assert work.cached == {"a": 10}
    # 8 blocks of sequences; of the 9 that are held one is reserved and idle, the prefix's last.
    assert work.shared_tokens == 0
    while engine.running:
        engine.complete(step)
        step = engine.schedule()
    assert engine.memory.gpu.free_blocks == 100 - 3


def test_a_full_prefix_needs_no_copy_and_requests_share_it():
    engine = scheduler(lambda request, step: (0, 1), prefixes=(8, 4))
    for name, place in (("a", 0), ("b", 0), ("c", 1)):
        engine.add(LLMRequest(name, 12, 3, best_of=2, shared_prefix=place))
    step = engine.schedule()
    assert step.copies == []
    assert step.num_batched_tokens == 3 * 8  # padded to c's eight
    assert engine.memory.gpu.free_blocks == 100 - 3 - (1 + 1 + 2)
    work = POLICIES["vllm-0.2"].work(engine, step, False)
    assert work.shared_tokens == 2 * 4  # b's two prompt blocks are a's


def test_prefixes_that_do_not_fit_are_said():
    with pytest.raises(InputError, match="prefixes: need 100 blocks"):
        scheduler(None, prefixes=(63,) * 6 + (16,))
    with pytest.raises(InputError, match="prefixes: expected lengths"):
        scheduler(None, prefixes=(64,))
    engine = scheduler(None, prefixes=(8,))
    with pytest.raises(InputError, match="shared_prefix 1: prefixes has 1"):
        engine.add(LLMRequest("a", 12, 3, shared_prefix=1))
    with pytest.raises(InputError, match="does not go beyond"):
        engine.add(LLMRequest("a", 8, 3, shared_prefix=0))
    with pytest.raises(InputError, match="request 0: shared_prefix 3"):
        serve(LLMTrace([0.0], [20], [5], shared_prefix=[3]), config={"prefixes": (8,)})
    with pytest.raises(InputError, match="shared_prefix: expected a place"):
        LLMRequest("a", 1, 1, shared_prefix=-1)
    # 100 blocks less a watermark of 1 and a prefix of 5: 94 beside the 4 full ones of the prefix, so 98 in all.
    big = {"max_model_len": 2048, "max_num_batched_tokens": 2048, "prefixes": (70,)}
    assert serve(LLMTrace([0.0], [98 * 16], [1], shared_prefix=[0]), config=big).finished.all()
    with pytest.raises(InputError, match="needs 95 blocks, num_gpu_blocks 100 less the watermark and the reserved"):
        serve(LLMTrace([0.0], [99 * 16], [1], shared_prefix=[0]), config=big)
