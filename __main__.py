"""``python -m meshwright`` and the ``meshwright`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Each error is printed as one line; docs/ lists the exit codes."""
    from .cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
