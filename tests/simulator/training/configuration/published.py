"""Published Megatron-LM measurements beside the estimates; the package keeps them, for its accuracy page."""

from __future__ import annotations

from meshwright.reproduce.accuracy.published.megatron import Point, main, points

__all__ = ["Point", "main", "points"]

if __name__ == "__main__":
    main()
