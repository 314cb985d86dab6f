"""A uniform chain of stages as readable torch: modules on DTensor, run by torch's own pipeline schedules."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files as package_files

from ..... import __version__
from .....errors import InputError
from .....profiles.graph import Graph, Operator
from .....simulator.training.plan.file import StageEntry, TrainingPlan
from ....training.wires.layout import natural
from ...tree import File
from .code import expression, plain_cut

__all__ = ["chain_files", "why_no_chain"]

SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}

HEAD = '''\
"""{model} in {count} stage(s), written by Meshwright {version} from plan.json. Torch alone; shardings as planned.

Every line is an operator: what a device computes of its shards, the loops of its operands and result, the loop that
each mesh axis cuts, the sharding that each operand is brought to, and that of the result (see meshed.py).
"""

import torch
import torch.nn.functional as F

from meshed import causal_softmax, operator, parameter, received, rms_norm, rope, rows, sent  # noqa: F401

RANKS = {ranks}  # of each stage
LOGICAL = {logical}  # shape of its mesh
MICROBATCHES = {microbatches}  # of {microbatch} samples
FIRST = {first!r}  # the input that the pipeline begins with

SAMPLES = {samples}  # input of one microbatch -> (shape, indices below; 0: real numbers)
INPUTS = {inputs}  # of each stage: input -> how a device's part of it is cut

# Of each stage: parameter -> (shape, how it is kept, how its gradient and optimiser state are)
PARAMETERS = [
{parameters}]
'''

STAGE = '''

class Stage{number}(torch.nn.Module):
    """Operators {first} to {last}, on ranks {ranks} as {a} x {b}."""

    def __init__(self, mesh, values):
        super().__init__()
        self.mesh = mesh
        for name, (_, kept, _) in PARAMETERS[{number}].items():
            self.register_parameter(name.replace(".", "_"), parameter(mesh, values[name], kept))

    def planned(self):
        """Parameters by the names of the plan."""
        return {{name: getattr(self, name.replace(".", "_")) for name in PARAMETERS[{number}]}}

    def forward(self, {arguments}):
        mesh = self.mesh
{lines}
        return {result}
'''


def why_no_chain(plan: TrainingPlan, graph: Graph) -> str:
    """Why torch's own pipelining cannot run the plan, or a line of torch not say an operator; empty if they can."""
    try:
        _check(plan, graph)
        _stages(plan, graph)
    except InputError as error:
        return str(error)
    return ""


def chain_files(plan: TrainingPlan, graph: Graph) -> dict[str, File]:
    """``stages.py``, ``meshed.py`` and ``train_torch.py``.

    Raises
    ------
    InputError
        If `why_no_chain` gives a reason.
    """
    _check(plan, graph)
    here = package_files("meshwright.runtime.export.training.torch")
    train = here.joinpath("train.py.txt").read_text(encoding="utf-8").format(
        devices=sum(m.hosts * m.devices for m in plan.meshes), version=__version__, dtype=plan.model.dtype,
        optimizer={"adam": "Adam", "sgd": "SGD", "momentum": "SGD"}[plan.model.optimizer],
        settings=", momentum=0.9" if plan.model.optimizer == "momentum" else "",
        schedule=SCHEDULES.get(plan.schedule, "Schedule1F1B"),
    )  # fmt: skip
    meshed = here.joinpath("meshed.py.txt").read_text(encoding="utf-8").replace("{version}", __version__)
    return {"stages.py": File(_stages(plan, graph)), "meshed.py": File(meshed), "train_torch.py": File(train)}


def _check(plan: TrainingPlan, graph: Graph) -> None:
    count = len(plan.stages)
    if plan.model.optimizer == "adafactor":
        raise InputError("torch's Adafactor takes no shards")
    if count > 1 and plan.schedule not in SCHEDULES:
        raise InputError(f"schedule {plan.schedule} is none of {', '.join(SCHEDULES)}")
    if len({plan.microbatch_of(s) for s in range(count)}) > 1:
        raise InputError("stages have microbatches of different sizes")
    if len(plan.meshes) != count or [s.mesh for s in plan.stages] != list(range(count)):
        raise InputError("several stages share a mesh")
    shapes = {stage.logical for stage in plan.stages}
    if len(shapes) > 1:
        raise InputError(f"stages have meshes of different shapes: {', '.join(f'{a} x {b}' for a, b in shapes)}")
    owner: dict[str, int] = {}
    for s, stage in enumerate(plan.stages):
        if not stage.operators:
            raise InputError(f"the plan does not say how the operators of stage {s} are run")
        if stage.recompute != "none":
            raise InputError(f"stage {s} recomputes activations")
        for name in stage.parameters:
            if owner.setdefault(name, s) != s:
                raise InputError(f"stages {owner[name]} and {s} share parameter {name!r}")
        came = _received(graph, stage)
        if s and (len(came) != 1 or graph.index[came[0]] < plan.stages[s - 1].first):
            raise InputError(f"stage {s} reads {', '.join(map(repr, came)) or 'nothing'}: no chain of one tensor")


def _received(graph: Graph, stage: StageEntry) -> list[str]:
    """Results of earlier stages that a stage reads."""
    names = (x for op in graph.operators[stage.first : stage.last] for x in op.inputs)
    return [name for name in dict.fromkeys(names) if graph.index.get(name, stage.first) < stage.first]


