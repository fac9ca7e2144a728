"""What the array API standard (2024.12) asks of the array object, dtypes, creation functions and inspection."""

from __future__ import annotations

import array
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import array_api
from hypothesis.extra import numpy as hnp

import pdl
from pdl.dtype import ALL, KINDS, bfloat16
from pdl.errors import DtypeError, GradientError, PdlError, SharingError, UsageError

xps = array_api.make_strategies_namespace(pdl, api_version="2024.12")
NAMES = [name for name in ALL if name != "bfloat16"]
DTYPES = [getattr(pdl, name) for name in NAMES]
INTEGERS = [d for d in DTYPES if d.kind in "iu"]
FLOATS = [d for d in DTYPES if d.kind == "f"]
NUMBERS = [d for d in DTYPES if d != pdl.bool]
dtypes = st.sampled_from(DTYPES)


def drawn(*parts: Any, **named: Any) -> Callable[[Any], Any]:
    """`given`, with fewer examples, for there are many dtypes."""
    return lambda test: settings(max_examples=30)(given(*parts, **named)(test))


def arrays(dtype: Any, shape: Any = None, **elements: Any) -> st.SearchStrategy[np.ndarray]:
    """NumPy arrays of any values: NaN, infinities, extremes, signed zeros; no denormal numbers, which count as 0."""
    if dtype.kind in "fc":
        elements = {"allow_subnormal": False, **elements}
    return hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0) if shape is None else shape, elements=elements)


def same(found: Any, wanted: Any) -> None:
    """Values (NaN is NaN, zeros with their sign), shape and dtype are those of NumPy."""
    assert isinstance(found, pdl.Tensor)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found.data, wanted)
    if wanted.dtype.kind == "f":
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(found.data[zero]), np.signbit(wanted[zero]))


# -- inspection --------------------------------------------------------------------------------------------------------
def test_the_namespace_and_what_it_says_of_itself() -> None:
    x = pdl.ones(2)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is pdl
    with pytest.raises(UsageError, match=r"2020\.1"):
        x.__array_namespace__(api_version="2020.1")
    info = pdl.__array_namespace_info__()
    assert pdl.__array_api_version__ == "2024.12"
    capabilities = info.capabilities()
    assert (capabilities["boolean indexing"], capabilities["data-dependent shapes"]) == (True, True)
    assert pdl.ones((1,) * capabilities["max dimensions"]).ndim == capabilities["max dimensions"]
    assert info.default_device() in info.devices()
    defaults = info.default_dtypes(device=x.device)
    assert (defaults["real floating"], defaults["complex floating"]) == (x.dtype, pdl.asarray(1j).dtype)
    assert defaults["integral"] == pdl.asarray(1).dtype == pdl.argmax(x).dtype == defaults["indexing"]
    assert info.dtypes() == dict(zip(NAMES, DTYPES, strict=True))
    for kind in KINDS:
        assert info.dtypes(kind=kind) == {n: d for n, d in info.dtypes().items() if pdl.isdtype(d, kind)}
    assert {*info.dtypes(kind=("bool", "real floating"))} == {"bool", "float32", "float64"}


