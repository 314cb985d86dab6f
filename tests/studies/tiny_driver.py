"""Runs a tiny study as a process of its own: FOLDER STORE EXECUTOR WORKERS POINTS SLEEP."""

from __future__ import annotations

import sys
from pathlib import Path

from meshwright.errors import MeshwrightError
from meshwright.studies import Session
from tiny_world import tiny_study


def main() -> int:
    folder, store, executor, workers, points, sleep = sys.argv[1:]
    study = tiny_study(Path(folder), int(points), sleep=float(sleep))
    session = None
    try:
        with Session.open(study, store, executor=executor, workers=int(workers)) as session:
            session.run()
    except KeyboardInterrupt:
        print("interrupted", session.progress.done if session else 0, flush=True)
        return 130
    except MeshwrightError as error:
        print(error, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
