"""Measure a campaign on this machine, or go on: ``python -m meshwright.reproduce.collage.campaign --out FILE``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ....errors import MeshwrightError
from ..systems import ALL_NETWORKS, BATCHES
from .parts import every_part, measured
from .timing import Watch


def main() -> None:
    """Measure what the file lacks; a kill loses no more than the part that is under way."""
    parser = argparse.ArgumentParser(prog="python -m meshwright.reproduce.collage.campaign", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the campaign's file; the same call goes on with it")
    parser.add_argument("--kept", type=Path, help="file of kept costs (meshwright measure inference --kept)")
    parser.add_argument("--networks", default=",".join(ALL_NETWORKS), help="names, parted by commas")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="of ResNeXt-50, parted by commas")
    parser.add_argument("--kinds", default="contest,steps,planning", help="parts to measure, parted by commas")
    parser.add_argument("--rounds", type=int, default=Watch().rounds, help="least rounds of a contest")
    parser.add_argument("--search", type=float, default=Watch().search_s, help="seconds of each evolution; 0: none")
    asked = parser.parse_args()
    networks, kinds = asked.networks.split(","), asked.kinds.split(",")
    parts = [p for p in every_part(networks, [int(b) for b in asked.batches.split(",")]) if p.kind in kinds]
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {what}", file=sys.stderr, flush=True)

    try:
        found = measured(asked.out, parts, kept=asked.kept, watch=Watch(asked.rounds, asked.search), tell=tell)
    except MeshwrightError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(f"stopped; the same call goes on from {asked.out}") from None
    print(f"{asked.out}: {len(found.contests)} contests, {len(found.steps)} of backends one by one, "
          f"{len(found.plannings)} planning times, {found.made.said}")  # fmt: skip


if __name__ == "__main__":
    main()
