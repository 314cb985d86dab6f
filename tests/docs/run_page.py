"""Runs the blocks of a page in order, in one folder and one namespace, as a reader goes through it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meshwright.cli import run
from pages import ROOT, Block

START_S = 120.0
"""A server that has not answered by then did not start."""


class BlockError(Exception):
    """A block that did not do what the page says."""


class Reader:
    """Who reads a page and does what it says, in `folder`, with the examples beside (as in a clone's root)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        self.names: dict[str, Any] = {"__name__": "page", "sh": self.sh, "Path": Path, "ROOT": ROOT}
        self.printed = ""

    def follow(self, block: Block) -> None:
        """Do what the block says.

        Raises
        ------
        BlockError
            If it fails, prints something else than the page shows, or what must hold does not.
        """
        if "not run" in block.marks:
            return
        if "before" in block.marks:
            self.python(block.marks["before"], f"{block.place}, before")
        if "file" in block.marks:
            (self.folder / block.marks["file"]).write_text(block.code, encoding="utf-8")
        elif "prints" in block.marks:
            self.compare(block)
        elif block.language == "python":
            self.printed = self.python("\n" * (block.line - 1) + block.code, block.page)
        else:
            self.shell(block)
        for expression in block.holds:
            try:
                held = eval(expression, self.names | {"printed": self.printed})
            except Exception as error:
                raise BlockError(f"holds: {expression}: {type(error).__name__}: {error}") from error
            if not held:
                raise BlockError(f"does not hold: {expression}; printed:\n{self.printed}")

    def python(self, code: str, name: str) -> str:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, name, "exec"), self.names)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise BlockError(traceback.format_exc(limit=-3)) from error
        return out.getvalue()

    def shell(self, block: Block) -> None:
        serves, _, url = block.marks.get("serves", "").rpartition(" ")
        expected = int(block.marks.get("exits", 0))
        said: list[str] = []
        lines = logical_lines(block.code)
        with contextlib.ExitStack() as servers:
            for line in lines:
                if serves and serves in line:
                    servers.enter_context(serving(line.rstrip("& "), url, self.folder))
                    continue
                code, out, err = self.command(line)
                said.append(out)
                if code != (expected if line is lines[-1] else 0):
                    raise BlockError(f"exit {code}: {line}\n{out[-2000:]}{err[-3000:]}")
        self.printed = "".join(said)

    def sh(self, line: str, exits: int = 0) -> str:
        """A command for marks: it must end as said. What it wrote is what a text block is then compared with."""
        code, out, err = self.command(line)
        if code != exits:
            raise BlockError(f"exit {code}: {line}\n{out}{err}")
        self.printed = out + err
        return self.printed

    def command(self, line: str) -> tuple[int, str, str]:
        """Its exit code, output and errors. Lines of `meshwright` alone run in this process, which has imported all."""
        code, out, err = 0, "", ""
        for words, target in (own := own_commands(line)) or ():
            stdout, stderr = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                code = run(words)
            err += stderr.getvalue()
            if target:
                (self.folder / target).write_text(stdout.getvalue(), encoding="utf-8")
            else:
                out += stdout.getvalue()
            if code:
                break
        if not own:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", line],
                cwd=self.folder, env=environment(), capture_output=True, text=True, check=False,
            )  # fmt: skip
            code, out, err = done.returncode, done.stdout, done.stderr
        return code, out, err

    def compare(self, block: Block) -> None:
        """What the page shows with what the last block printed: line by line, whatever the blanks between words."""
        differs = block.marks["prints"].removeprefix("but for ")
        rest = [_plain(line, differs) for line in self.printed.splitlines()]
        for shown in block.code.splitlines():
            wanted = _plain(shown, differs)
            if wanted in ("", "…"):
                continue
            pattern = re.compile(".*".join(map(re.escape, wanted.split("…"))))
            at = next((i for i, line in enumerate(rest) if pattern.fullmatch(line)), None)
            if at is None:
                raise BlockError(f"the page shows\n  {shown}\nwhich was not printed, or not there:\n{self.printed}")
            del rest[: at + 1]


def _plain(line: str, differs: str) -> str:
    line = re.sub(differs, "", line) if differs else line
    return " ".join(line.split())


def logical_lines(code: str) -> list[str]:
    """Commands, without comments; what goes on in the next line (a backslash, an open quote) joined."""
    lines: list[str] = []
    open_line = ""
    for line in code.splitlines():
        open_line += line
        if re.search(r"\\(\s+#.*)?$", open_line):
            open_line = re.sub(r"\\(\s+#.*)?$", "", open_line)
            continue
        try:
            words = shlex.split(open_line, comments=True)
        except ValueError:  # no closing quote yet
            open_line += "\n"
            continue
        if words:
            lines.append(open_line.strip())
        open_line = ""
    return lines


def own_commands(line: str) -> list[tuple[list[str], str]] | None:
    """Commands of `meshwright` alone, each with the file that its output goes to; None if the shell is needed."""
    if re.search(r"[|`$*?{}()<&]", line.replace("&&", "")) and not re.search(r"'[^']*[|`$*?{}()<&][^']*'", line):
        return None
    reader = shlex.shlex(line, posix=True, punctuation_chars=";&>|")
    reader.whitespace_split = True
    commands: list[tuple[list[str], str]] = []
    words: list[str] = []
    target = ""
    for word in [*reader, ";"]:
        if word in (";", "&&"):
            if words:
                if words[0] != "meshwright":
                    return None
                commands.append((words[1:], target))
            words, target = [], ""
        elif word == ">":
            target = ">"
        elif target == ">":
            target = word
        elif set(word) <= set(";&>|"):
            return None
        else:
            words.append(word)
    return commands


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@contextlib.contextmanager
def serving(line: str, url: str, folder: Path) -> Iterator[None]:
    """A command that runs for ever: started, asked until it answers, and stopped as Ctrl-C stops it."""
    with (folder / "server.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}" if " && " not in line and "=" not in line.split()[0] else line],
            cwd=folder, env=environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_S
            while not answers(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise BlockError(f"{line}: no answer at {url}:\n{(folder / 'server.log').read_text()[-3000:]}")
                time.sleep(0.2)
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise BlockError(f"{line}: went on after Ctrl-C") from None


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except urllib.error.HTTPError as error:
        return error.code < 500  # it is there, but has nothing to show to anybody
    except OSError:
        return False
