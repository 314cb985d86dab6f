"""`Linked`: numba's compiler, without machine code for functions that only kernels call.

numba optimises every function that a kernel calls down to machine code, its own functions included. That is wasted: the
kernel has a copy of each inside. It took a quarter of a kernel's compilation time. Here such functions are only linked
into the kernel, and optimised together with it.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from numba.core import base, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.environment import lookup_environment
from numba.core.lowering import BaseLower
from numba.core.types.functions import BaseFunction

from .lean import pipeline

__all__ = ["Linked", "Rolled"]

ENTRY, ENVIRONMENT = "_ZN7cpython", "_ZN08NumbaEnv"
"""Prefixes of numba's names: of the function that Python calls, and of the variable that holds its environment."""


NAMES = hash(tuple(sorted(Flags.options)))
"""numba's hash of a set of options, which is the hash of their names and so the same for all."""


class Linked(Compiler):
    """numba's compiler with the passes of `lean`, which makes a `Part` of each function that it compiles."""

    part: type[Part]

    def define_pipelines(self) -> list[Any]:
        """The passes of `lean`; numba's own for code that is not to be compiled to machine code."""
        return super().define_pipelines() if self.state.flags.force_pyobject else [pipeline(self.state)]

    def _compile_core(self) -> Any:
        codegen: Any = self.state.targetctx.codegen()  # numba holds a lock: nothing else is compiled at the same time
        before = codegen._library_class
        if issubclass(before, Part):  # a function that another one calls, and is compiled as that one
            return super()._compile_core()
        codegen._library_class = self.part
        try:
            with _quickly():
                return super()._compile_core()
        finally:
            codegen._library_class = before


class Rolled(Linked):
    """`Linked`, for kernels whose loops go over few elements: they are neither unrolled nor vectorised.

    Both made the code of the sharing world's kernels three times as long, and the kernels no faster.
    """


@contextmanager
def _quickly() -> Generator[None, None, None]:
    """Spare numba some work that it does again and again, with the same result.

    Options are compared by their values; what an operator means of numbers is looked up once; nobody is told of each
    call of LLVM; no wrappers for C are made, since nobody takes a kernel's address; and Python looks for no garbage,
    which it did all the time among numba's many objects that live until a kernel is done.
    """
    instead: list[tuple[Any, str, Any]] = [
        (Flags, "__eq__", _alike), (Flags, "__hash__", _names), (BaseFunction, "get_call_type", _call_type),
        (BaseLower, "create_cfunc_wrapper", _nothing), (base, "event", Silent),
    ]  # fmt: skip
    before = [(where, name, getattr(where, name)) for where, name, _ in instead]
    collects = gc.isenabled()
    for where, name, value in instead:
        setattr(where, name, value)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        for where, name, value in before:
            setattr(where, name, value)


class Silent:
    """Stands in for numba's events where it reports each use of LLVM's lock: thousands in a kernel."""

    @staticmethod
    def start_event(kind: str) -> None:
        """Nothing."""

    end_event = start_event


def _nothing(_: object) -> None:
    pass


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


_NUMBERS = (types.Integer, types.Float, types.Boolean, types.BooleanLiteral)
_get_call_type: Any = BaseFunction.get_call_type
_signatures: dict[Any, Any] = {}


def _call_type(one: Any, context: Any, args: tuple[Any, ...], kws: Any) -> Any:
    """The signature of a call, with the same result as numba; of operators on numbers and arrays, looked up once.

    numba goes through all that an operator could mean each time that it stands in a function, and again to lower it.
    """
    if kws or getattr(one.typing_key, "__module__", "") != "_operator" or not all(map(_plain, args)):
        return _get_call_type(one, context, args, kws)
    key = id(one), args
    if key not in _signatures:
        _signatures[key] = one, _get_call_type(one, context, args, kws)  # `one` stays, and so its number
    return _signatures[key][1]


def _plain(kind: Any) -> bool:
    if isinstance(kind, types.Array):
        return isinstance(kind.dtype, _NUMBERS)
    each: Any = kind if isinstance(kind, types.BaseTuple) else (kind,)
    return all(isinstance(one, _NUMBERS) for one in each)


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
        """If Python calls it, link everything that it calls into it, optimise all of that and make machine code."""
        self._native = any(
            not function.is_declaration and function.name.startswith(ENTRY) for function in self._final_module.functions
        )
        if self._native:
            self._gather()
            super().finalize()
            return
        self._raise_if_finalized()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def _gather(self) -> None:
        """Find all that it calls, directly or not, so that each part is linked once, and not into every caller.

        Callers come before what they call: LLVM leaves out a part that nothing linked so far refers to, and a caller
        that is linked later would find nothing there and crash.
        """
        done, open_ = dict[Any, None](), [(library, False) for library in self._linking_libraries]
        seen = set[Any]()
        while open_:
            library, left = open_.pop()
            if left:  # all that it calls is done
                done[library] = None
            elif library not in seen:
                seen.add(library)
                open_.append((library, True))
                if isinstance(library, Part) and not library._native:
                    open_ += [(called, False) for called in library._linking_libraries]
        self._linking_libraries = list(reversed(done))

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


class RolledPart(Part):
    """The code of a function whose loops are left as they are; see `Rolled`."""

    def _optimize_functions(self, ll_module: Any) -> None:
        # only what makes it smaller: it is optimised in the kernel, with all others
        ll_module.data_layout = self._codegen._data_layout
        builder, passes = _builder(self._codegen), llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_refprune_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        module, codegen = self._final_module, self._codegen
        cheap, builder = codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap")
        cheap.run(module, builder)
        builder = _builder(codegen)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(module, builder)


def _builder(codegen: Any) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = options.loop_interleaving = False
    options.loop_vectorization = options.slp_vectorization = False
    return llvm.create_pass_builder(codegen._tm, options)


Linked.part, Rolled.part = Part, RolledPart


class Unset:
    """A code generator that sets no environment."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: the kernel that it is linked into sets it."""
