"""``python -m meshwright`` and the ``meshwright`` command."""

from __future__ import annotations

import gc
import sys

YOUNG = 100_000
"""Objects made and not freed between two searches for cycles. By Python's 700 a command that only loads its modules
searches more than two hundred times, a tenth of its time; cycles of so many objects are some ten MB."""


def main() -> None:
    """Run the command line. Each error is printed as one line; docs/ lists the exit codes."""
    gc.set_threshold(YOUNG)
    from .cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