def _stages(plan: TrainingPlan, graph: Graph) -> str:
    """The text of ``stages.py``."""
    classes: list[str] = []
    given = {t.name for t in graph.inputs}
    inputs: list[dict[str, str]] = []
    came = [_received(graph, stage) for stage in plan.stages]
    for s, stage in enumerate(plan.stages):
        lines, read = _lines(graph, stage, [*came[s]], plan, s)
        inputs.append({name: spec for name, spec in read.items() if name in given})
        last = s == len(plan.stages) - 1
        out = _name(graph.operators[-1].name if last else came[s + 1][0])
        classes.append(
            STAGE.format(
                number=s, first=stage.first, last=stage.last - 1, a=stage.logical[0], b=stage.logical[1],
                ranks=", ".join(map(str, plan.mesh(s).device_ids)), lines="\n".join(lines),
                arguments=", ".join(_name(x) for x in [*came[s], *inputs[-1]]),
                result=f"sent({out}).reshape(1)" if last else f"sent({out})",
            )
        )  # fmt: skip
    order = {d: r for r, d in enumerate(sorted(d for s in range(len(plan.stages)) for d in plan.mesh(s).device_ids))}
    ranks = [[order[d] for d in plan.mesh(s).device_ids] for s in range(len(plan.stages))]
    first = next((name for name in inputs[0]), "")
    if not first and len(plan.stages) > 1:
        raise InputError("the first stage reads no input")
    rows = "".join(f"    {{\n{''.join(_parameter_rows(graph, stage))}    }},\n" for stage in plan.stages)
    head = HEAD.format(
        model=plan.model.name, count=len(plan.stages), version=__version__, ranks=ranks,
        logical=[stage.logical for stage in plan.stages], microbatches=plan.microbatches, microbatch=plan.microbatch,
        first=first, samples={t.name: (t.shape, _below(graph, t.name)) for t in graph.inputs}, inputs=inputs,
        parameters=rows,
    )  # fmt: skip
    names = ", ".join(f"Stage{s}" for s in range(len(plan.stages)))
    return f"{head}{''.join(classes)}\n\nSTAGES = [{names}]\n"


def _parameter_rows(graph: Graph, stage: StageEntry) -> list[str]:
    rows: list[str] = []
    for name, kept in stage.parameters.items():
        state = stage.optimizer_states.get(name, kept)
        rows.append(f"        {name!r}: ({graph.tensors[name].shape}, {kept!r}, {state!r}),\n")
    return rows


def _lines(
    graph: Graph, stage: StageEntry, came: list[str], plan: TrainingPlan, s: int
) -> tuple[list[str], dict[str, str]]:
    """Statements of a stage's forward pass, and how each tensor that it is given lies."""
    lines: list[str] = []
    lie: dict[str, str] = {}
    layer = -1
    for name in came:
        source = next(x for x in plan.stages if name in x.operators)
        lie[name] = source.operators[name].result
        lines.append(f'        {_name(name)} = received(mesh, {_name(name)}, "{lie[name]}")')
    for operator in graph.operators[stage.first : stage.last]:
        if operator.layer != layer:
            layer = operator.layer
            lines.append(f"        # layer {layer}" if layer >= 0 else "        # after the layers" if s else "")
        entry = stage.operators[operator.name]
        cut = plain_cut(operator, entry.axes)
        specs = [_spec(natural(dims, cut, stage.logical)) for dims in operator.parsed.operands]
        texts: list[str] = []
        for name, spec in zip(operator.inputs, specs, strict=True):
            if name in graph.tensors and name not in stage.parameters and name not in lie:
                lie[name] = spec
                lines.append(f'        {_name(name)} = received(mesh, {_name(name)}, "{spec}")')
            own = f"self.{name.replace('.', '_')}" if name in stage.parameters else _name(name)
            texts.append(f'({own}, "{spec}")')
        lines += _statement(operator, cut, texts, entry.result, stage.logical)
    return [line for line in lines if line], lie


def _statement(
    operator: Operator, cut: tuple[str, str], operands: list[str], result: str, logical: tuple[int, int]
) -> list[str]:
    letters = "xyzuvw"[: len(operands)]
    said = expression(operator, list(letters), cut, logical)
    kept = tuple(loop if logical[axis] > 1 else "" for axis, loop in enumerate(cut))
    return [
        f"        {_name(operator.name)} = operator(",
        f'            mesh, lambda {", ".join(letters)}: {said}, "{operator.formula}",',
        f'            {kept!r}, [{", ".join(operands)}], "{result}",'.replace("'", '"'),
        "        )",
    ]


def _spec(layout: tuple[tuple[int, ...], ...]) -> str:
    return "".join("S" + "".join(map(str, cut)) if cut else "R" for cut in layout)


def _name(name: str) -> str:
    """A name of the graph as one of Python."""
    plain = re.sub(r"\W", "_", name)
    return f"_{plain}" if plain[:1].isdigit() or keyword.iskeyword(plain) or plain in ("mesh", "self", "F") else plain


def _below(graph: Graph, name: str) -> int:
    """Indices that an integer input may hold are below this; 0 for real numbers."""
    if not graph.tensors[name].dtype.startswith("int"):
        return 0
    sizes: list[int] = []
    for i, k in graph.consumers[name]:
        operator = graph.operators[i]
        other = operator.parsed.operands[1 - k]
        loop = other[0][0] if operator.kind == "embedding" else other[-1][0]
        sizes.append(operator.sizes[loop])
    return min(sizes)
