"""The process of an arbiter that a parent starts: ``python -m meshwright.runtime.sharing.arbiter.process``.

Arguments: files of the task, the journal and the result; descriptors of listener and lifeline; the parent's process id;
``first``, or ``again`` after one that was killed. `remote.ArbiterProcess` is the parent's end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ....errors import MeshwrightError
from ..documents import from_document, read_document
from .serving import Handed, Task, serve

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Be the arbiter; the file of the result says what went wrong."""
    task, journal, out = (Path(a) for a in arguments[:3])
    handed = Handed(*(int(a) for a in arguments[3:6]))
    code = 0
    try:
        made = None if arguments[6] == "again" else from_document(Task, read_document(task), str(task))
        serve(made, journal=journal, out=out, handed=handed)
    except MeshwrightError:
        code = 1
    sys.stderr.flush()
    os._exit(code)  # the result is written; threads of libraries could only hang


if __name__ == "__main__":
    main(sys.argv[1:])
