"""What `make test` draws is the same on every machine; `--everything` draws anew and runs what is slow."""

import os
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).with_name("drawn_sample.py")
PLUGIN = ("-p", "_hypothesis_pytestplugin")


def drawn(folder: Path, *options: str, hash_seed: str) -> list[str]:
    """What the sample prints in a process of its own, started in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-qs", "-p", "no:cacheprovider", *PLUGIN, *options, str(SAMPLE)],
        cwd=folder, env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if line.startswith(("drawn:", "slow:", ".drawn:", ".slow:"))]


def test_draws_are_fixed(tmp_path):
    """Whatever hash seed, folder, and modules of ours that are imported before (their constants must not be drawn)."""
    first = drawn(tmp_path, hash_seed="1")
    beside = ("-p", "meshwright.profiles.hardware", "-p", "meshwright.errors", "-p", "meshwright.seeds")
    again = drawn(SAMPLE.parent.parent, *beside, hash_seed="2")
    assert len(first) >= 100
    assert first == again
    assert not any("slow" in line for line in first)


def test_everything_draws_anew_and_runs_what_is_slow(tmp_path):
    one, two = (drawn(tmp_path, "--everything", hash_seed="1") for _ in range(2))
    assert one != two
    assert any("slow" in line for line in one)
