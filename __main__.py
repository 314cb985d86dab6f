"""``python -m meshwright`` and the ``meshwright`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors are one line each, exit codes as in the documentation."""
    from .cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
