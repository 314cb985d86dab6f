"""The figures and tables that can be made: names, titles, classes of cost. Importing it loads none of their modules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ..errors import InputError
from ..reprs import Shown

__all__ = ["FIGURES", "PAPERS", "Figure", "Paper", "completions", "named", "resolve"]


@dataclass(frozen=True, repr=False)
class Paper(Shown):
    """A paper whose figures are made.

    Parameters
    ----------
    title : str
        Name and venue, as a person says them.
    chapter : int or None
        Chapter of the thesis that prints it again with the same numbers, None if no thesis does.
    only_thesis : bool
        Whether the thesis is the one text that we have: its numbers are then the paper's too.
    """

    title: str
    chapter: int | None = None
    only_thesis: bool = False

    def __post_init__(self) -> None:
        if self.only_thesis and self.chapter is None:
            raise ValueError(f"{self.title}: a paper known from its thesis alone has a chapter")


PAPERS: Mapping[str, Paper] = MappingProxyType(
    {
        "alpaserve": Paper("AlpaServe (OSDI '23)", 4),
        "vllm": Paper("vLLM (SOSP '23)", 5),
        "alpa": Paper("Alpa (OSDI '22)", 3),
        "terapipe": Paper("TeraPipe (ICML '21)", 2),
        "graphpipe": Paper("GraphPipe (thesis, ch. 3)", 3, only_thesis=True),
        "cache_parallel": Paper("Cache Parallelism (thesis, ch. 4)", 4, only_thesis=True),
        "themis": Paper("Themis (NSDI '20)"),
        "collage": Paper("Collage (PACT '22)", 2, only_thesis=True),
    }
)
"""Folder -> paper. Each thesis numbers figure n of a paper that is its chapter c as c.n. The captions of both texts
agree for AlpaServe and Alpa. For vLLM and TeraPipe the published text was not at hand: numbers are the thesis'."""

Cost = Literal["seconds", "minutes", "hours"]


@dataclass(frozen=True, repr=False)
class Figure(Shown):
    """A figure or table.

    Parameters
    ----------
    paper : str
        Key of `PAPERS`, and the folder of its module.
    kind : "fig", "table" or "note"
        Whether it is a figure, a table, or what a footnote says.
    number : int
        Its number in the paper, >= 1; where only the thesis has it, the number within the chapter.
    title : str
        What it shows.
    full : "seconds", "minutes" or "hours"
        What its full version costs, where nobody has measured it. The fast one costs seconds.
    also : tuple of int
        Further numbers of the same kind that the same module makes.
    takes_trace, takes_fits : bool
        Whether it can run on the user's own download of a trace, or of fitted iteration times.
    """

    paper: str
    kind: Literal["fig", "table", "note"]
    number: int
    title: str
    full: Cost
    also: tuple[int, ...] = ()
    takes_trace: bool = False
    takes_fits: bool = False

    def __post_init__(self) -> None:
        if self.paper not in PAPERS or self.kind not in ("fig", "table", "note"):
            raise ValueError(f"figure of {self.paper!r}: unknown paper, or kind {self.kind!r}")
        if min(self.number, *self.also, self.number) < 1 or not self.title:
            raise ValueError(f"{self.paper}/{self.kind}{self.number}: numbers start at 1, and a title is needed")

    @property
    def stem(self) -> str:
        """Its name within the paper, such as fig02, table1 or note3."""
        return f"fig{self.number:02d}" if self.kind == "fig" else f"{self.kind}{self.number}"

    @property
    def name(self) -> str:
        """The figure's name, such as vllm/fig12."""
        return f"{self.paper}/{self.stem}"

    @property
    def thesis(self) -> str | None:
        """Its number in the thesis, such as 5.12, None if no thesis has it."""
        chapter = PAPERS[self.paper].chapter
        return None if chapter is None else f"{chapter}.{self.number}"

    @property
    def alias(self) -> str | None:
        """Its name by the thesis' number, such as vllm/5.12 or vllm/table5.1, None if no thesis has it."""
        word = "" if self.kind == "fig" else self.kind
        return None if self.thesis is None else f"{self.paper}/{word}{self.thesis}"

    @property
    def module(self) -> str:
        """The module that makes it. Themis' tables and notes have rooms of their own: beside 17 figures they were too
        many."""
        room = f".{self.kind}s" if self.paper == "themis" and self.kind != "fig" else ""
        return f"meshwright.reproduce.{self.paper}{room}.{self.stem}"


