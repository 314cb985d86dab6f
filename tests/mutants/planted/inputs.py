"""Mutants of what simulations start from: traces, profiles, cost models."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "milliseconds-of-another-unit",
        "inputs",
        "wrong factor",
        (
            (
                "traces/files/tabular.py",
                'UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}',
                'UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e6}',
            ),
        ),
        ("tests/traces/test_csv.py", "tests/traces/test_parquet.py"),
        "A trace in nanoseconds would be a thousand times too slow.",
    ),
    Mutant(
        "calls-of-the-minute-before",
        "inputs",
        "off by one",
        (
            (
                "traces/azure/maf1.py",
                "counts: LongArray = table[minutes[first:last]].to_numpy()",
                "counts: LongArray = table[minutes[max(first - 1, 0) : last - (first > 0)]].to_numpy()",
            ),
        ),
        ("tests/traces/test_azure.py",),
        "A slice of a day would hold calls from a minute before it.",
    ),
    Mutant(
        "cv-with-n-gaps",
        "inputs",
        "off by one",
        (
            (
                "traces/fit.py",
                "own = np.sqrt(square / (gap_count - 1)) / mean",
                "own = np.sqrt(square / gap_count) / mean",
            ),
        ),
        ("tests/traces/test_fit.py",),
        "Burstiness of windows with few arrivals would be fitted too low.",
    ),
    Mutant(
        "timestamps-of-mooncake-in-seconds",
        "inputs",
        "wrong factor",
        (("traces/llm/lines.py", 'said["timestamp"]) / 1e3', 'said["timestamp"])'),),
        ("tests/simulator/llm/test_workload.py", "tests/traces/test_llm_logs.py"),
        "A published trace would come a thousand times slower.",
    ),
    Mutant(
        "all-reduce-for-one-request",
        "inputs",
        "missing term",
        (
            (
                "profiles/comm.py",
                "n_bytes = np.array([layer.allreduce_bytes for layer in table.layers]) * batch",
                "n_bytes = np.array([layer.allreduce_bytes for layer in table.layers])",
            ),
        ),
        ("tests/profiles/test_compose.py",),
        "Batches would be all-reduced at the price of one request.",
    ),
    Mutant(
        "last-stage-of-a-node-stays-inside",
        "inputs",
        "swapped link",
        (
            (
                "profiles/comm.py",
                "(config.op >= node or (stage + 1) * config.op % node == 0)",
                "(config.op >= node or stage * config.op % node == 0)",
            ),
        ),
        ("tests/profiles/test_compose.py",),
        "The transfer that crosses nodes would be another one.",
    ),
    Mutant(
        "fp8-cache-of-two-bytes",
        "inputs",
        "wrong factor",
        (("profiles/llm/cost/attention.py", 'return 1 if self.kv == "fp8" else 2', "return 2"),),
        ("tests/profiles/llm/cost/test_theory.py",),
        "An fp8 cache would be no faster to read.",
    ),
    Mutant(
        "embedding-counted-once",
        "inputs",
        "missing term",
        (
            (
                "profiles/llm/decoder.py",
                "return blocks + self.embedding_weights + self.head_weights",
                "return blocks + self.embedding_weights",
            ),
        ),
        ("tests/profiles/llm/test_decoder.py", "tests/profiles/llm/test_experts.py"),
        "Models with an output layer of their own would be lighter than they are.",
    ),
    Mutant(
        "draws-of-functions-with-drift",
        "inputs",
        "wrong factor",
        (("traces/azure/synthetic.py", "noise[1:] *= math.sqrt(1.0 - keep * keep)", "noise[1:] *= 1.0 - keep"),),
        ("tests/traces/test_synthetic.py",),
        "Rates would hardly drift: the process is not the stationary one that it says.",
    ),
)
