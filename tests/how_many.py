"""How many examples a test draws: few of what is dear where the same are drawn every time, more where all are new."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]


def examples(fixed: int, *, anew: int) -> int:
    """For ``max_examples``: in `make test` and in `make test-all` (tests/conftest.py loads the profile first)."""
    return fixed if settings.default is not None and settings.default.derandomize else anew
