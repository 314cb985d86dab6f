"""Reading the columns of a delimited file chunk by chunk, in bounded memory, every cell checked.

The fast path is pandas' parser. It says *that* something is wrong; `complaints` then goes through the file again,
slowly, and says what is wrong on which line.
"""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .cells import Kind
from .complaints import complaints
from .text import Header, open_bytes, translated_errors

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Progress", "read_chunks"]

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes in all."""


def read_chunks(
    path: Path, header: Header, kinds: Mapping[str, Kind], rows: int, progress: Progress | None = None
) -> Iterator[pd.DataFrame]:
    """The columns in `kinds`, `rows` rows at a time, every cell of them checked.

    Raises
    ------
    InputError
        With the first five offending lines and their number, on a row of the wrong length or a cell that its
        kind does not allow; on a truncated gzip file; on text that is not UTF-8.
    """
    import pandas as pd

    dtypes = dict.fromkeys(header.columns, "str") | {name: kind.dtype for name, kind in kinds.items()}
    blank = {name: ["", "nan", "NaN"] for name, kind in kinds.items() if kind.dtype == "float64"}
    read_csv: Any = pd.read_csv
    exact: dict[str, Any] = {} if _default_is_exact(pd.__version__) else {"float_precision": "round_trip"}
    with translated_errors(path), open_bytes(path) as stream, warnings.catch_warnings():
        warnings.filterwarnings("error", category=pd.errors.ParserWarning)
        warnings.filterwarnings("error", category=RuntimeWarning)  # "inf" cast to an integer
        total = path.stat().st_size
        for _ in range(header.line - 1):
            stream.readline()
        try:
            chunks = read_csv(
                stream,
                sep=header.delimiter,
                header=0,
                names=list(header.columns),
                index_col=False,
                dtype=dtypes,
                keep_default_na=False,
                na_values=blank,
                chunksize=rows,
                encoding="utf-8",
                **exact,
            )
            for chunk in chunks:
                if not all(kind.holds(chunk[name].to_numpy()) for name, kind in kinds.items()):
                    raise InputError(complaints(path, header, kinds))
                yield chunk
                if progress is not None:
                    raw = getattr(stream, "fileobj", stream)
                    progress(min(raw.tell(), total), total)
        except UnicodeDecodeError:
            raise
        except (ValueError, OverflowError, RuntimeWarning, pd.errors.ParserError, pd.errors.ParserWarning) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(complaints(path, header, kinds, reason=str(error))) from None


def _default_is_exact(version: str) -> bool:
    """Whether pandas' default parser reads exactly the float64 that `repr` wrote (it does since 3.1)."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) >= (3, 1)
