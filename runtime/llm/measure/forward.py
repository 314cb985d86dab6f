"""Forward passes of the engine's own model on made-up batches; every operator is timed where it runs."""

from __future__ import annotations

# torch is typed in part, and its way of keeping a GPU busy is private.
# pyright: standard
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....kernels.timing import synchronize
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.measure_rounds import Ledger
from ....profiles.llm.measure_sizes import Call
from ....seeds import generator

if TYPE_CHECKING:
    from ..engine.options import EngineConfig

__all__ = ["BY_PASS", "ForwardTimer", "collapse", "layers_timed", "stamp_seconds", "stamped"]

OPERATORS = {
    "embed": "embedding",
    "layernorm": "layernorm",
    "qkv_proj": "qkv_proj",
    "rotary_emb": "rotary_emb",
    "o_proj": "o_proj",
    "up_proj": "gate_up_proj",
    "act_fn": "act_fn",
    "down_proj": "down_proj",
    "lm_head": "lm_head",
}
"""The engine's operator -> what the public format calls it."""

BY_PASS = ("embedding", "forward_rest", "inputs")
"""Dense parts that a pass has once; the others are of one layer."""

TIMED_BYTES = 2 * 2**30
"""Weights above which not all layers are timed: they are alike."""
TIMED_LAYERS = 4
"""Layers that are timed of a large model: more than one, so that a layer does not find its own weights in the caches.
Four are a guess."""
TEXTS = 16
"""How many texts of the longest length tokens are taken from, so that passes differ. A guess."""
AHEAD_CYCLES = 20_000_000
"""GPU cycles that a pass waits for its launches, some 10 ms: so no kernel waits for the host."""


@dataclass(slots=True)
class _Block:
    """A KV block, as far as a batch looks at it."""

    number: int


@contextmanager
def stamped(ledger: Ledger) -> Generator[None, None, None]:
    """Within the block, the operators of `engine.model` book their time in `ledger`."""
    from ..engine import model

    kept = {name: getattr(model, name) for name in OPERATORS}
    try:
        for name, function in kept.items():
            setattr(model, name, ledger.around(OPERATORS[name], function))
        yield
    finally:
        for name, function in kept.items():
            setattr(model, name, function)


def stamp_seconds(ledger: Ledger, calls: int = 2000) -> tuple[float, float]:
    """What a lap before and a lap of an empty function read: what measuring adds to each, seconds; 0 on CUDA."""
    if ledger.on_gpu:
        return 0.0, 0.0
    timed = ledger.around("x", _nothing)
    ledger.start()
    for _ in range(calls):  # a guess: some milliseconds in all, and a median that no interruption moves
        timed(ledger, ledger)
    laps = ledger.stop()
    return float(np.median(laps["<x"])), float(np.median(laps["x"]))


def _nothing(*arguments: Any) -> None:
    """An operator that does nothing."""


def collapse(laps: Mapping[str, Sequence[float]], layers: int, stamp: tuple[float, float]) -> dict[str, float]:
    """Laps of one pass as parts: dense ones and attention of one layer, others of the pass.

    Parameters
    ----------
    laps : mapping
        Name -> seconds of each lap; ``<name``: what came before one.
    layers : int
        Layers of the pass.
    stamp : (float, float)
        What measuring adds to a lap before and to a lap of an operator, seconds.
    """
    before, own = stamp
    clean = {
        name: [max(0.0, lap - (before if name.startswith("<") else own)) for lap in found]
        for name, found in laps.items()
    }
    parts: dict[str, float] = {}
    norms, gaps = clean.pop("layernorm"), clean.pop("<layernorm")
    parts["layernorm"] = sum(norms[:-1]) / (2 * layers)
    parts["final_layernorm_rows"] = norms[-1] + gaps[-1]
    once, rest = gaps[0] + sum(clean.pop("<embedding")), sum(gaps[1:-1])
    parts["lm_head"] = sum(clean.pop("lm_head")) + sum(clean.pop("<lm_head"))
    for name in ("inputs", "sampler", "embedding"):
        parts[name] = sum(clean.pop(name, ()))
    once += sum(clean.pop("forward_rest", ()))
    for name, found in clean.items():
        if name.startswith("<"):
            rest += sum(found)
        else:
            parts[name] = sum(found) / layers
    parts["forward_rest"], parts["layer_rest"] = once, rest / layers
    return parts