def test_constants() -> None:
    assert (pdl.e, pdl.pi, pdl.inf, pdl.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(pdl.nan)
    assert all(type(c) is float for c in (pdl.e, pdl.pi, pdl.inf, pdl.nan))


#: the standard's signatures; what stands before "/" has no name that callers use
SIGNATURES = {
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "meshgrid": "*arrays, indexing='xy'",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "can_cast": "from_, to, /",
    "finfo": "type, /",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "result_type": "*arrays_and_dtypes",
    "__array_namespace_info__": "",
    "Tensor.__array_namespace__": "self, /, *, api_version=None",
    "Tensor.__dlpack__": "self, /, *, stream=None, max_version=None, dl_device=None, copy=None",
    "Tensor.to_device": "self, device, /, *, stream=None",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_take_what_the_standard_takes(name: str) -> None:
    wanted = inspect.signature(eval(f"lambda {SIGNATURES[name].replace('/, *arrays', '*arrays')}: 0"))
    found = inspect.signature(operator.attrgetter(name)(pdl)).parameters
    places = list(found.values())
    for place, parameter in enumerate(wanted.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert found[parameter.name].kind is parameter.KEYWORD_ONLY
            assert found[parameter.name].default == parameter.default
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            assert places[place].kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            assert places[place].default == parameter.default
        else:
            assert (places[place].name, places[place].kind) == (parameter.name, parameter.kind)


OPERATORS = "abs add and eq floordiv ge gt invert le lshift lt matmul mod mul ne neg or pos pow rshift sub truediv xor"
REFLECTED = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"


def test_the_object_has_every_attribute() -> None:
    x = pdl.ones((1, 1))
    others = "array_namespace bool complex dlpack dlpack_device float getitem index int setitem"
    names = [*OPERATORS.split(), *(f"r{name}" for name in REFLECTED.split()), *others.split()]
    assert [name for name in names if not hasattr(x, f"__{name}__")] == []
    assert (x.dtype, x.device, x.ndim, x.shape, x.size) == (pdl.float32, "cpu", 2, (1, 1), 1)
    assert x.T.shape == x.mT.shape == (1, 1)
    assert x.to_device("cpu") is x.to_device(x.device, stream=None) is x
    for wrong in (
        lambda: x.to_device("cuda"),
        lambda: pdl.zeros(1, device="tpu"),
        lambda: x.to_device("cpu", stream=1),
    ):
        with pytest.raises(UsageError):
            wrong()


# -- dtypes ------------------------------------------------------------------------------------------------------------
def of_one_kind(a: Any, b: Any) -> bool:
    """Whether the standard says what two dtypes become."""
    kinds = ["b", "iu", "f", "c"]
    return any(a.kind in k and b.kind in k for k in kinds) and not (pdl.uint64 in (a, b) and "i" in (a.kind, b.kind))


PAIRS = [(a, b) for a in DTYPES for b in DTYPES if of_one_kind(a, b)]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda d: d.name)
def test_promotion_and_casts(a: Any, b: Any) -> None:
    wanted = np.promote_types(a, b)
    assert pdl.result_type(a, b) == pdl.result_type(pdl.ones(2, dtype=a), b) == wanted
    assert pdl.result_type(a, b, a) == wanted
    assert pdl.can_cast(a, b) is pdl.can_cast(pdl.ones(2, dtype=a), b) is (wanted == b)
    if a != pdl.bool:
        assert (pdl.ones(2, dtype=a) * pdl.ones((), dtype=b)).dtype == wanted


def test_signed_integers_do_not_meet_uint64() -> None:
    for signed in (pdl.int8, pdl.int64):
        with pytest.raises(DtypeError, match="no integer dtype holds both"):
            pdl.ones(1, dtype=pdl.uint64) + pdl.ones(1, dtype=signed)
        assert pdl.can_cast(pdl.uint64, signed) is False
    with pytest.raises(DtypeError, match="at least one"):
        pdl.result_type(1, 2.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_python_scalars_take_the_dtype_of_the_array(dtype: Any) -> None:
    x = pdl.ones(2, dtype=dtype)
    scalar: Any = {"b": True, "i": 1, "u": 1, "f": 1.0, "c": 1j}[dtype.kind]
    assert pdl.result_type(x, scalar) == pdl.result_type(scalar, dtype) == dtype
    assert (x == scalar).dtype == (scalar == x).dtype == pdl.bool
    if dtype != pdl.bool:
        assert (x + scalar).dtype == (scalar - x).dtype == dtype
    assert pdl.result_type(pdl.float64, 1j) == pdl.complex128
    assert pdl.result_type(pdl.float32, 1j) == pdl.complex64


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_limits_and_kinds(dtype: Any) -> None:
    kind = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "real floating", "c": "complex floating"}
    assert [k for k in kind.values() if pdl.isdtype(dtype, k)] == [kind[dtype.kind]]
    assert pdl.isdtype(dtype, "integral") is (dtype.kind in "iu")
    assert pdl.isdtype(dtype, "numeric") is (dtype.kind != "b")
    assert pdl.isdtype(dtype, dtype) is pdl.isdtype(dtype, ("bool", "numeric")) is True
    assert pdl.isdtype(dtype, (bfloat16,)) is False
    if dtype.kind in "iu":
        found, wanted = pdl.iinfo(dtype), np.iinfo(dtype)
        assert (found.bits, found.max, found.min, found.dtype) == (wanted.bits, wanted.max, wanted.min, dtype)
        assert pdl.asarray(found.max, dtype=dtype).item() == found.max
        with pytest.raises(DtypeError, match="does not fit"):
            pdl.asarray(found.max + 1, dtype=dtype)
    elif dtype.kind in "fc":
        limits, numpys = pdl.finfo(pdl.ones(1, dtype=dtype)), np.finfo(dtype)
        numbers = (limits.eps, limits.max, limits.min, limits.smallest_normal)
        assert numbers == (numpys.eps, numpys.max, numpys.min, numpys.smallest_normal)
        assert [type(n) for n in (limits.bits, *numbers)] == [int, float, float, float, float]
        assert limits.dtype == numpys.dtype
    wrong = pdl.finfo if dtype.kind in "biu" else pdl.iinfo
    with pytest.raises(DtypeError):
        wrong(dtype)
    with pytest.raises(DtypeError):
        pdl.isdtype(dtype, "float")


@drawn(st.data(), dtypes, dtypes, st.booleans())
def test_astype(data: st.DataObject, a: Any, b: Any, copy: bool) -> None:
    whole = {} if a.kind == "b" else {"min_value": 0, "max_value": 100} if a.kind in "iuf" else {"max_magnitude": 100}
    values = data.draw(arrays(a, **whole, **({"allow_nan": False} if a.kind in "fc" else {})))
    for part in (values.real, values.imag) if a.kind == "c" else (values,) if a.kind == "f" else ():
        part[np.abs(part) < np.finfo(np.float32).smallest_normal] = 0  # kernels flush them
    x = pdl.asarray(values)
    found = pdl.astype(x, b, copy=copy, device=x.device)
    same(found, (values.real if a.kind == "c" and b.kind != "c" else values).astype(b))
    assert np.shares_memory(found.data, values) is (a == b and not copy and values.size > 0)


# -- operators ---------------------------------------------------------------------------------------------------------
UNARY: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "+": (operator.pos, NUMBERS),
    "-": (operator.neg, NUMBERS),
    "abs": (abs, NUMBERS),
    "~": (operator.invert, [pdl.bool, *INTEGERS]),
}
ARITHMETIC = (operator.add, operator.sub, operator.mul)
COMPARE = (operator.lt, operator.le, operator.gt, operator.ge)
BITS = (operator.and_, operator.or_, operator.xor)
BINARY: dict[str, tuple[Callable[[Any, Any], Any], list[Any]]] = {
    **{f.__name__: (f, NUMBERS) for f in ARITHMETIC},
    **{f.__name__: (f, [*INTEGERS, *FLOATS]) for f in COMPARE},
    **{f.__name__: (f, DTYPES) for f in (operator.eq, operator.ne)},
    **{f.__name__: (f, [pdl.bool, *INTEGERS]) for f in BITS},
    "truediv": (operator.truediv, FLOATS),
    "floordiv": (operator.floordiv, INTEGERS),
    "mod": (operator.mod, INTEGERS),
    "lshift": (operator.lshift, INTEGERS),
    "rshift": (operator.rshift, INTEGERS),
}


@pytest.mark.parametrize("name", UNARY)
@drawn(data=st.data())
def test_unary_operators_are_numpys(name: str, data: st.DataObject) -> None:
    function, takes = UNARY[name]
    values = data.draw(arrays(data.draw(st.sampled_from(takes))))
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(values))
    found = function(pdl.asarray(values))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.data, wanted, rtol=1e-6)
    assert not np.shares_memory(found.data, values)


