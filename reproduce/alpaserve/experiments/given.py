"""The user's own download of the Azure Functions traces, in place of synthetic traffic of their character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .... import traces
from ....errors import InputError
from ....traces.azure.maf1 import day_files
from ....traces.reading import sniff
from .systems import WINDOW_S, Traffic

__all__ = ["Given"]

CHARACTERS = {"azure2019": "MAF1", "azure2021": "MAF2"}
"""Format -> the trace's name in the paper."""
BEGINS_S = {"MAF1": 0.0, "MAF2": 12 * 86400.0}
"""Where the authors' artifact begins: the first hour of the first day; the thirteenth day."""
HOUR_S = 3600.0
KEPT = (0.05, 0.01)
"""Share of MAF1's some 10,000 calls a second that is read: of up to an hour, and of more. Calls are counted by the
minute and only counts are used (§6.2's windows; CVs are set), so this adds the scatter of a smaller count."""
WHOLE_BYTES = 20e6
"""A file up to this is read whole: a day of the trace has some hundred megabytes, an excerpt less."""


@dataclass(frozen=True, slots=True)
class Given:
    """Files of the traces, None where there is none.

    Parameters
    ----------
    maf1 : Path or None
        A day's file of the trace of 2019, or the folder of them.
    maf2 : Path or None
        The file of the trace of 2021.
    """

    maf1: Path | None = None
    maf2: Path | None = None

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Given:
        """Tell by their content which is which.

        Raises
        ------
        InputError
            If a file is of neither trace, or two are of one.
        """
        found: dict[str, Path] = {}
        for path in paths:
            form = sniff(path)
            if form not in CHARACTERS:
                raise InputError(
                    f"trace: {path}: expected a file or folder of Azure Functions traces, 2019 or 2021 (got {form})"
                )
            if CHARACTERS[form] in found:
                raise InputError(
                    f"trace: {path}: {CHARACTERS[form]} was given already; files of several days go into one folder"
                )
            found[CHARACTERS[form]] = path
        return cls(found.get("MAF1"), found.get("MAF2"))

    def path(self, character: str) -> Path | None:
        """The file of one trace."""
        return self.maf1 if character == "MAF1" else self.maf2

    def __bool__(self) -> bool:
        return self.maf1 is not None or self.maf2 is not None

    def traffic(
        self, character: str, models: Sequence[str], rate: float, windows: int, window_s: float, seed: int
    ) -> Traffic:
        """Traffic of one trace: functions dealt to models in turn, fitted per window, at `rate` in all.

        Parameters are those of `Traffic.of`.

        Raises
        ------
        InputError
            If the trace was not given, or the file is not as published.
        """
        path = self.path(character)
        if path is None:
            raise InputError(f"trace: no file of {character} was given")
        length, begin = WINDOW_S[character], BEGINS_S[character]
        seconds = windows * length
        options = {"thin": _kept(path, seconds), "seed": seed} if character == "MAF1" else {}
        bare = traces.read(path, models=models, start=begin, stop=begin + seconds, **options)
        fitted = traces.fit_gamma(bare, length, duration=seconds)
        # Rates are multiples of the default's, so that grids stay those of the figure.
        dense = len(bare) / seconds / rate
        return Traffic(character, replace(fitted, edges=fitted.edges * (window_s / length)), dense)

    def note(self) -> str:
        """What a report says of them."""
        named = [
            f"{name}: {path.name}" for name, path in (("MAF1", self.maf1), ("MAF2", self.maf2)) if path is not None
        ]
        return (
            f"traffic: the traces themselves ({', '.join(named)}), functions dealt to models in turn, fitted per "
            "window and resampled as in §6.2, scaled to the default rates"
        )


def _kept(path: Path, seconds: float) -> float:
    """The share of MAF1's calls that is read."""
    size = max(file.stat().st_size for _, file in day_files(path))
    return 1.0 if size <= WHOLE_BYTES else KEPT[seconds > HOUR_S]