class ForwardTimer:
    """A model of the engine on one process, and the batches that it is timed on.

    Parameters
    ----------
    spec : DecoderSpec
        The model.
    calls : sequence of Call
        What it will be timed on: they decide the size of the KV cache.
    options : EngineConfig
        Where and how the engine computes.
    layers, block_size : int
        Layers to time; tokens of a block.
    clock : callable
        What a CPU's times are read from, seconds.
    rank : int
        Which process.
    add_up : callable, optional
        Sums a tensor over the processes of a tensor-parallel model.
    join : callable, optional
        Puts their logits side by side.

    Raises
    ------
    InputError
        If the model cannot be split or run so, or the device has no room for it.
    """

    def __init__(
        self,
        spec: DecoderSpec,
        calls: Sequence[Call],
        options: EngineConfig,
        *,
        layers: int,
        block_size: int,
        clock: Callable[[], float] = time.perf_counter,
        rank: int = 0,
        add_up: Callable[[Any], Any] | None = None,
        join: Callable[[Any], Any] | None = None,
    ) -> None:
        from ..engine.runner import Memory, Runner

        self.layers = layers
        self.block_size, self.ledger = block_size, Ledger(options.device_of(rank), clock)
        longest = max((max((*c.contexts, *(n + b for n, b in c.prefill))) for c in calls), default=1)
        self.blocks = 1 + max((call.blocks(block_size) for call in calls), default=1)
        self.longest = longest
        eager = replace(options, cuda_graphs=False)  # kernels are the same; what graphs save is the host's time
        memory = Memory(self.blocks, 0, block_size, longest)
        self.runner = Runner(replace(spec, layers=self.layers), memory, eager, rank)
        decoder = self.runner.decoder
        decoder.attend = self.ledger.around("attention", decoder.attend)
        if add_up is not None:
            decoder.add_up = self.ledger.around("all_reduce", add_up)
        if join is not None and self.runner.weights.head_split:
            decoder.join = self.ledger.around("lm_head", join)
        self.stamp = stamp_seconds(self.ledger)
        self.stream = generator(options.seed, "llm", "measure", "batches")
        self.order = [_Block(int(number)) for number in 1 + self.stream.permutation(self.blocks - 1)]
        self.text = self.stream.integers(0, spec.vocab, TEXTS * (longest + 1)).tolist()

    def parts(self, call: Call) -> tuple[list[Any], list[Any]]:
        """The sequences of a call as the engine's own records, and its decodes one token earlier.

        Texts and blocks are others every time: those of the requests that come in are in no cache of the device's.
        """
        from ..engine.plan import Live, Piece
        from ..engine.sampling import GREEDY

        found: list[Any] = []
        earlier: list[Any] = []
        used = int(self.stream.integers(len(self.order)))
        wanted = [(context - 1, 1) for context in call.contexts] + [(before, new) for new, before in call.prefill]
        for index, (start, count) in enumerate(wanted):
            need = -(-(start + count) // self.block_size)
            blocks = [self.order[(used + k) % len(self.order)] for k in range(need)]
            place = int(self.stream.integers((TEXTS - 1) * (self.longest + 1)))
            live = Live(index, 0, self.text[place : place + start + count], start + count, GREEDY, None)
            found.append(Piece(live, start, count, blocks, 1))
            if index < len(call.contexts) and start:
                earlier.append(Piece(live, start - 1, 1, blocks, 1))
            used += need
        return found, earlier

    def _led(self, call: Call) -> list[Any]:
        """The sequences of a call, after the pass that comes before it in service: of its decodes, if it has any."""
        parts, earlier = self.parts(call)
        if earlier:
            self._run(earlier)
        return parts

    def once(self, call: Call) -> dict[str, float]:
        """One pass: seconds of its parts (`collapse`)."""
        ledger = self.ledger
        parts = self._led(call)
        with stamped(ledger):
            if ledger.on_gpu:
                import torch

                torch.cuda._sleep(AHEAD_CYCLES)
            ledger.start()
            self._run(parts)
            laps = ledger.stop()
        return collapse(laps, self.layers, self.stamp)

    def whole(self, call: Call) -> float:
        """Seconds of one pass without any stamp in it: what the parts must add up to."""
        parts = self._led(call)
        if self.ledger.on_gpu:
            import torch

            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(AHEAD_CYCLES)
            start.record()
            self._run(parts)
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e-3
        begun = self.ledger.clock()
        self._run(parts)
        return self.ledger.clock() - begun

    def launch_seconds(self, call: Call, passes: int = 20) -> float:
        """Host seconds to queue one pass, the device left to run behind; median."""
        packed = self._packed(self.parts(call)[0])
        found: list[float] = []
        for _ in range(passes):
            synchronize(self.ledger.device)
            begun = time.perf_counter()
            self.runner.run(packed)
            found.append(time.perf_counter() - begun)
        return float(np.median(found))

    def _packed(self, parts: Any) -> Any:
        from ..engine.plan import lay_out

        return lay_out(parts, self.block_size).fill()

    def _run(self, parts: Any) -> None:
        from ..engine.sampling import GREEDY, choose

        ledger, n = self.ledger, len(parts)
        packed = self._packed(parts)
        ledger.stamp("inputs")
        logits = self.runner.run(packed)
        assert logits is not None
        ledger.stamp("forward_rest")
        choose(logits, [GREEDY] * n, [0.0] * n)
        ledger.stamp("sampler")


def layers_timed(spec: DecoderSpec, number_bytes: int, tp: int) -> int:
    """Layers that are timed: all, unless the weights are large; they are alike."""
    whole = spec.weights * number_bytes / tp
    return spec.layers if whole <= TIMED_BYTES else min(spec.layers, TIMED_LAYERS)
