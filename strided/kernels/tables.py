"""Tables of int64 as kernels see them: where one begins, and how many rows it has.

An array knows more, and Numba compares each index with it and with 0: ten instructions, where these take two.
"""

from __future__ import annotations

import operator as op

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from strided.kernels.llvm import INT64, INTEGER, intrinsic, pointer_to


class Table(types.Type):
    """Numba's type of a table of so many columns; one of a single column takes single indices."""

    def __init__(self, columns):
        self.columns = columns
        super().__init__(name=f"table{columns}")


@register_model(Table)
class _TableModel(models.StructModel):
    def __init__(self, manager, table):
        super().__init__(manager, table, [("address", INTEGER), ("rows", INTEGER)])


@intrinsic
def row_tables(typing, outer, rows, pieces, row_cuts, piece_cuts):
    """The arrays of `row_driver.drive` as tables."""
    arrays, found = (outer, rows, pieces, row_cuts, piece_cuts), types.Tuple([*map(Table, (2, 3, 3, 1, 1))])

    def lower(context, builder, signature, values):
        made = []
        for kind, value in zip(arrays, values, strict=True):
            view = context.make_array(kind)(context, builder, value)
            table = ir.Constant(ir.LiteralStructType([INT64, INT64]), ir.Undefined)
            table = builder.insert_value(table, builder.ptrtoint(view.data, INT64), 0)
            made.append(builder.insert_value(table, builder.extract_value(view.shape, 0), 1))
        return context.make_tuple(builder, found, made)

    return found(*arrays), lower


@intrinsic
def begin(typing, table):
    """The address at which a table begins."""
    return INTEGER(table), lambda context, builder, signature, values: builder.extract_value(values[0], 0)


@infer_global(op.getitem)
class _Getitem(AbstractTemplate):
    metadata = {"target": "cpu"}  # noqa: RUF012 Numba's name; it tries these first
    prefer_literal = False

    def generic(self, arguments, named):
        table = arguments[0]
        if isinstance(table, Table):
            return signature(INTEGER, table, INTEGER if table.columns == 1 else types.UniTuple(INTEGER, 2))
        return None


@infer_global(len)
class _Length(AbstractTemplate):
    metadata = {"target": "cpu"}  # noqa: RUF012

    def generic(self, arguments, named):
        return signature(INTEGER, *arguments) if isinstance(arguments[0], Table) else None


def _loaded(builder, table, number):
    # From a pointer on, so that LLVM sees what a loop over them reads.
    first = pointer_to(builder, builder.extract_value(table, 0), INT64)
    return builder.load(builder.gep(first, [number]), align=8)


@lower_builtin(op.getitem, Table, INTEGER)
def _item(context, builder, signature, values):
    return _loaded(builder, *values)


@lower_builtin(op.getitem, Table, types.UniTuple)
def _cell(context, builder, signature, values):
    row, column = (builder.extract_value(values[1], k) for k in range(2))
    before = builder.mul(row, INT64(signature.args[0].columns))
    return _loaded(builder, values[0], builder.add(before, column))


@lower_builtin(len, Table)
def _length(context, builder, signature, values):
    return builder.extract_value(values[0], 1)
