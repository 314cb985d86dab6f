"""`meshwright reproduce` for many figures: the gallery, and whether verdicts are those that were kept."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import typer

from ..errors import InputError
from .status import status

if TYPE_CHECKING:
    from ..reproduce.batch import Batch, Failed
    from ..reproduce.made import Made

__all__ = ["check", "gallery"]


def _say(done: int, total: int, line: str) -> None:
    print(f"[{done}/{total}] {line}", file=sys.stderr, flush=True)


def _made(batch: Batch, ready: dict[str, Made], label: str) -> tuple[list[Made], list[Failed]]:
    """What is ready and what is made now, in the batch's order; and what could not be made."""
    from ..reproduce.batch import Failed, make

    failures: list[Failed] = []
    if ready:
        _say(len(ready), len(batch.names), "are there already")
    todo = [name for name in batch.names if name not in ready]
    begun = time.monotonic()
    with status(label) as say:
        for one in make(batch, todo, say) if todo else ():
            if isinstance(one, Failed):
                failures.append(one)
                line = f"{one.name}: not made: {one.why}"
            else:
                ready[one.name] = one
                line = f"{one.name}: {one.seconds:.0f} s"
            _say(len(ready) + len(failures), len(batch.names), f"{line} ({time.monotonic() - begun:.0f} s in all)")
    return [ready[name] for name in batch.names if name in ready], failures


def gallery(batch: Batch) -> int:
    """Make what the folder lacks, then the page over all of it; 1 if a figure could not be made."""
    from ..files import check_target, write_text
    from ..reproduce.gallery import page

    index = batch.out / "index.html"
    check_target(index)
    made, failures = _made(batch, batch.held(), "gallery")
    write_text(index, page(made, failures, out=str(batch.out)))
    typer.echo(f"{len(made)} figures and tables; written: {index}")
    return 1 if failures else 0


def check(batch: Batch, as_json: bool) -> int:
    """Make the figures, all of them anew, and hold their verdicts against those that are kept; 1 if one is another."""
    from ..files import check_target
    from ..reproduce.verdicts import changes, load

    kept = load()
    mode = "fast" if batch.fast else "full"
    lacking = [name for name in batch.names if mode not in kept.get(name, {})]
    if lacking:
        raise InputError(
            f"reproduce: --check: no {mode} verdicts are kept of {', '.join(lacking)}; --remember keeps them"
        )
    for name in batch.names:
        check_target(batch.out / f"{name}.json")
    made, failures = _made(batch, {}, "check")
    lines = [line for one in made for line in changes(one.name, one.claims, kept[one.name][mode])]
    lines += [f"{one.name}: not made: {one.why}" for one in failures]
    if as_json:
        typer.echo(json.dumps(lines, indent=1, ensure_ascii=False))
    else:
        for line in lines:
            typer.echo(line)
        typer.echo(
            f"{len(batch.names)} figures and tables: {len(lines)} verdicts differ from those kept"
            if lines
            else f"{len(batch.names)} figures and tables: verdicts as kept"
        )
    return 1 if lines else 0
