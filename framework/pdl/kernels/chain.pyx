"""Chains of elementwise functions on one array, in one pass over memory. float32, float64 and bfloat16 (computed in float32, rounded once
at the end), contiguous."""


include "stored.pxi"

from pdl.kernels.pointwise import BINARY, UNARY

cdef extern from "stored.h":
    int64_t launch_run "PDL_STORED(chain, run)"(int kind, ...) except + nogil

cdef extern from "table.h" namespace "pdl":
    enum:
        MAX_INPUTS "pdl::ChainCall::kInputs"
        MAX_STEPS "pdl::ChainCall::kSteps"
        SAME "pdl::ChainCall::kSame"
        ROW "pdl::ChainCall::kRow"
        OUTER_ROW "pdl::ChainCall::kOuterRow"
        COLUMN "pdl::ChainCall::kColumn"
        ONE "pdl::ChainCall::kOne"
    cdef struct ChainStep:
        int name, operand
        bint swapped
        double a, b, c
    cdef struct ChainCall:
        void* y
        const void** ins "in"
        int* beside
        int64_t outer, rows, columns
        int inputs, steps
        ChainStep* step

#: how an operand lies beside the array [outer, rows, columns]
BESIDE = {"same": SAME, "row": ROW, "outer_row": OUTER_ROW, "column": COLUMN, "one": ONE}
INPUTS, STEPS = MAX_INPUTS, MAX_STEPS


cdef int64_t size_beside(int beside, const ChainCall* call) noexcept:
    """How many values an operand has."""
    if beside == SAME:
        return call.outer * call.rows * call.columns
    if beside == ROW:
        return call.columns
    if beside == OUTER_ROW:
        return call.outer * call.columns
    return call.outer * call.rows if beside == COLUMN else 1


def chain(
    cnp.ndarray y not None,     # OUT [outer, rows, columns] in any shape; may be an input that is like it
    tuple inputs not None,      # IN  the first like y, the others as `beside` says
    tuple beside not None,      # for each input one of BESIDE
    tuple sizes not None,       # outer, rows, columns
    tuple steps not None,       # (name of UNARY, parameters...) or (name of BINARY, number of an input, swapped?)
):
    """The first input through all steps."""
    cdef ChainCall call
    cdef ChainStep* step
    cdef int kind = stored_type("chain", y), number
    call.outer, call.rows, call.columns = sizes
    call.inputs, call.steps = len(inputs), len(steps)
    if not 1 <= call.inputs <= MAX_INPUTS or len(beside) != call.inputs or call.steps > MAX_STEPS or beside[0] != "same":
        raise ShapeError(f"chain: {len(inputs)} inputs and {len(steps)} steps; the first is like y, at most {MAX_INPUTS} and {MAX_STEPS}")
    call.y = data_of("chain", "y", y, kind, call.outer * call.rows * call.columns)
    for number in range(call.inputs):
        call.beside[number] = BESIDE[beside[number]]
        call.ins[number] = data_of("chain", f"input {number}", inputs[number], kind, size_beside(call.beside[number], &call))
    for number in range(call.steps):
        name, *values = steps[number]
        step = &call.step[number]
        step.operand, step.swapped, step.a, step.b, step.c = -1, False, 0, 0, 0
        if name in UNARY:
            step.name = UNARY[name]
            step.a, step.b, step.c = (*values, 0.0, 0.0, 0.0)[:3]
        else:
            step.name, step.operand, step.swapped = BINARY[name], values[0], len(values) > 1 and values[1]
            if not 0 <= step.operand < call.inputs:
                raise ShapeError(f"chain: step {number} reads input {step.operand} of {call.inputs}")
    if cnp.PyArray_SIZE(y) == 0:
        return
    with nogil:
        launch_run(kind, call)
