"""What the models of an LLM case are asked for: requests that are drawn, or read."""

from __future__ import annotations

from ...errors import InputError
from ...planners.vllm import DrawnTraffic, GivenTraffic, LLMDemand
from ...planners.vllm.demand import LengthPairs, LengthSource, SpreadOutputs, WithImages
from ...profiles.llm import DecoderSpec
from ...profiles.llm.tower import images_of
from ...simulator.llm.workload.requests import LLMTrace
from ...traces.splits import shares
from .case import LLMCase
from .data import LLMData
from .kinds import check_room, image_tokens

__all__ = ["demand_of", "demands_of", "squeezed"]

FEWEST, LONGEST_S, MOST = 2000, 120.0, 20_000
"""What is drawn, all models together, where nobody says how long: so many requests, or those of so many seconds if that
is more (what is overloaded a little looks fine for a while), but no more than so many."""


def demands_of(case: LLMCase, data: LLMData) -> list[LLMDemand]:
    """What each model of a case is asked for; models without traffic are left out.

    Another `rate_scale` stretches the same gaps, and moves no length.
    """
    w, said, images = case.workload, case.workload.promises, images_of(case.workload.images)
    specs = [data.models[name] for name in case.models]
    if w.trace is not None:
        held = data.traces[w.trace]
        if len(specs) == 1 and len(held) == 1:
            held = {specs[0].name: next(iter(held.values()))}
        return [
            LLMDemand(
                spec, given(case, held[spec.name], image_tokens(images, spec)), said.ttft_s, said.tpot_s,
                slo=said.objectives, images=images, expert_skew=w.expert_skew,
            )
            for spec in specs
        ]  # fmt: skip
    parts = shares(w.split, [spec.name for spec in specs])
    rate = w.requests or 0.0 if w.rate is None else w.rate  # of clients without a rate: a second for all requests
    if w.requests is not None:
        seconds = w.requests / rate
    else:
        seconds = w.duration or min(max(FEWEST / rate, LONGEST_S), MOST / rate)
    rates = [rate * float(part) for part in parts]

    def lengths_of(spec: DecoderSpec) -> LengthSource:
        found = _with_images(data.lengths[w.lengths], image_tokens(images, spec))
        return found if w.clients.output_cv is None else SpreadOutputs(found, w.clients.output_cv)

    return [
        LLMDemand(
            spec,
            DrawnTraffic(
                lengths_of(spec),
                rate * w.rate_scale,
                max(1, round(rate * seconds)),
                w.cv * w.cv_scale,
                number,
                tuple(w.classes.items()),
                w.clients.clients(w.cv * w.cv_scale),
            ),
            said.ttft_s,
            said.tpot_s,
            slo=said.objectives,
            images=images,
            expert_skew=w.expert_skew,
        )
        for number, (spec, rate) in enumerate(zip(specs, rates, strict=True))
        if rate > 0
    ]


def _with_images(lengths: LengthSource, tokens: int) -> LengthSource:
    """Lengths with the tokens of images: before shipped texts; what was measured has them in it."""
    if isinstance(lengths, LengthPairs):
        check_room(tokens, lengths.prompt, lengths.name)
        return lengths
    return WithImages(lengths, tokens) if tokens else lengths


def given(case: LLMCase, trace: LLMTrace, image_tokens: int = 0) -> GivenTraffic:
    """Requests that were read, as the case's clients send them; prompts hold the tokens of their images."""
    w, clients = case.workload, case.workload.clients.clients(1.0)
    source = w.trace or ""
    check_room(image_tokens, trace.prompt_tokens, source)
    found = squeezed(trace, w.rate_scale)
    if clients is None:
        return GivenTraffic(found, source)
    if clients.rateless:
        if found.after is not None:
            raise InputError("clients.arrivals: the turns of conversations come when they are answered; leave it out")
        return GivenTraffic(found.at(**clients.columns(len(found), 0.0, case.seed), clients=clients), source)
    return GivenTraffic(found.at(found.arrival, clients=clients), source)


def demand_of(case: LLMCase, data: LLMData) -> LLMDemand:
    """What the one model of a case is asked for.

    Raises
    ------
    InputError
        If there are several.
    """
    found = demands_of(case, data)
    if len(case.models) > 1:
        raise InputError(f"model: expected one model here (got {', '.join(case.models)})")
    return found[0]


def squeezed(trace: LLMTrace, factor: float) -> LLMTrace:
    """The same requests, so many times as fast."""
    if factor == 1:
        return trace
    return trace.at(trace.arrival / factor)
