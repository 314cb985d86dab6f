"""Mutants of the sharing world: fairness, leases, restarts, policies, the arbiter's books."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "ideal-time-on-more-than-there-is",
        "sharing",
        "missing term",
        (
            (
                "simulator/sharing/result/columns.py",
                "[a.total_work_s / min(n, a.max_gpus) for a in self.world.apps]",
                "[a.total_work_s / a.max_gpus for a in self.world.apps]",
            ),
            (
                "simulator/sharing/policy/agent.py",
                "return self.contention * work / min(self.cluster_gpus, self.app.max_gpus)",
                "return self.contention * work / self.app.max_gpus",
            ),
            (
                "simulator/sharing/compiled/arrays.py",
                "app.total_work_s / min(n, app.max_gpus) for app in apps]",
                "app.total_work_s / app.max_gpus for app in apps]",
            ),
        ),
        ("tests/simulator/sharing/test_wider.py",),
        "Apps wider than the cluster would look treated worse than they are, everywhere alike.",
    ),
    Mutant(
        "ideal-time-of-agents-alone",
        "sharing",
        "missing term",
        (
            (
                "simulator/sharing/policy/agent.py",
                "return self.contention * work / min(self.cluster_gpus, self.app.max_gpus)",
                "return self.contention * work / self.app.max_gpus",
            ),
            (
                "simulator/sharing/compiled/arrays.py",
                "app.total_work_s / min(n, app.max_gpus) for app in apps]",
                "app.total_work_s / app.max_gpus for app in apps]",
            ),
        ),
        ("tests/simulator/sharing/test_wider.py",),
        "Results would be right, and decisions made by a wrong T_id, in both engines.",
    ),
    Mutant(
        "contention-of-those-that-are-there",
        "sharing",
        "wrong factor",
        (
            (
                "simulator/sharing/compiled/loop.py",
                "s.clock[0] += s.clock[2] * (now - s.clock[1])",
                "s.clock[0] += (s.clock[2] - 0.5) * (now - s.clock[1])",
            ),
            (
                "simulator/sharing/reference/engine.py",
                "self.integral += len(self.active) * (now - self.counted_at)",
                "self.integral += (len(self.active) - 0.5) * (now - self.counted_at)",
            ),
        ),
        ("tests/simulator/sharing/test_closed_forms.py",),
        "N_avg would be half an app too small in both engines, and every ρ too large.",
    ),
    Mutant(
        "restart-without-checkpoint",
        "sharing",
        "missing term",
        (
            (
                "simulator/sharing/compiled/split.py",
                "s.resumes[e] = up + (w.checkpoint if s.begun[e] < now else 0.0)",
                "s.resumes[e] = up",
            ),
            (
                "simulator/sharing/reference/engine.py",
                "resumes = up + (world.checkpoint_s if job.begun < now else 0.0)",
                "resumes = up",
            ),
        ),
        ("tests/simulator/sharing/test_closed_forms.py",),
        "Preemption would be cheaper than it is.",
    ),
    Mutant(
        "lease-of-another-length",
        "sharing",
        "off by one",
        (
            (
                "simulator/sharing/compiled/loop.py",
                "give(s, given, _lease_end(w, now) if preempts else np.inf)",
                "give(s, given, _lease_end(w, now) + w.container if preempts else np.inf)",
            ),
            (
                "simulator/sharing/reference/engine.py",
                "self.world.lease_end_s(self.env.now))\n        over = ",
                "self.world.lease_end_s(self.env.now) + self.world.container_s)\n        over = ",
            ),
        ),
        ("tests/simulator/sharing/test_closed_forms.py",),
        "Leases would begin when the containers are up.",
    ),
    Mutant(
        "slowdown-of-the-nearest-link",
        "sharing",
        "swapped link",
        (
            (
                "simulator/sharing/compiled/split.py",
                "    s.rate[e] = min(gpus.shape[0], w.cap[e]) / w.slowdown[a, level]",
                "    s.rate[e] = min(gpus.shape[0], w.cap[e]) / w.slowdown[a, max(level - 1, 0)]",
            ),
            (
                "simulator/sharing/policy/split.py",
                "return min(len(gpus), cap) / slowdown.levels[cluster.level(gpus)]",
                "return min(len(gpus), cap) / slowdown.levels[max(cluster.level(gpus) - 1, 0)]",
            ),
        ),
        ("tests/simulator/sharing/test_metrics.py", "tests/simulator/sharing/test_placement.py"),
        "Jobs across machines would run as fast as within one.",
    ),
    Mutant(
        "drf-of-what-is-given-alone",
        "sharing",
        "missing term",
        (
            (
                "simulator/sharing/policy/baselines.py",
                "key=lambda v: (self.key(cluster, v, have[v.index]), v.index)",
                "key=lambda v: (self.key(cluster, v, have[v.index][len(v.held) :]), v.index)",
            ),
            (
                "simulator/sharing/compiled/policies.py",
                "score[i] = float(has[i]) if code == 3",
                "score[i] = float(has[i] - s.n_gpus[apps[i]] + s.over[apps[i]]) if code == 3",
            ),
        ),
        ("tests/simulator/sharing/test_policies.py",),
        "Dominant shares would forget what an app holds already.",
    ),
    Mutant(
        "last-of-equal-apps",
        "sharing",
        "wrong tie",
        (
            (
                "simulator/sharing/compiled/policies.py",
                "if room[i] > 0 and (first < 0 or key[i] < key[first]):",
                "if room[i] > 0 and (first < 0 or key[i] <= key[first]):",
            ),
            (
                "simulator/sharing/policy/contract.py",
                "key=lambda v: (self.key(v), v.index)",
                "key=lambda v: (self.key(v), -v.index)",
            ),
        ),
        ("tests/simulator/sharing/test_closed_forms.py",),
        "Of equals the last would be served first, in both engines.",
    ),
    Mutant(
        "jain-of-one-fewer",
        "sharing",
        "off by one",
        (
            (
                "simulator/sharing/result/metrics.py",
                "return float(x.sum() ** 2 / (len(x) * (x**2).sum()))",
                "return float(x.sum() ** 2 / ((len(x) - 1) * (x**2).sum()))",
            ),
        ),
        ("tests/simulator/sharing/test_metrics.py",),
        "Jain's index of equals would be above 1.",
    ),
    Mutant(
        "payments-for-who-starves",
        "sharing",
        "lost case",
        (
            (
                "planners/themis/auction.py",
                "if other != app and log > STARVED and with_app[other] > STARVED:",
                "if other != app and log > STARVED:",
            ),
        ),
        ("tests/planners/themis/test_mechanism.py", "tests/planners/themis/test_engines.py"),
        "An app beside which another cannot run would keep nothing of what it won.",
    ),
    Mutant(
        "participants-round-down",
        "sharing",
        "off by one",
        (
            (
                "planners/themis/policy.py",
                "n = max(1, math.ceil((1 - self.fairness) * len(apps) - 1e-9))",
                "n = max(1, math.floor((1 - self.fairness) * len(apps) + 1e-9))",
            ),
            (
                "planners/themis/kernels/rounds.py",
                "int(np.ceil((1 - rules.fairness) * apps.shape[0] - 1e-9))",
                "int(np.floor((1 - rules.fairness) * apps.shape[0] + 1e-9))",
            ),
        ),
        ("tests/planners/themis/test_mechanism.py::test_the_worst_share_of_all_apps_take_part",),
        "One app fewer than the worst 1 − f would take part in auctions, in both engines.",
    ),
    Mutant(
        "gang-that-fits-exactly-waits",
        "sharing",
        "off by one",
        (
            (
                "simulator/sharing/policy/split.py",
                "if counts[j.job] == 0 and j.gang <= spare:",
                "if counts[j.job] == 0 and j.gang < spare + (j.gang == 1):",
            ),
            (
                "simulator/sharing/compiled/split.py",
                "if counts[k] == 0 and gang[jobs[k]] <= spare and",
                "if counts[k] == 0 and gang[jobs[k]] < spare + (gang[jobs[k]] == 1) and",
            ),
        ),
        ("tests/simulator/sharing/test_gangs.py", "tests/simulator/sharing/test_closed_forms.py"),
        "A gang would need a GPU more than it has tasks, in both engines.",
    ),
)