@pytest.mark.parametrize("name", BINARY)
@drawn(data=st.data())
def test_binary_operators_are_numpys(name: str, data: st.DataObject) -> None:
    """Two arrays of dtypes that may meet, broadcast; the same in place; and a Python scalar on either side."""
    function, takes = BINARY[name]
    first, second = data.draw(st.sampled_from([(a, b) for a, b in PAIRS if a in takes and b in takes]))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0)).input_shapes
    shift = {"min_value": 0, "max_value": 7} if "shift" in name else {}
    a = data.draw(arrays(first, shapes[0]))
    b = data.draw(arrays(second, shapes[1], **shift))
    b = np.where(b == 0, b.dtype.type(1), b) if name in ("floordiv", "mod", "truediv") else b
    if b.dtype.kind == "i" and name in ("floordiv", "mod"):
        b = np.abs(b) // 2 + 1  # no overflow
    scalar = b.flat[0].item() if b.size else b.dtype.type(1).item()
    x, y = pdl.asarray(a), pdl.asarray(b)
    with np.errstate(all="ignore"):
        check(function(x, y), np.asarray(function(a, b)))
        if first == second:
            check(function(x, scalar), np.asarray(function(a, second.type(scalar))))
            if name not in ("floordiv", "mod", "truediv") and "shift" not in name:
                check(function(scalar, x), np.asarray(function(second.type(scalar), a)))


