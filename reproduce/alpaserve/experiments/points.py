"""Results of a long sweep, kept point by point, so that an interrupted one goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from .... import __version__
from ....files import readable, write_text

__all__ = ["Points"]


class Points:
    """Finished points of one sweep, in a JSON file that is there only while the sweep is unfinished.

    Parameters
    ----------
    path : Path
        The file.
    settings : str
        Everything that the points depend on; a file of other settings or another version is not used.
    """

    def __init__(self, path: Path, settings: str) -> None:
        self._path = path
        self._settings = f"meshwright {__version__}: {settings}"
        self._values: dict[str, float] = {}
        try:
            held = json.loads(readable(path).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return
        if isinstance(held, dict) and held.get("settings") == self._settings:
            self._values = {str(k): float(v) for k, v in held["points"].items()}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> float | None:
        """The value of a point, None if it is not finished."""
        return self._values.get(key)

    def put(self, key: str, value: float) -> float:
        """Keep a point, writing it to disk at once; returns its value."""
        self._values[key] = value
        write_text(self._path, json.dumps({"settings": self._settings, "points": self._values}))
        return value

    def close(self) -> None:
        """Remove the file, as the sweep is finished."""
        self._path.unlink(missing_ok=True)
