"""`meshwright trace`: generate, look at, convert, fit and fetch request traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .trace_io import model_list, print_frame, print_json, progress_bar, read_trace, split_of

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

Files = Annotated[
    list[Path], typer.Argument(help="CSV, Parquet or Azure Functions file(s), gzipped or not, or a folder.")
]
Format = Annotated[str | None, typer.Option(help="csv, parquet, azure2019 (maf1) or azure2021 (maf2); else guessed.")]
Models = Annotated[
    str | None, typer.Option(help="A number, or names with commas: the models known, or that functions are dealt to.")
]
Slo = Annotated[float | None, typer.Option(help="SLO of every request, seconds.")]
Sort = Annotated[bool | None, typer.Option("--sort", help="Put requests in order of arrival (CSV, Parquet).")]
IgnoreUnknown = Annotated[
    bool | None, typer.Option("--ignore-unknown", help="Leave out, and count, requests of models not in --models.")
]
Unit = Annotated[str | None, typer.Option(help="Unit of arrivals in a CSV or Parquet file: s, ms, us or ns.")]
Start = Annotated[float | None, typer.Option(help="Only requests from here on, seconds; times count from here.")]
Stop = Annotated[float | None, typer.Option(help="Only requests before this, seconds.")]
Assign = Annotated[str | None, typer.Option(help="Azure functions to models: stripe (round robin) or hash.")]
Spread = Annotated[str | None, typer.Option(help="MAF1 calls within their minute: random or even.")]
Thin = Annotated[float | None, typer.Option(help="MAF1: keep every call with this probability.")]
ReadSeed = Annotated[int | None, typer.Option("--seed", help="Seed of the reader (Azure).")]
Seed = Annotated[int, typer.Option(help="Seed, >= 0.")]
Window = Annotated[float, typer.Option(help="Window, seconds (the paper: 60 for MAF1, 5400 for MAF2).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

PROCESSES = ("gamma", "poisson", "maf1-like", "maf2-like")


@app.command()
def generate(
    out: Annotated[Path, typer.Argument(help="File to write: .csv, .csv.gz or .parquet.")],
    process: Annotated[str, typer.Option(help=", ".join(PROCESSES))] = "gamma",
    rate: Annotated[float, typer.Option(help="Total arrivals per second.")] = 20.0,
    cv: Annotated[
        float | None, typer.Option(help="CV of inter-arrival times; by default 1, and 2 for maf2-like.")
    ] = None,
    duration: Annotated[float, typer.Option(help="Seconds.")] = 600.0,
    models: Annotated[str, typer.Option(help="A number, or names with commas.")] = "8",
    split: Annotated[str, typer.Option(help="uniform, power_law:EXPONENT, or shares with commas.")] = "uniform",
    functions: Annotated[int | None, typer.Option(help="maf1-like, maf2-like: number of functions.")] = None,
    slo: Slo = None,
    seed: Seed = 0,
) -> None:
    """Make a synthetic trace."""
    from .. import traces
    from ..files import check_target

    check_target(out)
    names = model_list(models)
    if names is None or process not in PROCESSES:
        raise InputError(f"--process: unknown process {process!r}; expected one of {', '.join(PROCESSES)}")
    if functions is not None and process in ("gamma", "poisson"):
        raise InputError(f"--functions: {process} has none (got {functions}); take --process maf1-like or maf2-like")
    common: dict[str, Any] = {"slo": float("inf") if slo is None else slo, "seed": seed}
    if process == "gamma":
        trace = traces.gamma(rate, 1.0 if cv is None else cv, duration, names, split_of(split), **common)
    elif process == "poisson":
        if cv not in (None, 1.0):
            raise InputError(f"--cv: a Poisson process has CV 1 (got {cv:g}); take --process gamma")
        trace = traces.poisson(rate, duration, names, split_of(split), **common)
    else:
        if split != "uniform":
            raise InputError(f"--split: {process} splits traffic itself; leave it out (got {split!r})")
        chosen: dict[str, Any] = {k: v for k, v in (("cv", cv), ("functions", functions)) if v is not None}
        if process == "maf1-like":
            trace = traces.maf1_like(rate, duration, names, **common, law=traces.Drift(**chosen))
        else:
            trace = traces.maf2_like(rate, duration, names, **common, law=traces.Bursts(**chosen))
    traces.write(trace, out)
    typer.echo(f"{out}: {len(trace)} requests of {len(names)} models, {trace.rate:.4g}/s")


@app.command()
def info(
    files: Files,
    window: Window = 60.0,
    png: Annotated[Path | None, typer.Option(help="Draw the rates over time into this file.")] = None,
    as_json: Json = False,
    format: Format = None,
    models: Models = None,
    sort: Sort = None,
    ignore_unknown: IgnoreUnknown = None,
    unit: Unit = None,
    start: Start = None,
    stop: Stop = None,
    assign: Assign = None,
    spread: Spread = None,
    thin: Thin = None,
    seed: ReadSeed = None,
) -> None:
    """Print counts, rates, CVs and burstiness of a trace."""
    from ..files import check_target
    from ..traces import report

    if png is not None:
        check_target(png)
    trace = read_trace(
        files,
        format,
        models=model_list(models),
        sort=sort,
        ignore_unknown=ignore_unknown,
        unit=unit,
        start=start,
        stop=stop,
        assign=assign,
        spread=spread,
        thin=thin,
        seed=seed,
    )
    table = report(trace, window)
    if png is not None:
        _draw(trace, window, png)
    if as_json:
        print_json(
            {
                "requests": len(trace),
                "models": len(trace.models),
                "duration_s": trace.duration,
                "rate_per_s": trace.rate,
                "window_s": window,
                "report": table.to_dict("records"),
            }
        )
        return
    typer.echo(f"{len(trace)} requests of {len(trace.models)} models in {trace.duration:.6g} s, {trace.rate:.4g}/s")
    print_frame(table)
    if png is not None:
        typer.echo(f"drawn: {png}")


def _draw(trace: Any, window: float, png: Path) -> None:
    import io

    from matplotlib.figure import Figure

    from ..files import write_bytes
    from ..traces import draw_rates, rates

    figure = Figure(figsize=(10, 4), layout="constrained")
    draw_rates(rates(trace, window), figure.add_subplot())
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_bytes(png, content.getvalue())


@app.command()
def convert(
    files: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv, .csv.gz or .parquet.")],
    format: Format = None,
    models: Models = None,
    slo: Slo = None,
    sort: Sort = None,
    ignore_unknown: IgnoreUnknown = None,
    unit: Unit = None,
    start: Start = None,
    stop: Stop = None,
    assign: Assign = None,
    spread: Spread = None,
    thin: Thin = None,
    seed: ReadSeed = None,
) -> None:
    """Read a trace of any format and write it as CSV or Parquet."""
    from ..files import check_target
    from ..traces import write

    check_target(out)
    trace = read_trace(
        files,
        format,
        models=model_list(models),
        slo=slo,
        sort=sort,
        ignore_unknown=ignore_unknown,
        unit=unit,
        start=start,
        stop=stop,
        assign=assign,
        spread=spread,
        thin=thin,
        seed=seed,
    )
    write(trace, out)
    typer.echo(f"{out}: {len(trace)} requests of {len(trace.models)} models in {trace.duration:.6g} s")


@app.command()
def fit(
    files: Files,
    window: Window = 60.0,
    rate: Annotated[float, typer.Option(help="Multiply every rate.")] = 1.0,
    cv: Annotated[float, typer.Option(help="Multiply every CV.")] = 1.0,
    resample: Annotated[Path | None, typer.Option(help="Draw a new trace into this file.")] = None,
    table: Annotated[Path | None, typer.Option(help="Write rate and CV per window and model as CSV.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    format: Format = None,
    models: Models = None,
    start: Start = None,
    stop: Stop = None,
    slo: Annotated[float | None, typer.Option(help="SLO of resampled requests, seconds.")] = None,
) -> None:
    """Fit a Gamma process per window and model; scale it and draw a new trace from it."""
    from ..files import check_target, write_text
    from ..traces import fit_gamma, write

    for target in (resample, table):
        if target is not None:
            check_target(target)
    trace = read_trace(files, format, models=model_list(models), start=start, stop=stop)
    windows = fit_gamma(trace, window, slo=slo).scale(rate, cv)
    summary: dict[str, Any] = {
        "windows": len(windows),
        "models": len(windows.models),
        "expected_requests": windows.expected_requests,
        "note": windows.note,
    }
    if table is not None:
        write_text(table, windows.to_frame().to_csv(index=False))
    if resample is not None:
        drawn = windows.resample(seed)
        write(drawn, resample)
        summary |= {"resampled": str(resample), "requests": len(drawn)}
    if as_json:
        print_json(summary)
        return
    typer.echo(f"{len(windows)} windows × {len(windows.models)} models; {windows.note}")
    busy = windows.to_frame().query("count > 0")
    columns = ["count", "rate", "cv"]
    print_frame(
        busy[columns].describe().loc[["min", "25%", "50%", "75%", "max"]].rename_axis("over windows").reset_index()
    )
    if resample is not None:
        typer.echo(f"{resample}: {summary['requests']} requests ({windows.expected_requests:.6g} expected)")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="maf1 or maf2.")],
    dest: Annotated[Path, typer.Option(help="Folder to put it into.")] = Path("data"),
    timeout: Annotated[float, typer.Option(help="Seconds of silence after which a server is given up.")] = 30.0,
    sha256: Annotated[str | None, typer.Option(help="What the archive's SHA-256 must be.")] = None,
) -> None:
    """Download a public Azure Functions trace, or say what to download and where to put it."""
    from ..traces import fetch as fetch_trace
    from ..traces.azure.fetch import SOURCES

    if name in SOURCES:
        source = SOURCES[name]
        typer.echo(f"{source.title}\n{source.page}\nlicence {source.licence}; cite {source.citation}", err=True)
    found: list[str] = []
    with progress_bar(name) as progress:
        files = fetch_trace(
            name, dest, timeout=timeout, progress=progress, sha256=sha256,
            checked=lambda archive, digest: found.append(f"sha256 {digest}  {archive}"),
        )  # fmt: skip
    typer.echo("\n".join(found), err=True, nl=bool(found))
    for file in files:
        typer.echo(str(file))
    if name in SOURCES and not SOURCES[name].wanted:
        typer.echo(f"to be read: {SOURCES[name].where}", err=True)
