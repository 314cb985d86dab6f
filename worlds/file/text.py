"""Plain data as YAML text that every reader, ours included, reads as the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from .values import Trap, scalar

__all__ = ["to_yaml"]


class _Dumper(yaml.SafeDumper):
    """Writes lists and mappings of scalars on one line, and quotes text that looks like anything else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    try:
        plain = text.isprintable() and scalar(text, plain=True) == text
    except Trap:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(data: Mapping[str, Any]) -> str:
    """The text of a YAML file that says `data`: text, numbers, booleans, None, lists and dicts with text keys."""
    return yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )
