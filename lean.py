"""How a kernel's statements become LLVM's code: as numba has it, with short forms for what most statements are.

Most statements of our kernels read or write an element of an array. For each, numba lays the array's seven words out in
memory again, counts references for each name that an array has, and looks up anew what an operator means of two
numbers. Here an element is an address and a load, and names of arrays that others keep alive are not counted. That
halves the code that LLVM gets. What kernels compute is the same, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.cgutils import alloca_once
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes
from numba.np.arrayobj import fix_integer_index, load_item, store_item

__all__ = ["Borrowed", "pipeline"]


class Borrowed(types.Type):
    """Base of types whose arrays Python keeps alive during a call: what is read of them has no references to count."""


class Statements(Lower):
    """numba's lowering, with short forms for elements, shapes, operators on numbers, and names of what is lent."""

    def pre_lower(self) -> None:
        """Find the names that need no counting: of numbers, and of arrays that the caller or a `Borrowed` holds."""
        super().pre_lower()
        self._counted = {name: self._counts(kind) for name, kind in self.fndesc.typemap.items()}
        if self.generator_info is not None:  # what a generator holds on to it must count
            return
        given: dict[str, list[Any]] = {}
        for block in self.blocks.values():
            for one in block.find_insts(ir.Assign):
                given.setdefault(one.target.name, []).append(one.value)
        counted = {name for name in given if self._counted[name]}
        lent = {name for name in counted if all(self._may_be_lent(value) for value in given[name])}
        while True:
            kept = {name for name in lent if all(v.name in lent for v in given[name] if isinstance(v, ir.Var))}
            if kept == lent:
                break
            lent = kept
        for name in lent:
            self._counted[name] = False

    def _counts(self, kind: Any) -> bool:
        try:
            return bool(self.context.data_model_manager[kind].contains_nrt_meminfo())
        except (KeyError, NotImplementedError):  # numba has no model of some types: to count is always right
            return True

    def _may_be_lent(self, value: Any) -> bool:
        if isinstance(value, ir.Expr):
            return value.op == "getattr" and isinstance(self.typeof(value.value.name), Borrowed)
        return isinstance(value, ir.Arg | ir.Var)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """A name for a name, or for an argument: counted only if it is to be."""
        value = inst.value
        if isinstance(value, ir.Var) and not self._counted[inst.target.name]:
            return self.context.cast(self.builder, self.loadvar(value.name), self.typeof(value.name), ty)
        if isinstance(value, ir.Arg) and not self._counted[inst.target.name]:
            kind = self.typeof("arg." + value.name)
            if not isinstance(kind, types.Omitted):
                return self.context.cast(self.builder, self.fnargs[value.index], kind, ty)
        return super().lower_assign(ty, inst)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """What the name stood for before was not counted either."""
        if self._counted.get(name, True) or name in self._singly_assigned_vars or argidx is not None:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Nothing is given back that was not counted."""
        if self._counted.get(name, True):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Room for a variable; for a debugger numba would ask LLVM how large it is."""
        flags: Any = self.flags
        if flags.debuginfo:
            return super().alloca_lltype(name, lltype, datamodel)
        return alloca_once(self.builder, lltype, name=name, zfill=False)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """`shape` is taken out of the array."""
        if expr.op == "getattr" and expr.attr == "shape":
            kind = self.typeof(expr.value.name)
            if type(kind) is types.Array and kind.ndim:
                return self._word(kind, self.loadvar(expr.value.name), "shape")
        return super().lower_expr(resty, expr)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Without a look for operands that are constants where there are none."""
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        context, typing = self.context, self.context.typing_context
        function, signature = typing.resolve_value_type(op), self.fndesc.calltypes[expr]
        operands = [
            context.cast(self.builder, self.loadvar(of.name), self.typeof(of.name), kind)
            for of, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        implemented = context.get_function(function, function.get_call_type(typing, signature.args, {}))
        return context.cast(self.builder, implemented(self.builder, operands), signature.return_type, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """An element is loaded from its address."""
        kind = self.typeof(value.name)
        indices = self._indices(kind, index)
        if indices is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        loaded = load_item(self.context, self.builder, kind, self._address(kind, self.loadvar(value.name), indices))
        return self.context.cast(self.builder, loaded, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """An element is stored at its address."""
        kind = self.typeof(target_var.name)
        indices = self._indices(kind, index_var)
        if indices is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), self.typeof(value_var.name), kind.dtype)
        store_item(self.context, self.builder, kind, value, self._address(kind, self.loadvar(target_var.name), indices))
        return None

    def _indices(self, kind: Any, index: Any) -> list[tuple[Any, Any]] | None:
        """Integers that name one element, with their types; `None` where it is not that simple."""
        if type(kind) is not types.Array or kind.layout != "C" or self.context.enable_boundscheck:
            return None
        of: Any = self.typeof(index.name)
        many: Any = of if isinstance(of, types.BaseTuple) else (of,)
        each = tuple(many)
        if len(each) != kind.ndim or not all(isinstance(one, types.Integer) for one in each):
            return None
        value = self.loadvar(index.name)
        if not isinstance(of, types.BaseTuple):
            return [(of, value)]
        return [(one, self.builder.extract_value(value, k)) for k, one in enumerate(each)]

    def _address(self, kind: Any, array: Any, indices: list[tuple[Any, Any]]) -> Any:
        """Where an element is: indices count from the end where they are negative, as in Python."""
        builder, shape, at = self.builder, self._word(kind, array, "shape"), None
        for k, (of, value) in enumerate(indices):
            length = builder.extract_value(shape, k)
            if isinstance(of, types.IntegerLiteral) and of.literal_value >= 0:
                here = self.context.get_constant(types.intp, of.literal_value)
            else:
                here = fix_integer_index(self.context, builder, of, value, length)
            at = here if at is None else builder.add(builder.mul(at, length), here)
        return builder.gep(self._word(kind, array, "data"), [at])

    def _word(self, kind: Any, array: Any, field: str) -> Any:
        return self.builder.extract_value(array, self.context.data_model_manager[kind].get_field_position(field))


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):
    """numba's, by `Statements`."""

    _name = "meshwright_lowering"

    @property
    def lowering_class(self) -> Any:
        """How statements are lowered."""
        return Statements


