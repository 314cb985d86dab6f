"""Mutants of what runs and of what is handed on: the dispatcher, the arbiter's books, exports, studies."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "drift-added-twice",
        "runtime",
        "missing term",
        (
            (
                "simulator/serving/policy/following.py",
                "self._shift(job.group, end - job.end - self._drift[job.group])",
                "self._shift(job.group, end - job.end)",
            ),
        ),
        ("tests/runtime/serving/test_dispatcher.py",),
        "The controller's clocks would run away from reality within a busy period.",
    ),
    Mutant(
        "waiting-after-a-batch",
        "runtime",
        "off by one",
        (
            (
                "runtime/serving/dispatcher.py",
                "self.waiting -= len(dropped) + (len(job.requests) if job is not None else 0)",
                "self.waiting -= len(dropped) + (1 if job is not None else 0)",
            ),
        ),
        ("tests/runtime/serving/test_dispatcher.py",),
        "The controller would believe that requests wait when none do.",
    ),
    Mutant(
        "lease-ends-after-its-instant",
        "runtime",
        "wrong tie",
        (
            (
                "runtime/sharing/arbiter/ledger.py",
                "while self.next_lease_s() <= now_s:",
                "while self.next_lease_s() < now_s:",
            ),
        ),
        (
            "tests/runtime/sharing/test_parts.py::test_books_of_a_lease_by_hand",
            "tests/runtime/sharing/test_parts.py::test_an_old_lease_ends_no_new_one",
        ),
        "A lease that is over now would not be offered now.",
    ),
    Mutant(
        "old-lease-takes-new-grant",
        "runtime",
        "leaked block",
        (("runtime/sharing/arbiter/ledger.py", "number = max(self._lease) + 1", "number = max(self._lease)"),),
        (
            "tests/runtime/sharing/test_parts.py::test_books_of_a_lease_by_hand",
            "tests/runtime/sharing/test_parts.py::test_an_old_lease_ends_no_new_one",
        ),
        "The end of an old lease would offer GPUs that were granted anew.",
    ),
    Mutant(
        "triton-layer-past-the-cut",
        "runtime",
        "off by one",
        (("runtime/export/triton.py", '"last": str(held.cuts[k + 1]),', '"last": str(held.cuts[k + 1] - 1),'),),
        ("tests/runtime/export/test_triton.py",),
        "An exported pipeline would leave a layer out at each cut.",
    ),
    Mutant(
        "pods-of-the-largest-node",
        "runtime",
        "wrong factor",
        (
            (
                "runtime/export/k8s.py",
                "per_pod = math.gcd(*(len(devices) for devices in places.values()))",
                "per_pod = max(*(len(devices) for devices in places.values()), 1)",
            ),
        ),
        ("tests/runtime/export/test_k8s.py",),
        "Where nodes have unequal shares a pod would ask for more GPUs than its node has.",
    ),
    Mutant(
        "surely-by-the-better-end",
        "runtime",
        "wrong bound",
        (
            (
                "studies/questions/bisection.py",
                "return self.holds(estimate.high if self.at_most else estimate.low)",
                "return self.holds(estimate.low if self.at_most else estimate.high)",
            ),
        ),
        ("tests/studies/test_questions.py",),
        "A study would be sure of what is only possible.",
    ),
    Mutant(
        "best-of-more-devices",
        "runtime",
        "wrong tie",
        (
            (
                "studies/headline.py",
                "float(np.nan_to_num(size[mine]).mean()), decision)",
                "-float(np.nan_to_num(size[mine]).mean()), decision)",
            ),
        ),
        ("tests/studies/test_summary.py",),
        "Of equally good plans the headline would take the dearest.",
    ),
)
