"""Mutants of the planners: bounds, programmes, prices; a plan that is not the best looks like one that is."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "bound-that-cuts-attainable-work",
        "planners",
        "wrong bound",
        (
            (
                "planners/alpaserve/bound.py",
                "op[:, None] * instance.weight[configs].sum(axis=2), np.inf).min(axis=0)",
                "op[:, None] * instance.weight[configs].sum(axis=2), np.inf).max(axis=0)",
            ),
        ),
        ("tests/planners/alpaserve/test_bound.py",),
        "Replicas would be counted at their largest: a bound below what can be attained.",
    ),
    Mutant(
        "device-time-of-one-device",
        "planners",
        "missing term",
        (
            (
                "planners/alpaserve/bound.py",
                "work = instance.configs[c].op * np.nansum(instance.latency[c], axis=1)",
                "work = instance.configs[c].n_devices * np.nansum(instance.latency[c], axis=1)",
            ),
        ),
        ("tests/planners/alpaserve/test_bound.py",),
        "A pipeline would keep all of its devices busy all the time: the bound is none.",
    ),
    Mutant(
        "stage-front-drops-ties",
        "planners",
        "wrong bound",
        (
            (
                "planners/alpa/stage_kernel.py",
                "        if front_later[i, j, k, c] >= s - 1:",
                "        if front_later[i, j, k, c] >= s:",
            ),
        ),
        ("tests/planners/alpa/test_stage_dp.py",),
        "A stage that holds exactly what it must would be refused.",
    ),
    Mutant(
        "stages-by-their-sum",
        "planners",
        "missing term",
        (("planners/alpa/stage_kernel.py", "if s * f[s, 0, n_devices] < value:", "if f[s, 0, n_devices] < value:"),),
        ("tests/planners/alpa/test_stage_dp.py",),
        "The min-max twin would cut into too many stages.",
    ),
    Mutant(
        "dominated-but-for-memory",
        "planners",
        "lost case",
        (
            (
                "planners/alpa/solver/presolve.py",
                "beaten &= (needs[:, :, None] >= needs[:, None, :]).all(axis=0)",
                "beaten &= (needs[:, :, None] >= needs[:, None, :]).any(axis=0)",
            ),
        ),
        ("tests/planners/alpa/solver/test_followers.py",),
        "Under memory limits a strategy would go that is the only one to fit.",
    ),
    Mutant(
        "one-more-in-flight",
        "planners",
        "off by one",
        (
            (
                "planners/alpa/inter/memory.py",
                'return min(n_stages if schedule == "zb_h1" else n_stages - stage, microbatches)',
                'return min(n_stages if schedule == "zb_h1" else n_stages - stage + 1, microbatches)',
            ),
        ),
        ("tests/planners/alpa/inter/test_shapes_and_memory.py", "tests/planners/alpa/inter/test_plan.py"),
        "Plans would be refused whose first stage fits exactly.",
    ),
    Mutant(
        "interleaved-weight",
        "planners",
        "off by one",
        (
            (
                "planners/alpa/inter/interleave.py",
                "weight = microbatches * virtual + meshes - meshes * virtual",
                "weight = microbatches * virtual - meshes * virtual",
            ),
        ),
        ("tests/planners/alpa/inter/test_interleave.py",),
        "The stage programme would forget the time in which an interleaved pipeline fills.",
    ),
    Mutant(
        "longest-slice-below-its-threshold",
        "planners",
        "wrong bound",
        (
            (
                "planners/terapipe/slice_kernel.py",
                "value = base + t if t <= threshold else np.inf",
                "value = base + t if t < threshold else np.inf",
            ),
            (
                "planners/terapipe/slice_kernel.py",
                "if t <= threshold and totals[context] + t == totals[end]:",
                "if t < threshold and totals[context] + t == totals[end]:",
            ),
        ),
        ("tests/planners/terapipe/test_slicing.py",),
        "The slicing whose longest slice is the threshold would be left out: no optimum.",
    ),
    Mutant(
        "replicas-sync-half",
        "planners",
        "wrong factor",
        (
            (
                "planners/pipedream/kernel.py",
                "                reduce = 4 * (m - 1) * size / (bandwidth * m) / within\n                row[m - 1]",
                "                reduce = 2 * (m - 1) * size / (bandwidth * m) / within\n                row[m - 1]",
            ),
        ),
        ("tests/planners/pipedream/test_authors.py",),
        "PipeDream's replicas would exchange half of their gradients.",
    ),
    Mutant(
        "result-crosses-one-way",
        "planners",
        "wrong factor",
        (
            (
                "planners/pipedream/kernel.py",
                "t = max(t, 2 * out[k] / (bandwidth * m) / compression)",
                "t = max(t, out[k] / (bandwidth * m) / compression)",
            ),
        ),
        ("tests/planners/pipedream/test_authors.py",),
        "Gradients would come back for nothing.",
    ),
    Mutant(
        "in-flight-table-row-10",
        "planners",
        "missing term",
        (
            (
                "planners/graphpipe/schedule/in_flight.py",
                "more = np.where(y < b_x, x - y + b_x,",
                "more = np.where(y < b_x, x - y,",
            ),
        ),
        ("tests/planners/graphpipe/test_in_flight.py",),
        "A stage with large microbatches would be planned to hold too few samples.",
    ),
    Mutant(
        "pairs-within-the-threshold-dropped",
        "planners",
        "wrong bound",
        (
            (
                "planners/piper/downsets_kernel.py",
                "rest = (all_work - work[head] + work[state]) / threshold * (1 - 1e-9)",
                "rest = (all_work - work[head] + work[state]) / threshold * (1 + 1e-2)",
            ),
        ),
        ("tests/planners/piper/test_downset_pairs.py",),
        "A stage that leaves exactly enough devices for the rest would be cut off: no optimum.",
    ),
    Mutant(
        "piper-sync-of-all-d",
        "planners",
        "wrong factor",
        (
            (
                "planners/piper/kernel.py",
                "left = (threshold - 4 * (d - 1) * weights / d / microbatches / bandwidth) * d",
                "left = (threshold - 4 * weights / microbatches / bandwidth) * d",
            ),
            (
                "planners/piper/kernel.py",
                "reduce = 4 * (d - 1) * weights[at] / d / microbatches / bandwidth",
                "reduce = 4 * weights[at] / microbatches / bandwidth",
            ),
        ),
        ("tests/planners/piper/test_authors.py",),
        "One replica would pay for synchronising with nobody.",
    ),
    Mutant(
        "further-tokens-of-all-tokens",
        "planners",
        "off by one",
        (
            (
                "simulator/llm/result/columns.py",
                "(self.finish - self.first_token) / (self.generated - 1), np.nan)",
                "(self.finish - self.first_token) / self.generated, np.nan)",
            ),
        ),
        ("tests/planners/vllm/test_parts.py", "tests/simulator/llm/result/test_result.py"),
        "Plans would be ranked by a time per token that is too small.",
    ),
    Mutant(
        "gradients-added-up-in-half",
        "planners",
        "missing term",
        (("planners/alpa/intra/memory.py", "cut = 0 if _adds_up(pricing.options) else gradient", "cut = 0"),),
        ("tests/planners/alpa/intra/test_memory.py",),
        "With one microbatch gradients would take no memory.",
    ),
)
