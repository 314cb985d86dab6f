"""`load_numpy`: NumPy with one thread for its linear algebra."""

from __future__ import annotations

import os

__all__ = ["load_numpy"]

THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Load NumPy, whose OpenBLAS starts as many threads as there are cores, and lets each of them spin for a while.

    No command of ours multiplies matrices that are worth a second thread: on two cores that costs 0.05 CPU seconds for
    nothing, on more it costs more. With one thread sums do not depend on the number of cores, either. What is set in
    the environment stands, and programs that are started later get it as it was.
    """
    if THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]
    finally:
        del os.environ[THREADS]
