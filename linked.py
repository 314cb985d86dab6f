"""`Linked`: numba's compiler, without machine code for functions that only kernels call.

numba optimises every function that a kernel calls down to machine code, its own functions included. That is wasted: the
kernel has a copy of each inside. It took a quarter of a kernel's compilation time. Here such functions are only linked
into the kernel, and optimised together with it.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.environment import lookup_environment

__all__ = ["Linked"]

ENTRY, ENVIRONMENT = "_ZN7cpython", "_ZN08NumbaEnv"
"""Prefixes of numba's names: of the function that Python calls, and of the variable that holds its environment."""


NAMES = hash(tuple(sorted(Flags.options)))
"""numba's hash of a set of options, which is the hash of their names and so the same for all."""


class Linked(Compiler):
    """numba's compiler, which makes a `Part` of each function that it compiles, and compares options quickly."""

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
    """Compare two sets of options, with the same result as numba.

    numba reads all forty options in every comparison, which took a seventh of the compilation time.
    """
    if one is other:
        return True
    if not isinstance(other, Flags):
        return NotImplemented
    here, there = one._values, other._values
    return here == there or all(getattr(one, name) == getattr(other, name) for name in here.keys() | there.keys())


def _names(_: Flags) -> int:
    return NAMES


class Part(JITCodeLibrary):
    """The code of a function; it becomes machine code only if Python can call it."""

    _native = True

    @property
    def codegen(self) -> Any:
        """The code generator. A part gets one that sets no environment: before it is linked there is no place for
        it."""
        return self._codegen if self._native else Unset(self._codegen)

    def finalize(self) -> None:
        """Link everything that it calls into it. If Python calls it, optimise all of that and make machine code."""
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
        """The address of a function; 0 if it has no machine code."""
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
