"""How a kernel's parts are compiled: linked into it, optimised with it, and never made native by themselves.

numba optimises every function that a kernel calls, its own and each of numba's, down to machine code: for nothing, as
the kernel has a copy of each inside. That was a quarter of what a kernel takes to compile.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.environment import lookup_environment

__all__ = ["Linked"]

ENTRY, ENVIRONMENT = "_ZN7cpython", "_ZN08NumbaEnv"
"""How numba's names begin of what Python calls, and of the variable with a function's environment."""


NAMES = hash(tuple(sorted(Flags.options)))
"""numba's hash of options: that of their names, the same for all."""


class Linked(Compiler):
    """numba's compiler, with `Part` for all that is compiled meanwhile, and options that are compared quickly."""

    def _compile_core(self) -> Any:
        codegen: Any = self.state.targetctx.codegen()  # numba holds a lock: nothing else is compiled at the same time
        flags: Any = Flags
        before = codegen._library_class, flags.__eq__, flags.__hash__
        codegen._library_class, flags.__eq__, flags.__hash__ = Part, _alike, _names
        try:
            return super()._compile_core()
        finally:
            codegen._library_class, flags.__eq__, flags.__hash__ = before


def _alike(one: Flags, other: object) -> bool:
    """What numba's own comparison says, which reads all forty options each time: a seventh of all that it did."""
    if one is other:
        return True
    if not isinstance(other, Flags):
        return NotImplemented
    here, there = one._values, other._values
    return here == there or all(getattr(one, name) == getattr(other, name) for name in here.keys() | there.keys())


def _names(_: Flags) -> int:
    return NAMES


class Part(JITCodeLibrary):
    """Code of a function; native only if Python has a way into it."""

    _native = True

    @property
    def codegen(self) -> Any:
        """What made it; of a part one that sets no environment, for which there is no place before it is linked."""
        return self._codegen if self._native else Unset(self._codegen)

    def finalize(self) -> None:
        """Link what it calls into it, and where Python calls it, optimise all of it and make it native."""
        self._native = any(
            not function.is_declaration and function.name.startswith(ENTRY) for function in self._final_module.functions
        )
        if self._native:
            super().finalize()
            return
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function, 0 where there is none."""
        self._ensure_finalized()
        return super().get_pointer_to_function(name) if self._native else 0

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:  # those of its parts too
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                set_env: Any = self._codegen
                set_env.set_env(variable.name, environment)


class Unset:
    """A code generator that sets no environment."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: the kernel that it is linked into sets it."""
