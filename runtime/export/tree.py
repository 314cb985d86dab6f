"""A tree of files: made in memory, checked against what is there, then written, each file whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import InputError
from ...files import write_bytes, write_text

__all__ = ["MANIFEST", "File", "compact", "json_text", "write_tree", "yaml_text"]

MANIFEST = "meshwright-export.json"
"""Lists what an export wrote, so that the next one into the same folder knows its own files from others'."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of an export.

    Parameters
    ----------
    text : str or bytes
        Its content.
    executable : bool
        Whether it is a program.
    """

    text: str | bytes
    executable: bool = False

    @property
    def content(self) -> bytes:
        """What stands in it."""
        return self.text if isinstance(self.text, bytes) else self.text.encode("utf-8")


def json_text(data: Any) -> str:
    """JSON, the same bytes for the same data."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def compact(data: Any) -> str:
    """JSON on one line."""
    return json.dumps(data, ensure_ascii=False)


def yaml_text(*documents: Any) -> str:
    """YAML documents, the same bytes for the same data; texts of several lines as blocks, no aliases."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120, explicit_start=True)


def write_tree(files: Mapping[str, File], out_dir: str | Path, about: Mapping[str, str], force: bool) -> list[Path]:
    """Write all files below `out_dir`; files of an earlier export there that are not among them are removed.

    Parameters
    ----------
    files : mapping
        Relative path -> file.
    out_dir : path
        The folder; made if it is missing.
    about : mapping
        What the manifest says of the export.
    force : bool
        Write although the folder holds other files (which stay, unless they have a name of ours).

    Returns
    -------
    list of Path
        The files, sorted; the manifest is the last one written.

    Raises
    ------
    InputError
        If `out_dir` is a file, or holds files that are not from an earlier export.
    """
    out = Path(out_dir)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder to write to (got a file)")
    before = _manifest(out)
    there = {p.relative_to(out).as_posix() for p in out.rglob("*") if not p.is_dir()} if out.exists() else set()
    foreign = sorted(there - set(before) - {MANIFEST})
    changed = sorted(name for name in there & set(before) if _digest((out / name).read_bytes()) != before[name])
    if (foreign or changed) and not force:
        what = (
            f"holds other files ({foreign[0]})" if foreign else f"holds files changed since the export ({changed[0]})"
        )
        raise InputError(f"{out}: {what}; give an empty folder, or --force to write beside and over them")
    paths = []
    for name, file in sorted(files.items()):
        path = write_bytes(out / PurePosixPath(name), file.content)
        if file.executable:
            os.chmod(path, 0o755)
        paths.append(path)
    for stale in sorted(there & set(before) - set(files)):
        (out / stale).unlink()
    digests = {name: _digest(file.content) for name, file in sorted(files.items())}
    paths.append(write_text(out / MANIFEST, json_text({**about, "files": digests})))
    return paths


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest(out: Path) -> dict[str, str]:
    """Relative path -> digest of what an earlier export wrote; empty if there was none."""
    try:
        files = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{out / MANIFEST}: cannot be read; remove the folder, or give another") from None
    return {str(name): str(digest) for name, digest in files.items() if ".." not in PurePosixPath(name).parts}
