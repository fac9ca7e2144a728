"""Estimated times: what makes a product slower makes it no faster, and known kinds of CPU choose as they measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.dtype import bfloat16, float32, float64
from pdl.machine import BUILT_IN, Machine
from pdl.program.passes.costs import PLAIN, Product, estimates, forms

ZEN, WIDE = BUILT_IN["avx2"], BUILT_IN["avx512_bf16"]


def product(
    size: int, c: int, o: int, taps: int = 1, stride: int = 1, n: int = 1, dtype: np.dtype = float32
) -> Product:
    """A square convolution with padding that keeps the size at stride 1."""
    pad = taps // 2
    out = (size + 2 * pad - taps) // stride + 1
    x, y = (n, size, size, c), (n, out, out, o)
    return Product(dtype, x, (taps, taps, c, o), y, (stride, stride), ((pad, pad), (pad, pad)), (1, 1))


products = st.builds(
    product, st.integers(3, 60), st.sampled_from([3, 16, 40, 64, 256]), st.sampled_from([8, 16, 72, 512]),
    st.sampled_from([1, 3, 5]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 8]),
    st.sampled_from([float32, bfloat16, float64]),
)  # fmt: skip
machines = st.sampled_from(sorted(BUILT_IN)).map(lambda name: BUILT_IN[name])
bytes_held = st.sampled_from([0, 1 << 18, 1 << 22, 1 << 26])


def no_faster(slow: dict[str, float], fast: dict[str, float]) -> bool:
    return all(slow[form] >= fast[form] * (1 - 1e-9) for form in slow)


@given(products, machines, bytes_held, st.sampled_from([1, 2, 4]))
def test_slower_machines_are_slower(given: Product, machine: Machine, held: int, threads: int) -> None:
    found = estimates(given, machine, threads, held)
    assert tuple(found) == forms(given)
    assert all(seconds > 0 for seconds in found.values())
    slower = replace(machine, rates={name: rate / 2 for name, rate in machine.rates.items()})
    assert no_faster(estimates(given, slower, threads, held), found)
    farther = {level: rate / 2 for level, rate in machine.bandwidth.items()}
    assert no_faster(estimates(given, replace(machine, bandwidth=farther), threads, held), found)
    assert no_faster(estimates(given, replace(machine, together=machine.together / 2), threads, held), found)
    assert no_faster(estimates(given, replace(machine, hand_over=1e-4), threads, held), found)


@given(products, machines, bytes_held)
def test_more_images_and_more_weights_elsewhere_take_longer(given: Product, machine: Machine, held: int) -> None:
    found = estimates(given, machine, 1, held)
    assert no_faster(estimates(given, machine, 1, 1 << 28), found)
    twice = given._replace(x=(2 * given.x[0], *given.x[1:]), y=(2 * given.y[0], *given.y[1:]))
    double = estimates(twice, machine, 1, held)
    double.pop(PLAIN, None)  # whose kernel goes over to Winograd's way where there are tiles enough
    assert no_faster(double, found)


def test_linear_layers_and_pointwise_ones_have_one_form() -> None:
    linear = Product(float32, (1, 512), (512, 10), (1, 10))
    assert forms(linear) == forms(product(14, 64, 64)) == ("rows",)
    assert forms(product(14, 64, 64, stride=2)) == ("rows", PLAIN)
    assert forms(product(14, 64, 64, 3, dtype=float64)) == ("rows", PLAIN)
    assert set(forms(product(14, 64, 64, 3))) == {"rows", "winograd4", "winograd2"}
    assert forms(product(14, 64, 2, 3)) == ("rows", PLAIN, "taps")
    assert forms(product(14, 64, 2, 3, dtype=bfloat16)) == ("rows", PLAIN)
    assert estimates(linear, ZEN, 2).keys() == {"rows"}


@given(products, machines)
def test_the_fewer_blocks_the_faster(given: Product, machine: Machine) -> None:
    whole = int(np.prod(given.w[:-1])) * -(-given.w[-1] // 16)
    assert "blocks" not in forms(given)
    kept = [given._replace(kept=n) for n in sorted({1, max(1, whole // 3), whole})]
    if given.dtype != float32:
        assert forms(kept[0]) == forms(given)
        return
    seconds = [estimates(each, machine, 1, 1 << 22)["blocks"] for each in kept]
    assert seconds == sorted(seconds)
    assert len({str(each) for each in kept}) == len(kept)  # each has times of its own


def test_where_blocks_serve() -> None:
    for machine in (ZEN, WIDE):
        for one, share, form in (
            (Product(float32, (1, 512), (512, 512), (1, 512)), 0.2, "blocks"), (product(14, 256, 256), 0.2, "blocks"),
            (product(14, 256, 256), 0.95, "rows"), (product(28, 128, 128, 3), 0.9, "winograd4"),
            (product(28, 128, 128, 3), 0.05, "blocks"),
        ):  # fmt: skip
            kept = one._replace(kept=int(share * np.prod(one.w) / 16))
            found = estimates(kept, machine, 1, 1 << 22)
            assert min(found, key=found.__getitem__) == form


#: what was the fastest form where it was timed: EPYC (Zen 3), one thread, weights in the shared cache
TIMED = [
    (product(56, 64, 64, 3), "winograd4"), (product(28, 128, 128, 3), "winograd4"),
    (product(7, 512, 512, 3), "winograd2"), (product(4, 512, 512, 3), "winograd2"),
    (product(28, 128, 256, 3, 2), "rows"), (product(14, 256, 512, 3, 2), "rows"), (product(7, 200, 200, 3), "rows"),
    (product(56, 40, 64, 3), PLAIN), (product(28, 72, 72, 3), PLAIN), (product(224, 3, 64, 7, 2), PLAIN),
    (product(224, 3, 32, 3, 2), PLAIN), (product(28, 1, 8, 5), PLAIN), (product(112, 24, 40, 3, 2), PLAIN),
    (product(14, 256, 256, 3, n=8), "winograd4"), (product(40, 96, 1, 5), "taps"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "form"), TIMED, ids=[str(each) for each, _ in TIMED])
def test_choice(given: Product, form: str) -> None:
    found = estimates(given, ZEN, 1, 40 << 20)
    assert min(found, key=found.__getitem__) == form


def test_where_bfloat16_is_multiplied_direct_sums_are_worth_more() -> None:
    given = product(7, 512, 512, 3)
    for form, machine, dtype in (("rows", WIDE, bfloat16), ("winograd2", ZEN, bfloat16)):
        found = estimates(given._replace(dtype=dtype), machine, 2, 90 << 20)
        assert min(found, key=found.__getitem__) == form


def test_a_product_says_what_it_is() -> None:
    assert str(product(56, 64, 128, 3, 2)) == "float32 1x56x56x64 * 3x3x64x128, stride 2x2, padding 1+1, 1+1"
    assert str(Product(bfloat16, (3, 512), (512, 10), (3, 10))) == "bfloat16 3x512 * 512x10"
