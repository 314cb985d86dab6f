"""The engine's state as Prometheus text, under the names that vLLM gives its own."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

__all__ = ["Counters", "Histogram", "prometheus"]

# vLLM's buckets (its ``metrics/loggers.py``) but for the longest, so that dashboards made for vLLM can be used.
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)


class Histogram:
    """Counts of values up to each bound.

    Parameters
    ----------
    bounds : tuple of float
        Ascending.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        """As Prometheus text."""
        found, total = [f"# TYPE {name} histogram"], 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
        return [*found, f"{name}_count{{{labels}}} {total}", f"{name}_sum{{{labels}}} {self.sum!r}"]


@dataclass(slots=True)
class Counters:
    """Counts since the server's start.

    Parameters
    ----------
    prompt_tokens, generation_tokens, preemptions : int
        Tokens of processed prompts; generated tokens; preemptions.
    cache_queries, cache_hits : int
        Prompt tokens looked up in the prefix cache, and found.
    success : dict of str to int
        Finished requests by reason.
    ttft, latency : Histogram
        Seconds to the first token, and to the last.
    """

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    success: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT_BUCKETS))
    latency: Histogram = field(default_factory=lambda: Histogram(LATENCY_BUCKETS))


def prometheus(counters: Counters, model: str, running: int, waiting: int, usage: float) -> str:
    """The text of `/metrics`.

    Parameters
    ----------
    counters : Counters
        What has happened.
    model : str
        Name of the model, a label.
    running, waiting : int
        Requests that hold device memory, and that wait for it.
    usage : float
        Share of the KV blocks in use.
    """
    quoted = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    labels = f'engine="0",model_name="{quoted}"'
    lines: list[str] = []
    for name, kind, value in (
        ("num_requests_running", "gauge", float(running)),
        ("num_requests_waiting", "gauge", float(waiting)),
        ("kv_cache_usage_perc", "gauge", usage),
        ("num_preemptions_total", "counter", float(counters.preemptions)),
        ("prefix_cache_queries_total", "counter", float(counters.cache_queries)),
        ("prefix_cache_hits_total", "counter", float(counters.cache_hits)),
        ("prompt_tokens_total", "counter", float(counters.prompt_tokens)),
        ("generation_tokens_total", "counter", float(counters.generation_tokens)),
    ):
        lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{{{labels}}} {value}"]
    lines.append("# TYPE vllm:request_success_total counter")
    lines += [
        f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(count)}'
        for reason, count in counters.success.items()
    ]
    lines += counters.ttft.lines("vllm:time_to_first_token_seconds", labels)
    lines += counters.latency.lines("vllm:e2e_request_latency_seconds", labels)
    return "\n".join(lines) + "\n"
