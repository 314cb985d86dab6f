"""Published runs that were found later beside the estimates; the package keeps them, for its accuracy page."""

from __future__ import annotations

from meshwright.reproduce.accuracy.published.later import chosen, main, reported

__all__ = ["chosen", "main", "reported"]

if __name__ == "__main__":
    main()
