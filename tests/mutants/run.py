"""Plants mutants one by one in a copy of the tree and says which the related tests catch.

    python tests/mutants/run.py                      all of them
    python tests/mutants/run.py sharing lost-swap    those of a world, or by name
    python tests/mutants/run.py --list

A mutant is caught when a test fails: not when nothing could be collected, a fixture broke, or time ran out. The same
tests must pass before, in the same copy.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).parent))

from catalogue import MUTANTS
from copied import Copy, Outcome, copied
from mutant import WORLDS, Mutant, MutantError

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """0: enough were caught; 1: too few; 2: something could not be tried."""
    parser = argparse.ArgumentParser(description="Plant mutants and see which the related tests catch.")
    parser.add_argument("names", nargs="*", help=f"mutants, or worlds ({', '.join(WORLDS)}); by default all")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--workers", type=int, default=1, help="copies that are tried beside each other")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for the tests of one mutant")
    parser.add_argument("--at-least", type=float, default=0.95, help="share that must be caught")
    parser.add_argument("--verbose", action="store_true", help="the end of what pytest said of those not caught")
    options = parser.parse_args(argv)
    try:
        chosen = choose(MUTANTS, options.names)
        for mutant in MUTANTS:
            mutant.planted(ROOT)
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        for m in chosen:
            print(f"{m.world:<9} {m.name:<34} {m.kind:<13} {', '.join(m.files)}: {m.why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return _run(chosen, Path(folder), options)


def choose(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Those of these names or worlds, by world.

    Raises
    ------
    MutantError
        If a name is of none.
    """
    known = {*WORLDS, *(m.name for m in mutants)}
    for name in names:
        if name not in known:
            raise MutantError(f"no mutant and no world is called {name!r}; --list says which there are")
    some = [m for m in mutants if not names or m.name in names or m.world in names]
    return sorted(some, key=lambda m: WORLDS.index(m.world))


def _run(chosen: Sequence[Mutant], folder: Path, options: argparse.Namespace) -> int:
    first = Copy.of(ROOT, folder / "0")
    sound = set[str]()
    for world in dict.fromkeys(m.world for m in chosen):
        tests = tuple(dict.fromkeys(test for m in chosen if m.world == world for test in m.tests))
        outcome = first.run(tests, limit_s=20 * options.limit, whole=True)
        print(
            f"{world}: unchanged, {outcome.said} in {outcome.wall_s:.0f} s ({outcome.cpu_s:.0f} s of CPU)", flush=True
        )
        mine = [m for m in chosen if m.world == world]
        if outcome.verdict == "survived" or outcome.bad:
            sound |= {m.name for m in mine if not outcome.bad & {test.partition("::")[0] for test in m.tests}}
        if outcome.verdict != "survived":
            print(outcome.tail, file=sys.stderr)
    copies = SimpleQueue[Copy]()
    copies.put(first)
    for k in range(1, options.workers):
        copies.put(copied(first, folder / str(k)))
    print(
        f"\n{'mutant':<34} {'kind':<13} {'verdict':<10} {'wall s':>6} {'CPU s':>6}  first test that fails", flush=True
    )

    def tried(mutant: Mutant) -> Outcome:
        copy = copies.get()
        try:
            return copy.try_out(mutant, limit_s=options.limit)
        finally:
            copies.put(copy)

    ready = [m for m in chosen if m.name in sound]
    with ThreadPoolExecutor(options.workers) as pool:
        outcomes = dict(
            zip((m.name for m in ready), _shown(ready, pool.map(tried, ready), options.verbose), strict=True)
        )
    return _summed(chosen, outcomes, options.at_least)


def _shown(mutants: Sequence[Mutant], outcomes: Iterable[Outcome], verbose: bool) -> list[Outcome]:
    """A line for each as it comes."""
    made: list[Outcome] = []
    for m, o in zip(mutants, outcomes, strict=True):
        print(f"{m.name:<34} {m.kind:<13} {o.verdict:<10} {o.wall_s:>6.1f} {o.cpu_s:>6.1f}  {o.said}", flush=True)
        if verbose and o.verdict != "caught":
            print(o.tail)
        made.append(o)
    return made


def _summed(chosen: Sequence[Mutant], outcomes: dict[str, Outcome], share: float) -> int:
    caught = [m for m in chosen if m.name in outcomes and outcomes[m.name].verdict == "caught"]
    print(f"\n{len(caught)} of {len(chosen)} caught")
    for m in chosen:
        if m not in caught:
            verdict = outcomes[m.name].verdict if m.name in outcomes else "not tried: its tests fail unchanged"
            print(f"  {m.name} ({', '.join(m.files)}): {verdict}: {m.why}")
    untried = [m for m in chosen if m.name not in outcomes or outcomes[m.name].verdict == "broken"]
    if untried:
        return 2
    return 0 if len(caught) >= math.ceil(share * len(chosen) - 1e-9) else 1


if __name__ == "__main__":
    sys.exit(main())
