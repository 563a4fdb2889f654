"""The product ``C += A B`` of small matrices, the one hot operation of networks.

It is written here so that kernels can call it without the GIL and without the overhead of a library, which
for the 24 documents of a query takes as long as the arithmetic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rankloop.kernels.jit import kernel

# A tile of C stays in registers while the sum runs; it needs enough independent sums to hide the latency of a
# multiply-add. AVX-512 has 32 registers of 64 bytes: 8 rows of 128 bytes are 16 of them. AVX2 has 16 of 32
# bytes: 4 rows of 64 bytes are 8 of them. The order of each sum is the same, so the result is, too.
TILE_ROWS, TILE_BYTES = (8, 128) if get_host_cpu_features().get("avx512f") else (4, 64)


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


# Lower tiles do the rows that the tallest leave over. Columns that the widest leave over are done by tiles of
# a quarter of their width, then one by one.
_wide_tall, _wide_half, _wide_quarter, _wide_flat = (
    _tile(rows, TILE_BYTES) for rows in (TILE_ROWS, TILE_ROWS // 2, TILE_ROWS // 4, 1)
)
_slim_half, _slim_flat = (_tile(rows, TILE_BYTES // 4) for rows in (TILE_ROWS // 2, 1))
_thin_half, _thin_flat = (_tile(rows, 1) for rows in (TILE_ROWS // 2, 1))


@kernel
def add_product(a, b, c):
    """``c += a @ b`` in place; the columns of b and c are contiguous, a may be any view."""
    rows, columns = c.shape
    wide = TILE_BYTES // c.itemsize
    covered = columns - columns % wide
    i = 0
    while i < rows:
        left = rows - i
        if left >= TILE_ROWS:
            for j in range(0, covered, wide):
                _wide_tall(a, b, c, i, j)
            i += TILE_ROWS
        elif left >= TILE_ROWS // 2:
            for j in range(0, covered, wide):
                _wide_half(a, b, c, i, j)
            i += TILE_ROWS // 2
        elif left >= TILE_ROWS // 4:
            for j in range(0, covered, wide):
                _wide_quarter(a, b, c, i, j)
            i += TILE_ROWS // 4
        else:
            for j in range(0, covered, wide):
                _wide_flat(a, b, c, i, j)
            i += 1
    if covered < columns:
        _add_columns(a, b, c, covered)


@kernel
def _add_columns(a, b, c, first):
    """The same for the last columns, too few for a wide tile."""
    rows, columns = c.shape
    slim = TILE_BYTES // 4 // c.itemsize
    i = 0
    while i < rows:
        half = i + TILE_ROWS // 2 <= rows
        j = first
        while j + slim <= columns:
            if half:
                _slim_half(a, b, c, i, j)
            else:
                _slim_flat(a, b, c, i, j)
            j += slim
        while j < columns:
            if half:
                _thin_half(a, b, c, i, j)
            else:
                _thin_flat(a, b, c, i, j)
            j += 1
        i += TILE_ROWS // 2 if half else 1
