"""Names that other systems accept, made from names that Meshwright accepts: unique, stable, and never code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable

__all__ = ["dns_names", "file_names"]

MAX_DNS = 50
"""A DNS-1123 label holds 63 characters; StatefulSets append an ordinal and a revision hash to theirs."""


def dns_names(names: Iterable[str]) -> dict[str, str]:
    """Name -> DNS-1123 label (lower-case letters, digits, ``-``; begins with a letter, ends with either)."""
    return _unique(names, _dns, MAX_DNS)


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Name -> folder name of letters, digits, ``_``, ``-`` and inner dots; unique on any file system."""
    return _unique(names, lambda name: re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-."), 100)


def _dns(name: str) -> str:
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return label if label[:1].isalpha() else f"m-{label}".rstrip("-")


def _unique(names: Iterable[str], clean: Callable[[str], str], limit: int) -> dict[str, str]:
    """Names that change get a hash of what they were; so two that are cleaned to the same text stay two."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    ordered = list(dict.fromkeys(names))
    for name in sorted(ordered, key=lambda n: clean(n) != n):  # those that need no change come first and keep theirs
        short = clean(name)[:limit].strip("-.")
        if short != name or short.lower() in taken or not short:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            short = f"{short[: limit - 9].rstrip('-.') or 'm'}-{digest}"
        taken.add(short.lower())
        found[name] = short
    return {name: found[name] for name in ordered}
