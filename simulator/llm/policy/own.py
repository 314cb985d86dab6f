"""`register_policy`: a scheduler of your own, under a name, beside the shipped ones (docs/own-llm-policy.md)."""

from __future__ import annotations

from dataclasses import fields

from ....errors import InputError
from ..plan.entries import MEMORY_OPTION
from .catalogue import POLICIES, Policy

__all__ = ["register_policy"]

MEMORY_OPTIONS = ("num_blocks", "num_gpu_blocks")  # what V1 and 0.2 call their KV blocks
SHIPPED = frozenset(POLICIES)


def register_policy(name: str, policy: Policy) -> None:
    """Make a policy known to `drive`, `simulate_llm`, plans and the real engine, in this process.

    Parameters
    ----------
    name : str
        Its name. You may register a name of your own again, as notebooks do; it then stands for the new policy.
    policy : Policy
        What an engine must know to run it. For a scheduler that changes a shipped one, use
        ``dataclasses.replace(POLICIES["vllm-v1"], scheduler=Mine)``.

    Raises
    ------
    InputError
        If the name is empty or a shipped policy's, or `policy` is no `Policy`.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"name: expected a name (got {name!r})")
    if name in SHIPPED:
        raise InputError(f"name: {name!r} is a shipped policy; take another name")
    if not isinstance(policy, Policy):
        raise InputError(
            "policy: expected a Policy, such as dataclasses.replace(POLICIES['vllm-v1'], scheduler=Mine) "
            f"(got {type(policy).__name__})"
        )
    named = {f.name for f in fields(policy.config)}
    memory = next((option for option in MEMORY_OPTIONS if option in named), None)
    POLICIES[name] = policy
    if memory is None:  # contiguous memory, counted in slots
        MEMORY_OPTION.pop(name, None)
    else:
        MEMORY_OPTION[name] = memory
