"""Mutants of the serving world: dispatch, admission, batching, what its figures rest on."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "last-of-equal-queues",
        "serving",
        "wrong tie",
        (
            (
                "simulator/serving/policy/controller.py",
                "if best is None or key < best[0]:",
                "if best is None or key <= best[0]:",
            ),
            (
                "simulator/serving/compiled/kernel.py",
                "best = min(best, (ahead << _PAIR_BITS) | p)\n    return best & _PAIR_MASK",
                "best = min(best, (ahead << _PAIR_BITS) | (_PAIR_MASK - p))\n"
                "    return _PAIR_MASK - (best & _PAIR_MASK)",
            ),
            (
                "simulator/serving/compiled/kernel.py",
                "best = min(best, (queued[g] << _PAIR_BITS) | p)\n    return best & _PAIR_MASK",
                "best = min(best, (queued[g] << _PAIR_BITS) | (_PAIR_MASK - p))\n"
                "    return _PAIR_MASK - (best & _PAIR_MASK)",
            ),
        ),
        ("tests/simulator/serving/test_semantics.py", "tests/simulator/serving/test_engines_agree.py"),
        "Of equally long queues the last would get the request, in both engines.",
    ),
    Mutant(
        "on-the-deadline-is-late",
        "serving",
        "off by one",
        (("simulator/serving/policy/controller.py", "TOLERANCE_S = 1e-9", "TOLERANCE_S = -1e-9"),),
        ("tests/simulator/serving/test_semantics.py", "tests/simulator/serving/test_invariants.py"),
        "A request that finishes on its deadline would be rejected, and not count, everywhere alike.",
    ),
    Mutant(
        "overhead-not-in-admission",
        "serving",
        "missing term",
        (
            (
                "simulator/serving/policy/controller.py",
                "if self.admission and finish > deadline + TOLERANCE_S:",
                "if self.admission and ends[-1] > deadline + TOLERANCE_S:",
            ),
            (
                "simulator/serving/compiled/kernel.py",
                "in_time = done <= now + slo[i] + TOLERANCE_S",
                "in_time = t <= now + slo[i] + TOLERANCE_S",
            ),
        ),
        ("tests/simulator/serving/test_semantics.py", "tests/simulator/serving/test_invariants.py"),
        "Both engines would take requests that the overhead makes late.",
    ),
    Mutant(
        "batch-as-tight-as-its-last",
        "serving",
        "wrong bound",
        (
            (
                "simulator/serving/policy/batching.py",
                "tightest = min(tightest, queue[members][1])",
                "tightest = queue[members][1]",
            ),
            (
                "simulator/serving/compiled/batching.py",
                "tightest = min(tightest, arrival[r] + slo[r] + TOLERANCE_S)",
                "tightest = arrival[r] + slo[r] + TOLERANCE_S",
            ),
        ),
        ("tests/simulator/serving/test_invariants.py", "tests/simulator/serving/test_semantics.py"),
        "A batch would wait for its newest request's deadline and miss those of the others, in both engines.",
    ),
    Mutant(
        "hop-keeps-the-stage",
        "serving",
        "missing term",
        (
            (
                "simulator/serving/policy/controller.py",
                "            ends.append(t)\n            t += hop",
                "            t += hop\n            ends.append(t)",
            ),
            (
                "simulator/serving/compiled/kernel.py",
                "        clock[spare, k] = t\n        t += wire",
                "        t += wire\n        clock[spare, k] = t",
            ),
        ),
        ("tests/simulator/serving/test_engines_agree.py",),
        "A stage would be busy while its result travels: less throughput than there is.",
    ),
    Mutant(
        "erlang-c-of-lost-calls",
        "serving",
        "missing term",
        (("simulator/serving/queueing.py", "blocked / (1 - load / c * (1 - blocked))", "blocked / (1 - load / c)"),),
        ("tests/simulator/serving/test_queueing_formulas.py",),
        "The yardstick of several servers would be wrong itself.",
    ),
    Mutant(
        "one-degree-of-freedom-more",
        "serving",
        "off by one",
        (
            (
                "simulator/metrics.py",
                "stdtrit(len(x) - 1, 0.5 + confidence / 2)",
                "stdtrit(len(x), 0.5 + confidence / 2)",
            ),
        ),
        ("tests/simulator/test_metrics.py",),
        "Intervals of few replications would be too narrow: differences called real that are noise.",
    ),
    Mutant(
        "trim-keeps-the-end",
        "serving",
        "lost case",
        (
            (
                "simulator/serving/result.py",
                "counted = (arrival >= arrival[0] + warmup_s) & (arrival <= arrival[-1] - warmup_s)",
                "counted = arrival >= arrival[0] + warmup_s",
            ),
        ),
        ("tests/simulator/serving/test_result.py",),
        "The tail, in which queues empty, would count.",
    ),
    Mutant(
        "fastest-device-of-a-stage",
        "serving",
        "wrong factor",
        (("simulator/serving/compiled/real.py", "most = max(most, ratio(", "most = min(most + 1e9, ratio("),),
        ("tests/simulator/serving/test_conditions_agree.py",),
        "A stage on several devices would take the last one's factor, in the compiled engine.",
    ),
    Mutant(
        "comes-back-with-its-old-clocks",
        "serving",
        "missing term",
        (("simulator/serving/compiled/real.py", "clock[g, k] = real[g, k] = now", "clock[g, k] = now"),),
        ("tests/simulator/serving/test_conditions_agree.py",),
        "A group that comes back would first work off what it lost, in the compiled engine.",
    ),
    Mutant(
        "places-of-their-own",
        "serving",
        "wrong factor",
        (
            (
                "simulator/draws.py",
                "return spread.window_s, recorded[np.arange(devices) % len(recorded)][:, index]",
                "return spread.window_s, np.stack([np.roll(recorded[d % len(recorded)], 7 * d)[index] for d in "
                "range(devices)])",
            ),
        ),
        ("tests/simulator/test_draws.py",),
        "Devices that were slow together would be slow at times of their own.",
    ),
    Mutant(
        "turnaround-forgotten",
        "serving",
        "missing term",
        (("runtime/serving/measure/service.py", "took = found.seconds + turnaround", "took = found.seconds"),),
        ("tests/runtime/serving/test_in_service.py",),
        "Stages would be free for the next job the moment that they have computed.",
    ),
)
