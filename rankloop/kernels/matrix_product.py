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
# bytes: 6 rows of 64 bytes are 12 of them. One or two rows that are left over have too few sums of their own,
# so their tiles are wider. The order of each sum is the same in all tiles, so the result is, too.
TALL_ROWS, TALL_BYTES = (8, 128) if get_host_cpu_features().get("avx512f") else (6, 64)
HALF_ROWS, LOW_BYTES, SLIM_BYTES = 4, 128, 32


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


# Lower tiles do the rows that taller ones leave over. Columns that wide tiles leave over are done by slim
# tiles, then one by one.
_tall, _half = _tile(TALL_ROWS, TALL_BYTES), _tile(HALF_ROWS, TALL_BYTES)
_pair, _single = _tile(2, LOW_BYTES), _tile(1, LOW_BYTES)
_slim_half, _slim_single = _tile(HALF_ROWS, SLIM_BYTES), _tile(1, SLIM_BYTES)
_thin_half, _thin_single = _tile(HALF_ROWS, 1), _tile(1, 1)


@kernel
def add_product(a, b, c):
    """``c += a @ b`` in place; the columns of b and c are contiguous, a may be any view."""
    rows, columns = c.shape
    wide, low = TALL_BYTES // c.itemsize, LOW_BYTES // c.itemsize
    by_wide, by_low = columns - columns % wide, columns - columns % low
    i = 0
    while i + TALL_ROWS <= rows:
        for j in range(0, by_wide, wide):
            _tall(a, b, c, i, j)
        i += TALL_ROWS
    while i + HALF_ROWS <= rows:
        for j in range(0, by_wide, wide):
            _half(a, b, c, i, j)
        i += HALF_ROWS
    if by_wide < columns:
        _add_columns(a, b, c, 0, i, by_wide)
    low_rows = i
    if i + 2 <= rows:
        for j in range(0, by_low, low):
            _pair(a, b, c, i, j)
        i += 2
    if i < rows:
        for j in range(0, by_low, low):
            _single(a, b, c, i, j)
    if by_low < columns:
        _add_columns(a, b, c, low_rows, rows, by_low)


@kernel
def _add_columns(a, b, c, first_row, last_row, first):
    """The same for some of the rows and the last columns, too few for a wide tile."""
    columns, slim = c.shape[1], SLIM_BYTES // c.itemsize
    i = first_row
    while i < last_row:
        half = i + HALF_ROWS <= last_row
        j = first
        while j + slim <= columns:
            if half:
                _slim_half(a, b, c, i, j)
            else:
                _slim_single(a, b, c, i, j)
            j += slim
        while j < columns:
            if half:
                _thin_half(a, b, c, i, j)
            else:
                _thin_single(a, b, c, i, j)
            j += 1
        i += HALF_ROWS if half else 1