_ALL = (
    Figure("alpaserve", "fig", 1, "a burst of four requests on two devices", "seconds"),
    Figure("alpaserve", "fig", 2, "two 6.7B models on two devices: latency and utilization", "seconds"),
    Figure("alpaserve", "fig", 4, "eight 2.6B models on eight devices: latency against memory per device", "seconds"),
    Figure("alpaserve", "fig", 5, "eight 2.6B models on eight devices: latency against rate", "seconds"),
    Figure("alpaserve", "fig", 6, "eight 2.6B models on eight devices: latency against CV", "seconds"),
    Figure("alpaserve", "fig", 7, "eight 2.6B models on eight devices: SLO attainment against the SLO", "seconds"),
    Figure("alpaserve", "fig", 8, "overhead of inter-op and intra-op parallelism, a 2.6B model on V100s", "seconds"),
    Figure("alpaserve", "fig", 9, "latency, throughput and memory against devices, a 2.6B model on V100s", "seconds"),
    Figure(
        "alpaserve",
        "fig",
        10,
        "greatest communication overhead α and uneven partition β that model parallelism bears",
        "seconds",
    ),
    Figure(
        "alpaserve",
        "fig",
        12,
        "SLO attainment of AlpaServe, Selective Replication and Clockwork++ on real-world traffic",
        "minutes",
        takes_trace=True,
    ),
    Figure("alpaserve", "fig", 13, "four models of 104B parameters on 64 devices", "seconds"),
    Figure(
        "alpaserve",
        "fig",
        14,
        "robustness: planned for one hour of traffic, served another (S2@MAF1)",
        "minutes",
        takes_trace=True,
    ),
    Figure("alpaserve", "fig", 15, "dynamic batching on model set S1", "minutes"),
    Figure("alpaserve", "fig", 16, "pipeline overhead of the manual and the automatic partition", "seconds"),
    Figure("alpaserve", "fig", 17, "ablation of the placement algorithm on model set S3", "minutes"),
    Figure("alpaserve", "table", 1, "models and model sets", "seconds"),
    Figure("alpaserve", "table", 2, "fidelity of the simulator: SLO attainment of two placements", "seconds"),
    Figure("vllm", "fig", 2, "where the KV memory goes", "minutes"),
    Figure("vllm", "fig", 11, "lengths of requests and answers", "seconds"),
    Figure("vllm", "fig", 12, "latency over the request rate", "minutes", takes_fits=True),
    Figure("vllm", "fig", 13, "requests in a batch", "minutes", takes_fits=True),
    Figure("vllm", "fig", 14, "parallel sampling and beam search", "minutes", takes_fits=True),
    Figure("vllm", "fig", 15, "memory saved by sharing", "minutes", takes_fits=True),
    Figure("vllm", "fig", 16, "a prefix that prompts share", "minutes", takes_fits=True),
    Figure("vllm", "fig", 17, "rounds of chat", "minutes", takes_fits=True),
    Figure("vllm", "fig", 18, "block size", "seconds"),
    Figure("vllm", "fig", 19, "recomputation and swapping", "minutes"),
    Figure("vllm", "table", 1, "memory for keys and values", "seconds"),
    Figure("alpa", "fig", 7, "end-to-end throughput of three models on 1 to 64 GPUs", "minutes"),
    Figure("alpa", "fig", 8, "ways of intra-operator parallelism on one node", "seconds"),
    Figure("alpa", "fig", 9, "stages by dynamic programming, equal operators or equal layers", "minutes"),
    Figure("alpa", "fig", 10, "planning time of GPT-3 over model and cluster", "minutes"),
    Figure("alpa", "fig", 11, "resharding between meshes, with and without local all-gather", "minutes"),
    Figure("alpa", "fig", 12, "plans of Wide-ResNet on 4, 8 and 16 GPUs", "minutes", also=(13,)),
    Figure("alpa", "table", 5, "breakdown of planning time", "minutes"),
    Figure("terapipe", "fig", 3, "one layer on a V100", "seconds"),
    Figure("terapipe", "fig", 5, "all settings with and without TeraPipe", "seconds"),
    Figure("terapipe", "fig", 6, "uniform slices and the dynamic programme", "seconds"),
    Figure("terapipe", "fig", 7, "longer sequences", "seconds"),
    Figure("terapipe", "table", 1, "models and settings", "seconds"),
    Figure("terapipe", "table", 2, "latencies, main experiments", "seconds"),
    Figure("terapipe", "table", 3, "latencies, uniform slices and the dynamic programme", "seconds"),
    Figure("terapipe", "table", 4, "latencies, longer sequences", "seconds"),
    Figure("graphpipe", "fig", 6, "end-to-end throughput of three models on 4 to 32 GPUs", "minutes"),
    Figure("graphpipe", "fig", 7, "throughput over numbers of branches and microbatch sizes", "minutes"),
    Figure("graphpipe", "fig", 9, "a case study of depth and microbatch size", "seconds"),
    Figure("graphpipe", "table", 1, "search times", "minutes"),
    Figure("cache_parallel", "fig", 1, "communication per GPU", "seconds"),
    Figure("cache_parallel", "fig", 2, "throughput over prefix length", "seconds"),
    Figure("cache_parallel", "fig", 3, "throughput over decode length", "seconds"),
    Figure("cache_parallel", "fig", 4, "latency and throughput", "seconds"),
    Figure("cache_parallel", "fig", 5, "where the time goes", "seconds"),
    Figure("themis", "fig", 1, "aggregate GPU demand of the apps over time", "seconds"),
    Figure("themis", "fig", 2, "jobs of an app", "seconds"),
    Figure("themis", "fig", 3, "GPU time of an app", "seconds"),
    Figure("themis", "fig", 4, "GPU time of a task", "seconds"),
    Figure("themis", "fig", 5, "placement, sharing incentive, Pareto efficiency and envy", "seconds"),
    Figure("themis", "fig", 8, "the two workloads", "seconds"),
    Figure("themis", "fig", 9, "finish-time fairness, Workload 1", "minutes"),
    Figure("themis", "fig", 10, "finish-time fairness, Workload 2", "minutes"),
    Figure("themis", "fig", 11, "GPU time, Workload 1", "minutes"),
    Figure("themis", "fig", 12, "GPU time, Workload 2", "minutes"),
    Figure("themis", "fig", 13, "placement scores", "minutes"),
    Figure("themis", "fig", 14, "contention", "minutes"),
    Figure("themis", "fig", 15, "largest ρ by the share of network-intensive apps", "minutes"),
    Figure("themis", "fig", 16, "GPU time by the share of network-intensive apps", "minutes"),
    Figure("themis", "fig", 17, "errors of agents", "minutes"),
    Figure("themis", "fig", 18, "truth-telling", "minutes"),
    Figure("themis", "fig", 19, "fairness knob and lease", "minutes"),
    Figure("themis", "table", 1, "slowdown of models whose GPUs are apart", "seconds"),
    Figure("themis", "table", 2, "an app's bids on two GPUs", "seconds"),
    Figure("themis", "table", 3, "bids of the worked example", "seconds"),
    Figure("themis", "table", 4, "models of the traces", "seconds"),
    Figure("themis", "table", 5, "a short and a long app", "minutes"),
    Figure("themis", "note", 3, "slowdowns known, assumed or learned", "minutes"),
    Figure("collage", "fig", 7, "five networks on every framework and on Collage", "hours"),
    Figure("collage", "fig", 8, "ResNeXt50 at several batch sizes", "hours"),
    Figure("collage", "fig", 9, "what planning takes at the op level", "minutes"),
    Figure("collage", "fig", 10, "what the graph level gains over the op level, over time", "hours"),
    Figure("collage", "fig", 11, "throughput as backends are added one by one", "minutes"),
    Figure("collage", "fig", 12, "backends of the operators of BERT and ResNeXt50", "hours"),
)

