"""Export: a placement as files that start it on another system."""

from __future__ import annotations

from typing import cast

from ....runtime.export.export import export
from ....simulator import Plan
from ...before import folder_of, one_plan
from ...door import Answer, Asked
from ...words import NEXT
from ..options import ExportOptions

__all__ = ["exported"]


def exported(asked: Asked) -> Answer:
    """Write the files.

    Raises
    ------
    InputError
        On an unknown target, or a plan that it cannot hold; nothing is written then.
    """
    options, plan = cast(ExportOptions, asked.options), cast(Plan, one_plan(asked))
    paths = export(
        plan, options.to, folder_of(asked.out), force=options.force, image=options.image, namespace=options.namespace,
        hosts=options.host, port=options.port, device=options.on, model_source=dict(options.model_source),
    )  # fmt: skip
    document = {"target": options.to, "files": [str(path) for path in paths]}
    return Answer(NEXT[options.to].format(out=asked.out), document, tuple(paths), written=tuple(paths))
