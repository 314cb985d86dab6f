"""`decoder`: models by name, shipped or of a config.json."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import readable
from .decoder import DecoderSpec
from .decoder_names import shape_named
from .zoo import DECODERS

__all__ = ["decoder"]


def decoder(name: str, *, ignore: Collection[str] = ()) -> DecoderSpec:
    """A shipped model by name, or the model of a config.json file.

    Parameters
    ----------
    name : str
        Name, or the path of a file that ends in ``.json``.
    ignore : collection of str
        Fields of the file that are taken as if they were not there (`DecoderSpec.from_config`).

    Raises
    ------
    InputError
        If there is none (names the nearest), or the file holds what is not modelled.
    """
    given: Any = name
    if not isinstance(given, str):
        raise InputError(f"model: expected a name or the path of a config.json (got {given!r})")
    if isinstance(ignore, str) or (ignore and not name.endswith(".json")):
        raise InputError(f"ignore: expected a list of fields of a config.json (got {ignore!r} for {name})")
    if name in DECODERS:
        return DECODERS[name]
    if name.endswith(".json"):
        path = Path(name)
        try:
            said = json.loads(readable(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None
        if not isinstance(said, dict):
            raise InputError(f"{path}: expected the fields of a config.json (got {type(said).__name__})")
        return DecoderSpec.from_config(said, path.parent.name or path.stem, ignore=ignore)
    short = name.rpartition("/")[2]
    found = shape_named(short, DECODERS)
    if found is not None:
        return found
    by_short = {known.lower(): spec for known, spec in DECODERS.items()}
    near = difflib.get_close_matches(short.lower(), by_short, n=1)
    hint = f"did you mean {by_short[near[0]].name!r}?" if near else f"shipped: {', '.join(DECODERS)}"
    raise InputError(f"model: unknown model {name!r}; {hint}; a config.json works, too")
