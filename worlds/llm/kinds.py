"""What a case says that only some kinds of models have: experts, towers that see, layers for drafts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...profiles.llm import DecoderSpec, decoder
from ...profiles.llm.tower import Image, checked_images
from .case import LLMCase

__all__ = ["check_room", "image_tokens", "unfit"]


def unfit(case: LLMCase, model: DecoderSpec) -> Iterator[tuple[str, str]]:
    """Path of every field that a model cannot have, and why."""
    w, e = case.workload, case.engine
    if w.images and model.tower is None:
        yield "workload.images", f"{model.name} has no tower that sees; give a config.json with vision_config"
    if not model.experts:
        if "expert_skew" in w.model_fields_set:
            yield "workload.expert_skew", f"{model.name} has no experts; leave it out"
        for name in ("data_parallel_size", "enable_expert_parallel"):
            if getattr(e, name) != EXPERTLESS[name]:
                yield f"engine.{name}", f"{model.name} has no experts; leave it out"
    drafts = e.speculative_config
    if drafts is not None and drafts.method == "mtp" and not model.mtp_layers:
        yield (
            "engine.speculative_config.method",
            f"the checkpoint of {model.name} has no layer that predicts further tokens; set draft_model or ngram",
        )
    if drafts is not None and drafts.method == "draft_model":
        try:
            decoder(drafts.model)
        except InputError as error:
            yield "engine.speculative_config.model", str(error)


EXPERTLESS = {"data_parallel_size": 1, "enable_expert_parallel": False}
"""What the engine of a model without experts says."""


def image_tokens(images: tuple[Image, ...], model: DecoderSpec) -> int:
    """Tokens that the images of a request become; 0 without any.

    Raises
    ------
    InputError
        If the model has no tower that sees.
    """
    seen = checked_images(images, model.tower, model.name)
    return sum(map(model.tower.image_tokens, seen)) if model.tower is not None else 0


def check_room(tokens: int, prompts: NDArray[np.int64], source: str) -> None:
    """See that prompts that were measured hold the tokens of their images.

    Raises
    ------
    InputError
        If one is shorter.
    """
    least = int(prompts.min())
    if least < tokens:
        raise InputError(
            f"workload.images: they are {tokens} tokens, and a prompt of {source} has {least}: prompts hold the tokens "
            "of their images"
        )
