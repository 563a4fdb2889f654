"""The product ``C += A B`` of small matrices, the one hot operation of networks.

It is written here so that kernels can call it without the GIL and without the overhead of a library, which
for the 24 documents of a query takes as long as the arithmetic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rankloop.kernels.jit import kernel

# A tile of C stays in registers while the sum runs: 4 rows of 64 bytes are eight of the sixteen 32-byte
# registers of AVX2, enough independent sums to hide the latency of a multiply-add.
TILE_ROWS = 4
TILE_BYTES = 64


def _tile(rows: int, width_bytes: int) -> Any:
    """The compiled ``c[i:i+rows, j:j+columns] += a[i:i+rows] @ b[:, j:j+columns]``, sums kept in registers.

    It has as many columns as fit ``width_bytes``, at least one. The columns of b and c must be contiguous; a
    may have any strides, so that it can be a transposed view.
    """

    @intrinsic
    def tile(typing_context, a, b, c, i, j):  # noqa: ARG001
        def generate(context, builder, signature, arguments):
            a_type, b_type, c_type = signature.args[:3]
            a, b, c = (
                context.make_array(kind)(context, builder, value)
                for kind, value in zip((a_type, b_type, c_type), arguments[:3], strict=True)
            )
            i, j = arguments[3:]
            number = context.get_data_type(c_type.dtype)
            size = c_type.dtype.bitwidth // 8
            width = max(1, width_bytes // size)
            vector = ir.VectorType(number, width)

            def pointer(array, row, column):
                row_stride, column_stride = cgutils.unpack_tuple(builder, array.strides, 2)
                shift = builder.add(builder.mul(row, row_stride), builder.mul(column, column_stride))
                return cgutils.pointer_add(builder, array.data, shift)

            def vector_at(array, row):
                return builder.bitcast(pointer(array, row, j), vector.as_pointer())

            lines = [builder.add(i, ir.Constant(i.type, row)) for row in range(rows)]
            sums = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
            for total, line in zip(sums, lines, strict=True):
                builder.store(builder.load(vector_at(c, line), align=size), total)
            depth = cgutils.unpack_tuple(builder, b.shape, 2)[0]
            with cgutils.for_range(builder, depth) as loop:
                b_row = builder.load(vector_at(b, loop.index), align=size)
                for total, line in zip(sums, lines, strict=True):
                    value = builder.load(pointer(a, line, loop.index))
                    value = context.cast(builder, value, a_type.dtype, c_type.dtype)
                    one = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
                    )
                    spread = builder.shuffle_vector(
                        one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
                    )
                    product = builder.fmul(spread, b_row, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            for total, line in zip(sums, lines, strict=True):
                builder.store(builder.load(total), vector_at(c, line), align=size)
            return context.get_dummy_value()

        return types.void(a, b, c, types.intp, types.intp), generate

    return tile


# What the widest tiles leave over is done by tiles of a quarter of their width, then column by column.
_tall_wide, _tall_slim, _tall_thin = (_tile(TILE_ROWS, width) for width in (TILE_BYTES, TILE_BYTES // 4, 1))
_flat_wide, _flat_slim, _flat_thin = (_tile(1, width) for width in (TILE_BYTES, TILE_BYTES // 4, 1))


@kernel
def add_product(a, b, c):
    """``c += a @ b`` in place; the columns of b and c are contiguous, a may be any view."""
    rows, columns = c.shape
    wide = TILE_BYTES // c.itemsize
    slim = wide // 4
    i = 0
    while i < rows:
        tall = i + TILE_ROWS <= rows
        j = 0
        while j + wide <= columns:
            if tall:
                _tall_wide(a, b, c, i, j)
            else:
                _flat_wide(a, b, c, i, j)
            j += wide
        while j + slim <= columns:
            if tall:
                _tall_slim(a, b, c, i, j)
            else:
                _flat_slim(a, b, c, i, j)
            j += slim
        while j < columns:
            if tall:
                _tall_thin(a, b, c, i, j)
            else:
                _flat_thin(a, b, c, i, j)
            j += 1
        i += TILE_ROWS if tall else 1
