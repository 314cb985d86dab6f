"""What training cases share: graphs, shapes, tables and profiles, loaded and checked before the first point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import InputError
from ...files import readable
from ...planners.training import CONFIGURATION_SEARCH, TRAINING_PLANNERS, planner_options
from ...profiles.hardware import device
from ...wording import nearest
from ..words import under
from .case import TrainingCase
from .clusters import check_further, cluster_of
from .long_run import check_failing, graph_bytes, shape_bytes
from .measured import load_profile

if TYPE_CHECKING:
    from ...planners.terapipe.slice_profile import SliceProfile
    from ...profiles.graph import Graph
    from ...profiles.graph.costs.measured.profile import TrainingProfile
    from ...profiles.llm import KernelTables
    from ...simulator.training import TransformerShape

__all__ = ["PLANNERS", "TrainingData", "is_search", "load_data", "model_key"]

PLANNERS = (*TRAINING_PLANNERS, CONFIGURATION_SEARCH)
"""Names of the planners."""

TERAPIPE = "terapipe"
"""The planner that takes measured slices."""

SHORT = {"layers": "n_layers"}
"""Short names of options."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What was loaded.

    Parameters
    ----------
    graphs : mapping of str to Graph
        By `model_key`: of planners of graphs.
    shapes : mapping of str to TransformerShape
        By `model_key`: of the configuration search.
    tables : mapping of str to KernelTables
        By folder.
    slices : mapping of str to SliceProfile
        By file: of TeraPipe.
    profiles : mapping of str to TrainingProfile
        By file: of planners of graphs.
    digests : mapping of str to str
        Name of a file or folder -> SHA-256 of its content.
    """

    graphs: dict[str, Graph] = field(default_factory=dict[str, "Graph"])
    shapes: dict[str, TransformerShape] = field(default_factory=dict[str, "TransformerShape"])
    tables: dict[str, KernelTables] = field(default_factory=dict[str, "KernelTables"])
    slices: dict[str, SliceProfile] = field(default_factory=dict[str, "SliceProfile"])
    profiles: dict[str, TrainingProfile] = field(default_factory=dict[str, "TrainingProfile"])
    digests: dict[str, str] = field(default_factory=dict[str, str])

    def graph_of(self, case: TrainingCase) -> Graph:
        """The graph of a case's model."""
        return self.graphs[model_key(case)]

    def options_of(self, case: TrainingCase) -> dict[str, Any]:
        """Options of the planner, files among them loaded."""
        said = _plain(case)
        named = said.get("slice_profile")
        return said if named is None else said | {"slice_profile": self.slices[str(named)]}

    def checkpoint_bytes(self, case: TrainingCase, optimizer: str = "adam", dtype: str = "bfloat16") -> float:
        """Bytes of a checkpoint of a case's model."""
        if is_search(case):
            return shape_bytes(self.shapes[model_key(case)], dtype)
        return graph_bytes(self.graph_of(case), optimizer)

    def digests_of(self, case: TrainingCase) -> dict[str, str]:
        """Of the files that a case reads."""
        named = (case.model, case.kernels, case.profile, _plain(case).get("slice_profile"))
        return {name: self.digests[name] for name in named if isinstance(name, str) and name in self.digests}


def is_search(case: TrainingCase) -> bool:
    """Whether the configuration search plans, which knows a decoder by its sizes."""
    return case.planner.name == CONFIGURATION_SEARCH


def model_key(case: TrainingCase) -> str:
    """What tells the model of a case from that of another."""
    sizes = sorted(case.shape.said.items())
    return json.dumps([case.model, sizes, case.workload.sequence])


def load_data(cases: Sequence[TrainingCase], folder: Path) -> TrainingData:
    """Load what cases name.

    Raises
    ------
    InputError
        Every problem, one a line, each beginning with the field that it is about.
    """
    data, wrong = TrainingData(), list[str]()

    def tried(path: str, load: Callable[[], T]) -> T | None:
        try:
            return load()
        except InputError as error:
            (line,) = under(path, " ".join(str(error).split()))
            if line not in wrong:
                wrong.append(line)
            return None

    def once(path: str, key: str | None, into: dict[str, T], load: Callable[[], T]) -> None:
        if key is not None and key not in into:
            found = tried(path, load)
            if found is not None:
                into[key] = found

    for case in cases:
        tried("cluster", lambda c=case: cluster_of(c))
        if case.cluster.also:
            tried("cluster.also", lambda c=case: check_further(c))
        for name in case.speed:
            tried("speed", lambda n=name: device(n))
        if tried("planner.name", lambda c=case: _known(c.planner.name)) is None:
            continue
        _check(case, tried)
        key = model_key(case)
        if is_search(case):
            once("model", key, data.shapes, lambda c=case: _shape(c))
            once("kernels", case.kernels, data.tables, lambda c=case: _tables(str(c.kernels), folder, data))
        else:
            once("model", key, data.graphs, lambda c=case: _graph(c, folder, data))
            once("profile", case.profile, data.profiles, lambda c=case: _profile(c, folder, data))
        if case.failures.some and (key in data.shapes or key in data.graphs):
            _check_failing(case, data, wrong)
        profile = _plain(case).get("slice_profile")
        if isinstance(profile, str) and case.planner.name == TERAPIPE:
            once("planner.options", profile, data.slices, lambda p=profile: _slices(p, folder, data))
    if wrong:
        raise InputError("\n".join(wrong))
    return data


def _check_failing(case: TrainingCase, data: TrainingData, wrong: list[str]) -> None:
    try:
        check_failing(case, cluster_of(case), data.checkpoint_bytes(case))
    except InputError as error:
        if str(error) not in wrong:
            wrong.append(str(error))