@register_pass(mutates_CFG=True, analysis_only=False)
class Closures(InlineClosureLikes):
    """numba's, where a function has any."""

    _name = "meshwright_closures"

    def run_pass(self, state: Any) -> Any:
        """See numba."""
        return super().run_pass(state) if any(map(_makes_function, state.func_ir.blocks.values())) else False


@register_pass(mutates_CFG=True, analysis_only=False)
class Arrays(NopythonRewrites):
    """numba's, where whole arrays are reckoned with: it makes one loop of such an expression."""

    _name = "meshwright_arrays"

    def run_pass(self, state: Any) -> Any:
        """See numba."""
        for block in state.func_ir.blocks.values():
            for one in block.find_insts(ir.Assign):
                if isinstance(state.typemap[one.target.name], types.Array) and _reckons(one.value, state.typemap):
                    return super().run_pass(state)
        return False


def _reckons(value: Any, typemap: Any) -> bool:
    if not isinstance(value, ir.Expr):
        return False
    if value.op == "call":
        return isinstance(getattr(typemap[value.func.name], "typing_key", None), np.ufunc)
    return value.op in ("binop", "inplace_binop", "unary")


def _makes_function(block: Any) -> bool:
    return any(
        isinstance(one.value, ir.Expr) and one.value.op == "make_function" for one in block.find_insts(ir.Assign)
    )


INSTEAD = {NativeLowering: Lowering, InlineClosureLikes: Closures, NopythonRewrites: Arrays}


def pipeline(state: Any) -> PassManager:
    """numba's passes, three of them by ours."""
    usual = DefaultPassBuilder.define_nopython_pipeline(state)
    usual.passes = [(INSTEAD.get(one, one), words) for one, words in usual.passes]
    usual.finalize()
    return usual