FIGURES: Mapping[str, Figure] = MappingProxyType({figure.name: figure for figure in _ALL})
"""Name -> figure, paper by paper. AlpaServe's Figures 3 and 11, Themis' 6 and 7 are drawings without data."""

_SPELLED = re.compile(r"(?P<paper>[a-z_]+)/(?P<kind>fig|figure|table|note)?(?:(?P<chapter>\d+)\.)?0*(?P<number>\d+)")


def named(name: str) -> Figure:
    """The figure of a name: the paper's number (vllm/fig12, also vllm/figure12), or the thesis' (vllm/5.12).

    Raises
    ------
    InputError
        On an unknown name; the message gives the nearest one.
    """
    found = _SPELLED.fullmatch(name.strip().lower().replace("-", "_"))
    if found:
        kind = found["kind"] if found["kind"] in ("table", "note") else "fig"
        for figure in FIGURES.values():
            same = (figure.paper, figure.kind) == (found["paper"], kind)
            chapter = PAPERS[figure.paper].chapter
            bare = found["kind"] is None and found["chapter"] is None  # vllm/12 says neither figure nor table
            if (
                same
                and not bare
                and int(found["number"]) in (figure.number, *figure.also)
                and (found["chapter"] is None or int(found["chapter"]) == chapter)
            ):
                return figure
    raise InputError(f"reproduce: unknown figure {name!r}; {_hint(name)}")