def check(found: Any, wanted: Any) -> None:
    """Equal where a number of full precision is wanted: kernels count denormal ones as 0."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "fc":
        tiny = np.finfo(wanted.dtype).smallest_normal
        np.testing.assert_allclose(found.data, wanted, rtol=2e-6, atol=tiny)
    else:
        np.testing.assert_array_equal(found.data, wanted)


def test_operators_in_place_give_the_same_and_leave_other_names_alone() -> None:
    x = before = pdl.asarray([1, 2, 3], dtype=pdl.uint16)
    x += pdl.asarray(1, dtype=pdl.uint8)
    x <<= 1
    same(x, np.array([4, 6, 8], np.uint16))
    same(before, np.array([1, 2, 3], np.uint16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@drawn(data=st.data())
def test_python_numbers_of_arrays_with_one_element(dtype: Any, data: st.DataObject) -> None:
    value = data.draw(arrays(dtype, ()))
    x = pdl.asarray(value)
    assert repr(complex(x)) == repr(complex(value[()]))
    if dtype.kind != "c":
        assert repr(float(x)) == repr(float(value))
        if math.isfinite(value):
            assert int(x) == int(value)
    assert bool(x) is bool(value)
    if dtype.kind in "iu":
        assert operator.index(x) == int(value)
    else:
        with pytest.raises(TypeError):
            operator.index(x)
    assert f"dtype={dtype.name}" in repr(x)


# -- indexing ----------------------------------------------------------------------------------------------------------
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@drawn(st.data(), dtypes, shapes)
def test_reading_and_writing_by_basic_keys(data: st.DataObject, dtype: Any, shape: tuple[int, ...]) -> None:
    values = data.draw(arrays(dtype, shape))
    key = data.draw(xps.indices(shape, allow_newaxis=True))
    x = pdl.asarray(values, copy=True)
    same(x[key], values[key])
    new = data.draw(arrays(dtype, values[key].shape))
    x[key] = pdl.asarray(new)
    wanted = values.copy()
    wanted[key] = new
    same(x, wanted)


@drawn(st.data(), shapes)
def test_reading_and_writing_by_masks(data: st.DataObject, shape: tuple[int, ...]) -> None:
    values = np.arange(math.prod(shape)).reshape(shape)
    of_mask = st.sampled_from([shape, shape[:1], (), tuple(0 for _ in shape[:2])]) | shapes
    mask = data.draw(arrays(pdl.bool, data.draw(of_mask)))
    x = pdl.asarray(values, copy=True)
    try:
        wanted = values[mask]
    except IndexError:
        with pytest.raises(IndexError):
            x[pdl.asarray(mask)]
        return
    same(x[pdl.asarray(mask)], wanted)
    x[pdl.asarray(mask)] = -1
    values[mask] = -1
    same(x, values)


@drawn(st.data(), st.sampled_from(INTEGERS), hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_reading_by_integer_arrays_mixed_with_the_rest(data: st.DataObject, dtype: Any, shape: tuple[int, ...]) -> None:
    """Integer arrays of any integer dtype that broadcast, ints, slices, one "...", and new dimensions."""
    values = np.arange(math.prod(shape)).reshape(shape)
    indices = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    key: list[Any] = []
    for n in shape:
        low = 0 if dtype.kind == "u" else -n
        number = st.integers(low, n - 1)
        array_of = hnp.arrays(dtype, st.sampled_from([indices, (), (1,) * len(indices)]), elements=number)
        key.append(data.draw(st.one_of(array_of, number, st.slices(n), array_of)))
    key = key[: data.draw(st.integers(1, len(key)))]
    if data.draw(st.booleans()):
        key.insert(data.draw(st.integers(0, len(key))), None)
    if data.draw(st.booleans()):
        key.append(...)
    ours = tuple(pdl.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    x = pdl.asarray(values, copy=True)
    same(x[ours], np.asarray(values[tuple(key)]))
    x[ours] = 7
    values[tuple(key)] = 7
    same(x, values)


@pytest.mark.parametrize(
    "key", [(0, 0, 0), 5, -4, (..., ...), (slice(None), 9), np.ones((2, 3), bool), np.array([7])], ids=str
)
def test_keys_that_do_not_fit(key: Any) -> None:
    with pytest.raises((IndexError, PdlError)):
        pdl.zeros((3, 2))[key]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_labels_and_indices_of_every_integer_dtype(dtype: Any) -> None:
    """Kernels that take numbers of places take them in every dtype, or the op casts them."""
    rows, places = pdl.asarray(np.arange(12.0, dtype=np.float32).reshape(4, 3)), [2, 0, 1, 2]
    index = pdl.asarray(places, dtype=dtype)
    calls: list[Callable[[Any], Any]] = [
        lambda i: pdl.take(rows, i), lambda i: pdl.embedding(rows, i), lambda i: pdl.one_hot(i, 3),
        lambda i: pdl.cross_entropy(rows, i), lambda i: pdl.nll_loss(rows, i),
        lambda i: pdl.segment_sum(rows, i, num_segments=3), lambda i: pdl.gather(rows, i.reshape(4, 1)),
        lambda i: pdl.scatter_add(rows, i.reshape(4, 1), pdl.ones((4, 1))), lambda i: pdl.sort(i), pdl.argmax,
        lambda i: pdl.where(i > 0, i, 0), lambda i: pdl.concat([i, i]), lambda i: i.astype(pdl.bfloat16),
    ]  # fmt: skip
    for call in calls:
        np.testing.assert_array_equal(call(index).data, call(pdl.asarray(places)).data)


# -- creation ----------------------------------------------------------------------------------------------------------
@drawn(st.data(), dtypes, shapes)
def test_arrays_of_one_value(data: st.DataObject, dtype: Any, shape: tuple[int, ...]) -> None:
    value = data.draw(arrays(dtype, ()))
    like = pdl.zeros(shape, dtype=dtype)
    same(pdl.full(shape, value.item(), dtype=dtype), np.full(shape, value, dtype))
    same(pdl.full_like(like, value.item(), device="cpu"), np.full(shape, value, dtype))
    same(pdl.ones(shape, dtype=dtype), np.ones(shape, dtype))
    same(pdl.ones_like(like), np.ones(shape, dtype))
    same(pdl.zeros_like(pdl.ones(shape), dtype=dtype), np.zeros(shape, dtype))
    for made in (pdl.empty(shape, dtype=dtype), pdl.empty_like(like), pdl.empty_like(pdl.ones(shape), dtype=dtype)):
        assert (made.shape, made.dtype) == (shape, dtype)


@drawn(st.data(), dtypes, hnp.array_shapes(min_dims=0))
def test_numbers_in_lists_are_read_in_the_dtype_itself(data: st.DataObject, dtype: Any, shape: tuple[int, ...]) -> None:
    finite = {"allow_infinity": False, "allow_nan": False} if dtype.kind in "fc" else {}
    values = data.draw(arrays(dtype, shape, **finite))
    for make in (pdl.asarray, pdl.tensor, pdl.Tensor, pdl.nn.Buffer):
        same_values(make(values.tolist(), dtype=dtype), values)
        same_values(make(values.tolist(), dtype=dtype.name), values)
    if dtype.kind in "fc" and shape:
        same_values(pdl.asarray(values * 0) + values.tolist(), values * 0 + values)


def same_values(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.data, wanted)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([300], "uint8"), (300.0, "uint8"), ([-1], "uint64"), ([[1e300]], "int32"), (1j, "float32"), ([2**70], "int64")],
)
def test_numbers_that_do_not_fit_are_refused(value: Any, dtype: str) -> None:
    for make in (pdl.asarray, pdl.tensor, lambda v, dtype: pdl.full((2,), np.ravel(v).tolist()[0], dtype=dtype)):
        with pytest.raises(DtypeError, match=dtype):
            make(value, dtype=dtype)


def test_numbers_too_large_for_a_float_are_infinite() -> None:
    assert pdl.tensor(1e300).item() == pdl.tensor([1e300], dtype="bfloat16").item() == math.inf
    assert (pdl.ones(1, dtype="float64") * [1e300]).item() == 1e300


def test_no_dtype_is_the_default_dtype() -> None:
    floats = (
        pdl.zeros(2, dtype=None), pdl.ones(2, dtype=None), pdl.empty(2, dtype=None), pdl.eye(2, dtype=None),
        pdl.rand(2, dtype=None), pdl.randn(2, dtype=None), pdl.linspace(0, 1, 3, dtype=None), pdl.asarray(0.5),
        pdl.one_hot([0, 1], 2, dtype=None), pdl.full(2, 0.5, dtype=None), pdl.arange(0.5, dtype=None),
    )  # fmt: skip
    assert {x.dtype for x in floats} == {pdl.float32}
    assert {pdl.arange(3).dtype, pdl.full(2, 1).dtype, pdl.randint(0, 3, (2,)).dtype} == {pdl.int64}
    assert {pdl.linspace(0, 1j, 3).dtype, pdl.full(2, 1j).dtype} == {pdl.complex64}
    assert pdl.full(2, False).dtype == pdl.bool
    with pytest.raises(DtypeError, match="None is not one"):
        pdl.astype(pdl.ones(2), None)


@drawn(st.data(), st.sampled_from(INTEGERS))
def test_ranges_of_integers(data: st.DataObject, dtype: Any) -> None:
    limits = pdl.iinfo(dtype)
    first, last = (data.draw(st.integers(limits.min, limits.max)) for _ in range(2))
    step = max(abs(last - first) // 20, 1) * (1 if last >= first or dtype.kind == "u" else -1)
    if limits.min <= step <= limits.max:
        found = pdl.arange(first, last, step, dtype=dtype)
        assert (found.tolist(), found.dtype) == (list(range(first, last, step)), dtype)


@drawn(st.data(), st.sampled_from(FLOATS), st.integers(0, 40), st.booleans())
def test_linspace_has_both_ends(data: st.DataObject, dtype: Any, num: int, endpoint: bool) -> None:
    number = st.floats(-(2.0**99), 2.0**99, width=dtype.itemsize * 8, allow_subnormal=False)
    start, stop = data.draw(number), data.draw(number)
    found = pdl.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    assert (found.shape, found.dtype) == ((num,), dtype)
    if num:
        assert found[0].item() == start
    if num > 1 and endpoint:
        assert found[-1].item() == stop
    if not endpoint:
        same(found, pdl.linspace(start, stop, num + 1, dtype=dtype)[:-1].data)


@drawn(st.data(), st.sampled_from(NUMBERS), st.integers(0, 6), st.none() | st.integers(0, 6), st.integers())
def test_eye_and_triangles(data: st.DataObject, dtype: Any, rows: int, columns: int | None, k: int) -> None:
    same(pdl.eye(rows, columns, k=k, dtype=dtype), np.eye(rows, columns, k, dtype=dtype))
    values = data.draw(arrays(dtype, hnp.array_shapes(min_dims=2, min_side=0)))
    k = max(-9, min(k, 9))
    same(pdl.tril(pdl.asarray(values), k=k), np.tril(values, k))
    same(pdl.triu(pdl.asarray(values), k=k), np.triu(values, k))


@drawn(st.data(), st.sampled_from(DTYPES), st.sampled_from(["xy", "ij"]), st.lists(st.integers(0, 4), max_size=4))
def test_meshgrid(data: st.DataObject, dtype: Any, indexing: str, sizes: list[int]) -> None:
    axes = [data.draw(arrays(dtype, n)) for n in sizes]
    found = pdl.meshgrid(*map(pdl.asarray, axes), indexing=indexing)
    for ours, numpys in zip(found, np.meshgrid(*axes, indexing=indexing), strict=True):  # type: ignore[call-overload]
        same(ours, numpys)


# -- shared memory -----------------------------------------------------------------------------------------------------
def test_asarray_shares_what_it_can_and_copies_what_it_must() -> None:
    memory = np.arange(3.0)
    buffer, scalars = array.array("i", [1, 2]), [1.5, 2.5]
    for source in (memory, memoryview(memory.data), pdl.asarray(memory), Exporter(memory)):
        shared = pdl.asarray(source, copy=False)
        assert np.shares_memory(shared.data, memory)
        assert np.shares_memory(pdl.asarray(source).data, memory)
        assert not np.shares_memory(pdl.asarray(source, copy=True).data, memory)
        same(pdl.asarray(source, dtype=pdl.float64), memory)
        same(pdl.asarray(source, dtype=pdl.uint32), memory.astype(np.uint32))
        with pytest.raises(ValueError, match="leave out copy=False"):
            pdl.asarray(source, dtype=pdl.int8, copy=False)
    assert pdl.asarray(buffer).dtype == pdl.int32
    assert pdl.asarray(b"ab").tolist() == pdl.asarray(bytearray(b"ab")).tolist() == [97, 98]
    for given_, copy in ((scalars, None), (scalars, True), (1.5, None), ((), True)):
        assert pdl.asarray(given_, copy=copy).dtype == pdl.float32
    for given_ in (scalars, 1.5, np.float64(1)):
        with pytest.raises(ValueError, match="leave out copy=False"):
            pdl.asarray(given_, copy=False)
    x = pdl.tensor([1.0], requires_grad=True)
    assert pdl.asarray(x) is x
    pdl.asarray(x, copy=True, dtype=pdl.float64).sum().backward()
    assert x.grad is not None


class Exporter:
    """Memory of a library that knows DLPack alone; `old`: of before there were versions."""

    def __init__(self, memory: Any, *, old: bool = False) -> None:
        self.memory, self.old = memory, old

    def __dlpack__(self, **how: Any) -> Any:
        if self.old and how.keys() - {"stream"}:
            raise TypeError("unexpected argument")
        return self.memory.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.memory.__dlpack_device__()


@drawn(st.data(), st.sampled_from([*DTYPES, bfloat16]), shapes)
def test_dlpack_both_ways_without_copies(data: st.DataObject, dtype: Any, shape: tuple[int, ...]) -> None:
    x = pdl.ones(shape, dtype=dtype)
    for old in (False, True):
        y = pdl.from_dlpack(Exporter(x, old=old), device=x.device)
        same(y, x.data)
        assert np.shares_memory(x.data, y.data) is (x.size > 0)
    assert not np.shares_memory(x.data, pdl.from_dlpack(x, copy=True).data)
    assert np.shares_memory(x.data, pdl.from_dlpack(x, copy=False).data) is (x.size > 0)
    if dtype != bfloat16:
        np.testing.assert_array_equal(np.from_dlpack(x), x.data)
        same(pdl.from_dlpack(x.data), x.data)
    assert x.__dlpack_device__() == (1, 0)
    versions = st.none() | st.tuples(st.integers(0, 2), st.integers(0, 3))
    capsule = x.__dlpack__(
        max_version=data.draw(versions), dl_device=data.draw(st.sampled_from([None, (1, 0)])),
        copy=data.draw(st.sampled_from([None, True, False])), stream=None,
    )  # fmt: skip
    assert "dltensor" in repr(capsule)


def test_dlpack_keeps_memory_alive_and_says_what_may_be_written() -> None:
    memory = np.zeros(3)
    y = pdl.from_dlpack(memory)
    del memory
    y[0] = 1
    assert y.tolist() == [1, 0, 0]
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    y = pdl.from_dlpack(fixed)
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1
    assert pdl.from_dlpack(y).tolist() == [0, 0, 0]
    with pytest.raises(BufferError, match="readonly"):  # a capsule without a version cannot say so
        y.__dlpack__()


def test_dlpack_refuses_what_it_cannot_share() -> None:
    with pytest.raises(SharingError, match="gradient"):
        np.from_dlpack(pdl.tensor([1.0], requires_grad=True))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no __dlpack__"):
        pdl.from_dlpack([1.0])
    with pytest.raises(DtypeError, match="float16"):
        pdl.from_dlpack(np.zeros(1, np.float16))
    with pytest.raises((SharingError, UsageError)):
        pdl.from_dlpack(np.zeros(1), device="cuda")
    with pytest.raises(GradientError):
        pdl.tensor([1.0], requires_grad=True).numpy()
