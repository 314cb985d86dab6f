"""Export: a policy as settings of another system."""

from __future__ import annotations

from typing import cast

from ....errors import InputError
from ....runtime.export.sharing import export_sharing, fit_of
from ...before import folder_of, one_plan
from ...door import Answer, Asked
from ..build import in_file_words
from ..options import ExportOptions
from ..plan import SharingPlan
from .shared import shared_of

__all__ = ["exported"]


def exported(asked: Asked) -> Answer:
    """Write the files, and say what of the policy the target keeps.

    Raises
    ------
    InputError
        On an unknown target, or what is wrong with the case; nothing is written then.
    """
    options, plan = cast(ExportOptions, asked.options), cast(SharingPlan, one_plan(asked))
    shared = shared_of(asked)
    (called,) = shared.planners
    name, made = plan.decided.name, shared.policy(called)
    try:
        paths = export_sharing(
            shared.world, made, options.to, folder_of(asked.out), force=options.force, namespace=options.namespace,
            at_s=options.at,
        )  # fmt: skip
    except InputError as error:
        raise in_file_words(error) from None
    kept, out = "yes", asked.out
    if options.to == "scheduler-plugin":
        text = f"a stub: {out}/README.md says what is yours to write"
    else:
        kept = fit_of(options.to, name, made.preempts, shared.world.lease_s).kept
        text = f"{options.to} orders apps as {name} does, not everything else; see {out}/README.md"
        if kept == "no":
            text = f"{options.to} cannot express {name}: these are the nearest settings; {out}/plugin runs it"
    document = {"target": options.to, "policy": name, "kept": kept, "files": [str(path) for path in paths]}
    return Answer(text, document, tuple(paths), written=tuple(paths))
