"""Getting the public Azure Functions traces: where they are, and the download where the network allows it."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from ...errors import InputError, MeshwrightError
from ..download import BLOCK, LARGEST_BYTES, WrongChecksumError, check_digest, digest_of, download

__all__ = ["SOURCES", "Source", "fetch"]


@dataclass(frozen=True)
class Source:
    """A public data set.

    Parameters
    ----------
    title, licence, citation : str
        What it is, under which licence, and the paper to cite.
    page : str
        The page that describes it and links the download.
    urls : tuple of str
        Where the archive is; the first that answers is taken.
    archive : str
        File name of the archive.
    wanted : str
        Regular expression of the files that are needed from it.
    where : str
        In words: which files belong into the destination.
    sha256 : str, optional
        Of the archive, where its publisher says it. Azure's says none of its two.
    largest_bytes : int
        More than the archive, and all that is unpacked from it, may be.
    """

    title: str
    licence: str
    citation: str
    page: str
    urls: tuple[str, ...]
    archive: str
    wanted: str
    where: str
    sha256: str | None = None
    largest_bytes: int = LARGEST_BYTES


_REPOSITORY = "https://github.com/Azure/AzurePublicDataset"
_BLOBS = "https://azurepublicdatasettraces.blob.core.windows.net/azurepublicdatasetv2/azurefunctions_dataset2019"
_ARCHIVE1, _ARCHIVE2 = "azurefunctions-dataset2019.tar.xz", "AzureFunctionsInvocationTraceForTwoWeeksJan2021.rar"

SOURCES = {
    "maf1": Source(
        title="Azure Functions Trace 2019 (MAF1): calls per function and minute, 14 days, 143 MB packed",
        licence="CC-BY",
        citation="Shahrad et al., Serverless in the Wild, USENIX ATC 2020",
        page=f"{_REPOSITORY}/blob/master/AzureFunctionsDataset2019.md",
        urls=(
            f"{_REPOSITORY}/releases/download/dataset-functions-2019/azurefunctions_dataset2019_{_ARCHIVE1}",
            f"{_BLOBS}/{_ARCHIVE1}",
        ),
        archive=_ARCHIVE1,
        wanted=r"invocations_per_function_md\.anon\.d\d+\.csv",
        where="the files invocations_per_function_md.anon.d01.csv … d14.csv of the archive",
    ),
    "maf2": Source(
        title="Azure Functions Invocation Trace 2021 (MAF2): every call of two weeks",
        licence="CC-BY",
        citation="Zhang et al., Faster and Cheaper Serverless Computing on Harvested Resources, SOSP 2021",
        page=f"{_REPOSITORY}/blob/master/AzureFunctionsInvocationTrace2021.md",
        urls=(f"{_REPOSITORY}/raw/master/data/{_ARCHIVE2}",),
        archive=_ARCHIVE2,
        wanted="",
        where="AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt, unpacked with unrar, unar, bsdtar or 7z",
    ),
}


def fetch(
    name: str,
    dest: str | Path,
    *,
    timeout: float = 30.0,
    progress: Callable[[int, int], None] | None = None,
    source: Source | None = None,
    sha256: str | None = None,
    checked: Callable[[Path, str], None] | None = None,
) -> list[Path]:
    """Download a public trace into the folder `dest`, and unpack it if it is a tar archive.

    Every file appears whole or not at all. MAF2 is a RAR archive, which Python cannot unpack: it is left as it is,
    and the trace inside has to be unpacked by hand (`SOURCES["maf2"].where` says how).

    Parameters
    ----------
    name : str
        ``"maf1"`` or ``"maf2"``.
    dest : path
        Folder; made if it is missing.
    timeout : float
        Seconds of silence after which a server is given up.
    progress : callable, optional
        Called with bytes received and bytes in all (0 if the server does not say).
    source : Source, optional
        Another place to take it from (a mirror). Addresses are https, or on this machine.
    sha256 : str, optional
        What the archive's SHA-256 must be; by default what its publisher says, if anything.
    checked : callable, optional
        Called with the archive and its SHA-256, when it is there.

    Returns
    -------
    list of Path
        The files that are now in `dest`, those that were there before included (they are not fetched again).

    Raises
    ------
    InputError
        On an unknown name, a checksum that is none, or one that cannot be looked at: the files are there, the archive
        is not.
    MeshwrightError
        If no server answers, or an archive is not what it should be: says what to download and where to put it.
    """
    if source is None and name not in SOURCES:
        raise InputError(f"fetch: unknown trace {name!r}; expected one of {', '.join(SOURCES)}")
    what, folder = source or SOURCES[name], Path(dest)
    archive = folder / what.archive
    digest = check_digest(sha256) if sha256 is not None else what.sha256
    there = _present(what, folder) if what.wanted else []
    if there and not archive.exists():
        if sha256 is not None:
            raise InputError(
                f"sha256: {folder} holds the files of {name}, and no archive whose checksum could be looked at; take "
                "them away to fetch it anew"
            )
        return there
    if archive.exists():
        found = digest_of(archive)
        if digest is not None and found != digest:
            raise WrongChecksumError(
                f"fetch {name}: {archive}: its SHA-256 is {found}, expected {digest}; delete it and fetch it again"
            )
    else:
        found = _download(name, what, archive, timeout, digest, progress)
    if checked is not None:
        checked(archive, found)
    if there:
        return there
    if not what.wanted:
        return [archive]
    try:
        _unpack(what, archive, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise MeshwrightError(
            f"fetch {name}: {archive} cannot be unpacked ({error}); delete it and fetch it again"
        ) from error
    files = _present(what, folder)
    if not files:
        raise MeshwrightError(f"fetch {name}: {archive} holds no file {what.wanted}; expected {what.where}")
    return files


def by_hand(name: str, source: Source, folder: Path) -> str:
    """What to do where the network does not allow the download."""
    return (
        f"download {source.urls[0]} (described at {source.page}; licence {source.licence}) elsewhere, "
        f"save it as {folder / source.archive} and fetch {name} again; or put into {folder} {source.where}"
    )


def _present(source: Source, folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if re.fullmatch(source.wanted, path.name))


def _download(
    name: str, source: Source, archive: Path, timeout: float, digest: str | None,
    progress: Callable[[int, int], None] | None,
) -> str:  # fmt: skip
    reasons: list[str] = []
    for url in source.urls:
        try:
            return download(
                url, archive, timeout=timeout, largest=source.largest_bytes, sha256=digest, progress=progress
            )
        except (OSError, HTTPException, ValueError, WrongChecksumError) as error:
            reasons.append(f"{url}: {error}")
    raise MeshwrightError(
        f"fetch {name}: could not download it ({'; '.join(reasons)}); {by_hand(name, source, archive.parent)}"
    )


def _unpack(source: Source, archive: Path, folder: Path) -> None:
    """Write the wanted files of a tar archive into `folder`, by their bare names and nowhere else.

    All are unpacked beside it first: some of the files would be taken for all of them.
    """
    left = source.largest_bytes
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as beside, tarfile.open(archive) as tar:
        for member in tar:
            base = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and re.fullmatch(source.wanted, base) else None
            if content is None:
                continue
            with content, open(Path(beside) / base, "wb") as stream:
                while block := content.read(BLOCK):
                    left -= len(block)
                    if left < 0:
                        raise tarfile.TarError(f"unpacked, it is more than {source.largest_bytes} bytes")
                    stream.write(block)
        for file in sorted(Path(beside).iterdir()):
            file.replace(folder / file.name)
