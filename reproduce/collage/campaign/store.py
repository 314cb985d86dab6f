"""Campaigns as JSON files: read with a check of every part, written whole after each part."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ....errors import InputError
from ....files import readable, write_text
from ....profiles.backends.document import made
from .records import Campaign

__all__ = ["SHIPPED", "load", "save"]

SHIPPED = Path(__file__).parents[2] / "data" / "collage.json"
"""The campaign that the package ships; the machine stands in it."""

FORM, VERSION = "meshwright-collage-campaign", 1
REMEDY = "measure the campaign again, into another file"


def save(campaign: Campaign, path: str | Path) -> Path:
    """Write it, whole or not at all."""
    document = {"format": FORM, "version": VERSION, **asdict(campaign)}
    return write_text(path, json.dumps(_short(document), allow_nan=False, ensure_ascii=False) + "\n")


def load(path: str | Path = SHIPPED) -> Campaign:
    """Read one.

    Raises
    ------
    InputError
        If it cannot be read, is none, of another version, or damaged; one line that names the file and the part.
    """
    try:
        found = json.loads(readable(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path}: damaged: not JSON ({str(error)[:80]}); {REMEDY}") from None
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (FORM, VERSION):
        raise InputError(f"{path}: expected a campaign, format {FORM!r}, version {VERSION}; {REMEDY}")
    return made(Campaign, found, str(path), REMEDY)


def _short(value: object) -> object:
    """Numbers to five digits: what is measured has fewer."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list | tuple) else value
