"""Fetching: from a server on this machine; whole files or none; what to do by hand where there is no network."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from meshwright import traces
from meshwright.errors import InputError, MeshwrightError
from meshwright.traces.azure.fetch import SOURCES, Source

NAMES = ["azure/invocations_per_function_md.anon.d01.csv", "invocations_per_function_md.anon.d02.csv", "../evil.csv"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.end_headers()
            return None
        if not self.path.startswith("/short"):
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "999999")
        self.end_headers()
        self.wfile.write(b"x" * 1000)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    root = tmp_path / "server"
    root.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", root
        http.shutdown()


def archive(path: Path, names: list[str]) -> bytes:
    with tarfile.open(path, "w:xz") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            content = f"content of {name}".encode()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path.read_bytes()


def test_an_archive_is_downloaded_and_unpacked_by_bare_names(server, tmp_path: Path) -> None:
    url, root = server
    data = archive(root / "a.tar.xz", NAMES)
    source = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/missing.tar.xz", f"{url}/a.tar.xz"))
    seen: list[tuple[int, int]] = []
    dest = tmp_path / "deep" / "dest"
    files = traces.fetch("maf1", dest, source=source, progress=lambda done, total: seen.append((done, total)))
    assert [file.name for file in files] == [f"invocations_per_function_md.anon.d0{i}.csv" for i in (1, 2)]
    assert files[0].read_text() == f"content of {NAMES[0]}"
    assert seen[-1] == (len(data), len(data))
    assert not list(tmp_path.rglob("evil.csv"))
    gone = dataclasses.replace(source, urls=("http://127.0.0.1:9/none",))
    assert traces.fetch("maf1", dest, source=gone) == files  # what is there is not fetched again


def test_no_network_says_what_to_download_and_where_to_put_it(tmp_path: Path) -> None:
    source = dataclasses.replace(SOURCES["maf1"], urls=("http://127.0.0.1:9/a.tar.xz",))
    with pytest.raises(MeshwrightError) as caught:
        traces.fetch("maf1", tmp_path / "d", source=source, timeout=2.0)
    message = str(caught.value)
    for part in ("127.0.0.1:9", source.page, "CC-BY", str(tmp_path / "d" / source.archive), "anon.d01.csv"):
        assert part in message
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_download_that_breaks_off_leaves_nothing(server, tmp_path: Path) -> None:
    url, _ = server
    source = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/short.tar.xz",))
    with pytest.raises(MeshwrightError, match=r"could not download it .*broke off after 1000 of 999999 bytes"):
        traces.fetch("maf1", tmp_path / "d", source=source, timeout=2.0)
    assert not list((tmp_path / "d").iterdir())


def test_damaged_and_empty_archives(server, tmp_path: Path) -> None:
    url, root = server
    (root / "bad.tar.xz").write_bytes(b"no archive")
    archive(root / "empty.tar.xz", ["other.csv"])
    for name, message in (("bad", "cannot be unpacked"), ("empty", "holds no file")):
        source = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/{name}.tar.xz",))
        with pytest.raises(MeshwrightError, match=message):
            traces.fetch("maf1", tmp_path / name, source=source)


def test_maf2_stays_packed(server, tmp_path: Path) -> None:
    url, root = server
    (root / "a.rar").write_bytes(b"Rar!")
    source = dataclasses.replace(SOURCES["maf2"], urls=(f"{url}/a.rar",))
    assert [p.read_bytes() for p in traces.fetch("maf2", tmp_path / "d", source=source)] == [b"Rar!"]


def test_a_checksum_is_told_and_held_to(server, tmp_path: Path) -> None:
    url, root = server
    data = archive(root / "a.tar.xz", NAMES)
    right, wrong = hashlib.sha256(data).hexdigest(), hashlib.sha256(b"").hexdigest()
    source = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/a.tar.xz",))
    dest, seen = tmp_path / "d", list[tuple[Path, str]]()

    def fetch(sha256: str | None, what: Source = source) -> list[Path]:
        return traces.fetch("maf1", dest, source=what, sha256=sha256, checked=lambda *told: seen.append(told))

    with pytest.raises(MeshwrightError, match=f"its SHA-256 is {right}, expected {wrong}"):
        fetch(wrong)
    with pytest.raises(MeshwrightError, match=f"its SHA-256 is {right}, expected {wrong}"):
        fetch(None, dataclasses.replace(source, sha256=wrong))  # of the publisher
    assert not list(dest.iterdir())
    assert seen == []
    files = fetch(right.upper())
    assert seen == [(dest / source.archive, right)]
    assert fetch(right) == files
    with pytest.raises(MeshwrightError, match="delete it and fetch it again"):
        fetch(wrong)  # what was there before is looked at, too
    (dest / source.archive).unlink()
    assert fetch(None) == files
    with pytest.raises(InputError, match="no archive whose checksum could be looked at"):
        fetch(right)
    for none in ("", "abc", right + "0", "g" * 64):
        with pytest.raises(InputError, match="sha256: expected 64 hexadecimal digits"):
            fetch(none)


def test_what_is_larger_than_it_may_be_is_given_up(server, tmp_path: Path) -> None:
    url, root = server
    data = archive(root / "a.tar.xz", NAMES)
    whole = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/a.tar.xz",))
    for largest, said in ((len(data) - 1, f"more than {len(data) - 1}"), (len(data), None)):
        source = dataclasses.replace(whole, largest_bytes=largest)
        if said is not None:
            with pytest.raises(MeshwrightError, match=said):
                traces.fetch("maf1", tmp_path / "d", source=source)
            assert not list((tmp_path / "d").iterdir())
        else:
            assert traces.fetch("maf1", tmp_path / "d", source=source)
    with tarfile.open(root / "bomb.tar.xz", "w:xz") as tar:
        for name in NAMES[:2]:
            info = tarfile.TarInfo(name)
            info.size = 10**6
            tar.addfile(info, io.BytesIO(bytes(10**6)))
    source = dataclasses.replace(whole, urls=(f"{url}/bomb.tar.xz",), largest_bytes=1_500_000)
    with pytest.raises(MeshwrightError, match="unpacked, it is more than 1500000 bytes"):
        traces.fetch("maf1", tmp_path / "b", source=source)
    assert [path.name for path in (tmp_path / "b").iterdir()] == [source.archive], "no file of some"


@pytest.mark.parametrize(
    "url", ["http://example.com/a", "file:///etc/passwd", "ftp://example.com/a", "/etc/passwd", "https://"]
)
def test_downloads_come_over_https(server, tmp_path: Path, url: str) -> None:
    source = dataclasses.replace(SOURCES["maf1"], urls=(url,))
    with pytest.raises(MeshwrightError, match="expected an address that begins with https://"):
        traces.fetch("maf1", tmp_path / "d", source=source)
    here, _ = server
    turned = dataclasses.replace(SOURCES["maf1"], urls=(f"{here}/to?{url}",))
    with pytest.raises(MeshwrightError, match="could not download it"):
        traces.fetch("maf1", tmp_path / "d", source=turned)
    assert not list(tmp_path.rglob("d/*"))


def test_the_verb_prints_the_checksum(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from meshwright.cli import run

    url, root = server
    data = archive(root / "a.tar.xz", NAMES)
    source = dataclasses.replace(SOURCES["maf1"], urls=(f"{url}/a.tar.xz",))
    monkeypatch.setitem(SOURCES, "maf1", source)
    assert run(["trace", "fetch", "maf1", "--dest", str(tmp_path / "d"), "--sha256", "0" * 64]) == 1
    assert "expected " + "0" * 64 in capsys.readouterr().err
    assert run(["trace", "fetch", "maf1", "--dest", str(tmp_path / "d")]) == 0
    assert f"sha256 {hashlib.sha256(data).hexdigest()}" in capsys.readouterr().err


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="unknown trace 'maf3'; expected one of maf1, maf2"):
        traces.fetch("maf3", "anywhere")