def _plain(case: TrainingCase) -> dict[str, Any]:
    """Options as the planner names them."""
    said = {name.replace("-", "_"): value for name, value in case.planner.options.items()}
    return {SHORT.get(name, name): value for name, value in said.items()}


def _known(name: str) -> bool:
    if name not in PLANNERS:
        near = nearest(name, PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"those of training are {', '.join(PLANNERS)}"
        raise InputError(f"{name!r} plans no training; {hint}")
    return True


def _check(case: TrainingCase, tried: Callable[[str, Callable[[], Any]], Any]) -> None:
    """What no field alone can tell is wrong."""
    name, work = case.planner.name, case.workload
    tried("planner.options", lambda: planner_options(name).of(_plain(case)))
    if is_search(case):
        if work.microbatches is not None:
            tried(
                "workload.microbatches", lambda: _refuse("planner search chooses them; give planner.options.microbatch")
            )
        if case.profile is not None:
            tried("profile", lambda: _refuse("is of operators, of which planner search knows none; give kernels"))
    elif case.kernels is not None:
        tried("kernels", lambda: _refuse(f"are for planner {CONFIGURATION_SEARCH}, not for {name!r}; leave it out"))
    elif work.microbatches is not None and "microbatches" in _plain(case):
        tried(
            "workload.microbatches", lambda: _refuse("planner.options.microbatches says it, too; give one of the two")
        )


def _profile(case: TrainingCase, folder: Path, data: TrainingData) -> TrainingProfile:
    if case.cluster.also:
        raise InputError("several clusters go without a profile; leave one of them out")
    if case.speed.get(case.cluster.device, 1.0) != 1.0:
        raise InputError("measured operators take what they take; leave speed or the profile out")
    found = load_profile(case, folder)
    data.digests[str(case.profile)] = hashlib.sha256(readable(folder / str(case.profile)).read_bytes()).hexdigest()
    return found


def _refuse(why: str) -> None:
    raise InputError(why)


def _shape(case: TrainingCase) -> TransformerShape:
    """The decoder, for the configuration search."""
    from ...planners.megatron import model_shape

    found = model_shape(case.model, case.workload.sequence)
    sizes = case.shape.said
    if "experts" in sizes:
        raise InputError("shape.experts: planner search models no experts; leave it out")
    # What a model has by a rule (heads of keys and values, GPT's inner size) follows the sizes that the rule names.
    freed: dict[str, int] = {}
    if found.kv_heads == found.heads:
        freed["kv_heads"] = 0
    if found.ffn == 4 * found.hidden:
        freed["ffn"] = 0
    if found.head_dim * found.heads == found.hidden:
        freed["head_dim"] = 0
    return replace(found, **{**freed, **sizes}) if sizes else found


def _graph(case: TrainingCase, folder: Path, data: TrainingData) -> Graph:
    """The graph: of the zoo, perhaps in other sizes; of a file; or traced from a module. It has a loss."""
    from ...profiles.graph import check_loss

    found = _named(case, folder, data)
    check_loss(found)
    return found


def _named(case: TrainingCase, folder: Path, data: TrainingData) -> Graph:
    from ...profiles.graph import build_graph, in_zoo
    from ...profiles.graph.hf import is_hf
    from ...profiles.graph.named import graph_of

    sizes = dict(case.shape.said)
    if case.workload.sequence is not None:
        sizes["seq"] = case.workload.sequence
    if in_zoo(case.model):
        return build_graph(case.model, sizes=sizes) if sizes else graph_of(case.model, "model")
    if is_hf(case.model):
        return _of_hugging_face(case, folder, data)
    file, colon, function = case.model.rpartition(":") if ".py:" in case.model else (case.model, "", "")
    found = graph_of(f"{folder / file}{colon}{function}", "model") if (folder / file).is_file() else graph_of(
        case.model, "model"
    )  # fmt: skip
    if sizes:
        what = "workload.sequence" if "seq" in sizes else f"shape.{next(iter(sizes))}"
        raise InputError(f"{what}: {case.model} has sizes of its own; take a model of the zoo, or change the file")
    data.digests[case.model] = hashlib.sha256(found.to_json().encode()).hexdigest()
    return found


def _of_hugging_face(case: TrainingCase, folder: Path, data: TrainingData) -> Graph:
    """The graph of a configuration, at the case's length of a sample."""
    from ...profiles.graph.hf import located, with_sequence
    from ...profiles.graph.named import graph_of

    if case.shape.said:
        what = next(iter(case.shape.said))
        raise InputError(f"shape.{what}: {case.model} has sizes of its own; change the configuration")
    found = graph_of(located(with_sequence(case.model, case.workload.sequence), folder), "model")
    data.digests[case.model] = hashlib.sha256(found.to_json().encode()).hexdigest()
    return found


def _tables(name: str, folder: Path, data: TrainingData) -> KernelTables:
    from ...profiles.llm import KernelTables

    found = KernelTables.load(folder / name)
    together = hashlib.sha256()
    for each in sorted(p for p in (folder / name).rglob("*") if p.is_file()):
        together.update(each.relative_to(folder / name).as_posix().encode() + b"\0" + each.read_bytes())
    data.digests[name] = together.hexdigest()
    return found


def _slices(name: str, folder: Path, data: TrainingData) -> SliceProfile:
    from ...planners.terapipe.slice_profile import SliceProfile

    found = SliceProfile.load(folder / name)
    data.digests[name] = hashlib.sha256(readable(folder / name).read_bytes()).hexdigest()
    return found
