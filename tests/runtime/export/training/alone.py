"""Exported programs under torchrun, in processes for which Meshwright and what it needs are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["alone"]

HIDDEN = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        hidden = name.split(".")[0] in ("meshwright", "pydantic", "numba", "yaml", "safetensors", "pandas")
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def alone(program: Path, folder: Path, arguments: Sequence[str]) -> str:
    """What two processes of ``train.py`` print, started in `folder`."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDDEN)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(program / "train.py"), *arguments],
        cwd=folder, timeout=300, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(hidden), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