def resolve(words: Iterable[str]) -> tuple[str, ...]:
    """Names of figures that words stand for, each once, in the order asked for.

    Parameters
    ----------
    words : iterable of str
        Names as `named` reads them, papers (all of their figures) or ``all``.

    Raises
    ------
    InputError
        On an unknown word; the message gives the nearest one.
    """
    found: dict[str, None] = {}
    for word in words:
        paper = word.strip().lower().replace("-", "_").rstrip("/")
        if paper == "all":
            found.update(dict.fromkeys(FIGURES))
        elif paper in PAPERS:
            found.update((name, None) for name, figure in FIGURES.items() if figure.paper == paper)
        else:
            found[named(word).name] = None
    return tuple(found)


def completions() -> list[tuple[str, str]]:
    """Every word that `resolve` takes, with what it stands for: all, papers, figures, and the thesis' numbers."""
    words = [("all", "every figure and table")]
    words += [(key, f"all of {paper.title}") for key, paper in PAPERS.items()]
    words += [(figure.name, figure.title) for figure in _ALL]
    return words + [(figure.alias, figure.title) for figure in _ALL if figure.alias is not None]


def _hint(name: str) -> str:
    """The nearest known word, or how names are made."""
    stem = name.strip().lower().rpartition("/")[2]
    papers = [figure.name for figure in _ALL if stem in (figure.stem, figure.stem.replace("fig0", "fig"))]
    if "/" not in name and papers:
        return f"say of which paper: {', '.join(papers)}"
    near = difflib.get_close_matches(name.lower(), [word for word, _ in completions()], n=1, cutoff=0.5)
    how = "a name is paper/figNN, as in vllm/fig12; --list shows them"
    return f"did you mean {near[0]!r}?" if near else how
