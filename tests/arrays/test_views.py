"""Views beyond indexing, judged by NumPy: the same elements, on the same memory if NumPy's are."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays.classify import element_at, view, view_at
from strided.arrays.keys import normalise
from strided.runtime import limits
from tests.cases import Case, some_values
from tests.checks import encoded, needs_numpy, outcome, random_layout, same_outcome, same_values, shape_of
from tests.strategies import basic_keys, cases, keys


def pair(case: Case, seed: int = 0) -> tuple[sd.LayoutArray, np.ndarray]:
    """An array in a layout, and the same as an ndarray that owns its memory."""
    values = some_values(case, seed)
    return sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case)), values.copy()


def check(case: Case, operation: Any, *, always_view: bool = True) -> None:
    """An operation gives what it gives of an ndarray; what is written to it is written to the array."""
    a, x = pair(case)
    both = same_outcome(lambda: operation(a), lambda: operation(x))
    if both is None:
        return
    got, expected = both
    same_values(got, expected, case.bits)
    if always_view:
        assert isinstance(got, sd.LayoutArray)
        assert got.size == 0 or np.shares_memory(got.buffer, a.buffer)
        assert got.flags.writeable == expected.flags.writeable
    if isinstance(got, sd.LayoutArray) and got.size and got.flags.writeable and np.shares_memory(expected, x):
        expected[...] = one = np.ones((), np.int8).astype(expected.dtype)
        got[...] = one
        same_values(a, x, case.bits)


# --- short ways of indexing -----------------------------------------------------------------------------------------


@given(st.data())
def test_short_ways_find_what_the_normal_form_finds(data: st.DataObject) -> None:
    """The quick paths for integers and slices change nothing, and leave every other key alone."""
    case = data.draw(cases(max_rank=4))
    map_ = shape_of(case).address_map
    key = data.draw(st.one_of(basic_keys(case.dimensions, wrong=True), keys(case.dimensions)))
    entries = key if type(key) is tuple else (key,)
    selection, _ = outcome(lambda: normalise(key, case.dimensions))
    element, part = element_at(map_, entries), view_at(map_, entries)
    if element is not None:
        assert selection is not None
        assert selection.is_element
        assert element == map_.offset_of(selection.items)
    if part is not None:
        assert selection is not None
        assert selection.is_basic
        assert not selection.copies
        long = view(map_, selection)
        assert part.shape == long.shape
        assert np.array_equal(part.offsets(), long.offsets())


# --- axes -----------------------------------------------------------------------------------------------------------


@given(cases(max_rank=5), st.data())
def test_transposing(case: Case, data: st.DataObject) -> None:
    rank = len(case.dimensions)
    axes = data.draw(st.permutations(range(rank)))
    check(case, lambda x: x.transpose(axes))
    check(case, lambda x: x.transpose(*(k - rank for k in axes)))
    check(case, lambda x: x.T)
    check(case, lambda x: x.transpose())
    check(case, lambda x: np.transpose(x, axes))
    if rank >= 2:
        check(case, lambda x: x.mT)
        check(case, lambda x: x.swapaxes(0, -1))


@pytest.mark.parametrize("axes", [(), (0,), (0, 0), (0, 1, 2), (5, 0), (0, 1.5), ("a", 0), None, (None,), ((1, 0),)])
def test_transposing_wrongly(axes: Any) -> None:
    case = Case.parse("f32[3,5]{0,1:T(2,2)}")
    check(case, lambda x: x.transpose(*axes) if axes is not None else x.transpose(None))
    check(case, lambda x: np.transpose(x, axes))
    check(Case.parse("f32[3]{0:T(2,2)}"), lambda x: x.mT)


@given(cases(max_rank=5), st.data())
def test_other_rearrangements(case: Case, data: st.DataObject) -> None:
    rank = len(case.dimensions)
    axis = data.draw(st.integers(-rank - 1, rank))
    other = data.draw(st.integers(-rank - 1, rank))
    for operation in (
        lambda x: x.squeeze(),
        lambda x: x.squeeze(axis),
        lambda x: x.swapaxes(axis, other),
        lambda x: np.moveaxis(x, axis, other),
        lambda x: np.rollaxis(x, axis, other),
        lambda x: np.expand_dims(x, axis),
        lambda x: np.expand_dims(x, (axis, other)),
        lambda x: np.flip(x, axis),
        lambda x: np.rot90(x, axis, (0, other)),
        lambda x: np.atleast_3d(x),
        lambda x: np.atleast_1d(x),
    ):
        check(case, operation, always_view=False)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,2,1:T(2,2)}"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (0, 3, 2)], ids=str)
def test_what_has_nothing_to_change_is_the_array_itself(shape: tuple[int, ...], layout: str) -> None:
    """Where NumPy returns its argument, a view would differ from it: in its flags, and in `is`."""
    x = np.zeros(shape, np.float32)
    a = sd.LayoutArray.from_numpy(x, layout)
    for operation in (
        lambda x: x.squeeze(),
        lambda x: x.squeeze(()),
        np.squeeze,
        np.atleast_1d,
        np.atleast_2d,
        np.atleast_3d,
        lambda x: np.atleast_2d(x, 1)[0],
        lambda x: x.swapaxes(0, 0),
        lambda x: np.moveaxis(x, 0, 0),
        lambda x: np.rollaxis(x, 0),
        lambda x: np.flip(x, ()),
        lambda x: np.expand_dims(x, ()),
    ):
        assert (operation(a) is a) == (operation(x) is x)


@pytest.mark.parametrize("offset", [-9, -2, -1, 0, 1, 2, 9])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (-1, 1), (0, 0), (0, 3)])
def test_diagonals(offset: int, axes: tuple[int, int]) -> None:
    for text in ("f32[3,5,4]{0,2,1:T(2,2)}", "s4[3,5,4]{0,2,1:T(2,2)E(4)}", "f32[3,5,4]{2,1,0:T(*,2,4)}"):
        check(Case.parse(text), lambda x: x.diagonal(offset, *axes))
        check(Case.parse(text), lambda x: np.linalg.diagonal(x, offset=offset))


def test_diagonals_and_broadcasts_are_read_only() -> None:
    case = Case.parse("f32[3,3]{0,1:T(2,2)}")
    for operation in (lambda x: x.diagonal(), lambda x: np.diag(x, 1), lambda x: np.broadcast_to(x, (2, 3, 3))):
        a, x = pair(case)
        same_outcome(
            lambda a=a, operation=operation: operation(a).__setitem__(0, 1),
            lambda x=x, operation=operation: operation(x).__setitem__(0, 1),
        )
        a[0, 0] = 1  # the array itself is as it was


@given(cases(max_rank=4), st.data())
@pytest.mark.filterwarnings("ignore:Numpy has detected:DeprecationWarning")
def test_broadcasting(case: Case, data: st.DataObject) -> None:
    more = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    sizes = tuple(data.draw(st.sampled_from([1, n, 4])) if n == 1 else n for n in case.dimensions)
    check(case, lambda x: np.broadcast_to(x, (*more, *sizes)))
    check(case, lambda x: np.broadcast_arrays(x, np.zeros((*more, *sizes)))[0], always_view=False)


# --- shapes ---------------------------------------------------------------------------------------------------------


@given(cases(max_rank=4), st.data())
def test_reshaping(case: Case, data: st.DataObject) -> None:
    shape = data.draw(st.permutations(factors(int(np.prod(case.dimensions)))))
    for order in ("C", "F"):
        check(case, lambda x, order=order: x.reshape(shape, order=order), always_view=False)
        check(case, lambda x, order=order: x.ravel(order), always_view=False)
    check(case, lambda x: x.reshape(*shape), always_view=False)
    check(case, lambda x: x.reshape(-1), always_view=False)
    check(case, lambda x: np.ravel(x), always_view=False)
    check(case, lambda x: x.T.reshape(shape), always_view=False)
    check(case, lambda x: x[..., ::-1].reshape(shape) if x.ndim else x, always_view=False)
    a, x = pair(case)
    copied = a.reshape(shape, copy=True)  # which NumPy has from 2.1 on
    same_values(copied, x.reshape(shape), case.bits)
    assert not np.may_share_memory(copied, a.buffer)


def factors(n: int) -> list[int]:
    """Numbers with this product."""
    found, k = [], 2
    while n > 1:
        while n % k == 0:
            found.append(k)
            n //= k
        k += 1
    return [*found, 1] if n else [0]


@pytest.mark.parametrize(
    "shape", [(7,), (-1, -1), (-1, 7), (0, -1), (15, 1, 1), (3, -1), ("a",), (1.5,), (None,), (3.0, 5)]
)
def test_reshaping_wrongly(shape: Any) -> None:
    check(Case.parse("f32[3,5]{0,1:T(2,2)}"), lambda x: x.reshape(shape), always_view=False)
    check(Case.parse("f32[3,5]{0,1:T(2,2)}"), lambda x: x.reshape(3, 5, order="X"), always_view=False)


def test_an_order_that_depends_on_memory() -> None:
    for text in ("s8[3,4]{0,1}", "s8[3,4]{1,0}", "s8[3,4,5]{1,2,0}"):
        a, _ = pair(Case.parse(text))
        x = np.asarray(a).copy("K")
        for order in ("A", "K"):
            same_values(a.ravel(order), x.ravel(order))
            same_values(a.flatten(order), x.flatten(order))
        same_values(a.reshape(-1, 2, order="A"), x.reshape(-1, 2, order="A"))


def test_reshaping_is_a_view_where_the_layout_allows_it() -> None:
    a = sd.LayoutArray(bytearray(96), "f32[3,8]{1,0:T(1,8)}")
    assert isinstance(a.reshape(24), sd.LayoutArray)
    b = sd.LayoutArray(bytearray(256), "f32[8,8]{1,0:T(2,4)}")
    assert isinstance(b.reshape(2, 4, 2, 4), sd.LayoutArray)
    assert isinstance(b.reshape(4, 2, 8, copy=False), sd.LayoutArray)
    # Digits of rows and columns do not follow on each other, but each fills its axis: still a view.
    assert isinstance(b.reshape(64), sd.LayoutArray)
    assert type(b.T.reshape(64)) is type(b[::2].reshape(32)) is np.ndarray, "NumPy copies"
    c = sd.LayoutArray(bytearray(4096), "f32[3,8]{1,0:T(8,128)}")
    assert type(c.reshape(24)) is np.ndarray, "plain strides with gaps: NumPy copies"
    d = sd.LayoutArray(bytearray(96), "f32[3,5]{1,0:T(2,2)}")
    assert type(d.reshape(15)) is np.ndarray
    with pytest.raises(ValueError, match="Unable to avoid creating a copy while reshaping"):
        d.reshape(15, copy=False)


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", ["c64", "c128", "f32", "s8", "pred", "bf16", "s4"])
def test_real_and_imaginary_parts(element_type: str) -> None:
    case = Case.parse("f32[3,5]{0,1:T(2,2)}").with_type(element_type)
    check(case, lambda x: x.real)
    check(case, lambda x: x[1:, ::-2].T.real)
    check(case, lambda x: np.real(x))
    a, x = pair(case)
    same_values(a.imag, x.imag)
    same_values(np.imag(a[1:]), x.imag[1:])
    assert a.imag.flags.writeable == x.imag.flags.writeable
    assert (a.real is a) == (x.real is x)
    if x.dtype.kind == "c":
        assert a.real.element_type == ("f32" if element_type == "c64" else "f64")
        a.imag = 7
        x.imag = 7
        a.real[1] = 3
        x.real[1] = 3
        same_values(a, x)
        same_values(a.real.to_layout("{1,0:T(2,4)}"), x.real)
    else:
        with pytest.raises(TypeError, match="imaginary part"):
            a.imag = 7


def test_other_types_of_the_same_width() -> None:
    case = Case.parse("bf16[3,5]{0,1:T(2,2)}")
    check(case, lambda x: x.view(np.uint16))
    check(case, lambda x: x.view())
    check(case, lambda x: x.view(x.dtype))
    a, x = pair(case)
    a.view(np.uint16)[1, 1] = 0x4000
    assert a[1, 1] == 2
    assert a.view(np.uint16).is_view
    with pytest.raises(BufferError, match="to_numpy"):
        a.view(np.uint8)
    plain, x = pair(Case.parse("s32[3,5]{1,0}"))
    same_values(plain.view(np.int16), x.view(np.int16))


# --- whose memory ---------------------------------------------------------------------------------------------------


@given(cases(max_rank=3, legacy=False), st.data())
def test_shared_memory_is_told_as_numpy_tells_it(case: Case, data: st.DataObject) -> None:
    a, x = pair(case)
    first, second = data.draw(basic_keys(case.dimensions)), data.draw(basic_keys(case.dimensions))
    p, q = x[with_dots(first)], x[with_dots(second)]
    b, c = a[with_dots(first)], a[with_dots(second)]
    if not isinstance(b, sd.LayoutArray) or not isinstance(c, sd.LayoutArray):
        return  # an array stood for an integer: a copy
    if case.bits >= 8:
        assert np.shares_memory(b, c) == np.shares_memory(p, q)
        assert np.shares_memory(b.T, c) == np.shares_memory(p, q)
    if np.shares_memory(p, q):
        assert np.may_share_memory(b, c)
        assert np.shares_memory(b, c)
    assert np.shares_memory(b, a.buffer) == (b.size > 0)
    assert not np.shares_memory(b, x)


def with_dots(key: Any) -> tuple[Any, ...]:
    """The key as one that selects a view, and never an element."""
    entries = key if isinstance(key, tuple) else (key,)
    return entries if any(e is Ellipsis for e in entries) else (*entries, Ellipsis)


def test_shared_memory_in_odd_cases() -> None:
    a = sd.LayoutArray(bytearray(256), "c64[4,4]{0,1:T(2,2)}")
    assert not np.shares_memory(a.real, a.imag)
    assert np.may_share_memory(a.real, a.imag)
    assert np.shares_memory(a.real, a)
    assert np.shares_memory(a.diagonal(), a[1])
    assert not np.shares_memory(a.diagonal(1), a.diagonal())
    packed = sd.LayoutArray(bytearray(8), "s4[16]{0:E(4)}")
    assert np.shares_memory(packed[::2], packed[1::2]), "of one byte both have a half"
    assert not np.shares_memory(packed[:4], packed[8:])
    large = sd.LayoutArray(np.zeros(1 << 27, np.uint8), "u8[8192,16384]{0,1:T(8,128)}")
    assert not np.shares_memory(large[::2], large[1::2])
    assert np.shares_memory(large[::3], large.T[:, ::2])
    with pytest.raises(np.exceptions.TooHardError, match="max_work"):
        np.shares_memory(large.reshape(8192, 128, 128)[:, :, 1:], large.reshape(8192, 128, 128)[:, :, :1])
    assert np.shares_memory(large, large.buffer[5:6], max_work=0)


# --- flags and flat -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["f32[3,5]{1,0}", "f32[3,5]{0,1}", "f32[3]{0}", "f32[]", "f32[0,3]{1,0}"])
def test_flags_of_plain_layouts_are_numpys(text: str) -> None:
    case = Case.parse(text)
    a, _ = pair(case)
    x = np.asarray(a)
    for name in ("C", "F", "W", "A", "X", "B", "CA", "FA", "FNC", "FORC", "CONTIGUOUS", "WRITEABLE"):
        assert a.flags[name] == x.flags[name], name
    assert a.flags.contiguous == x.flags.contiguous
    assert a.flags.fortran == x.flags.fortran
    assert a.flags.num == x.flags.num
    assert a.flags == x.flags
    assert x.flags == a[...].flags
    assert a.flags != np.zeros(3).flags  # which owns its memory
    assert a.flags != a.flags.num
    assert "C_CONTIGUOUS" in repr(a.flags)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a.flags)
    with pytest.raises(KeyError, match="Unknown flag"):
        a.flags["Q"]


def test_flags_of_other_layouts() -> None:
    a, b = (pair(Case.parse(text))[0] for text in ("f32[3,5]{0,1:T(2,2)}", "s4[3,5]{1,0:E(4)}"))
    assert a.flags == b.flags == np.zeros((8, 8))[::2, ::2].flags
    assert a.flags.num == 0x500
    a.flags.writeable = False
    assert a.flags != b.flags


def test_writing_can_be_forbidden() -> None:
    a, _ = pair(Case.parse("f32[3,5]{0,1:T(2,2)}"))
    view = a[1:]
    assert not a.flags.c_contiguous
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        a[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        a[0] += 1
    view[0, 0] = 1
    a.setflags(write=True)
    a[0, 0] = 1
    a.flags["WRITEABLE"] = False
    assert not a.flags.writeable
    a.setflags(align=True, uic=False)
    with pytest.raises(ValueError, match="align cannot be unset"):
        a.setflags(align=False)
    with pytest.raises(ValueError, match="cannot set WRITEBACKIFCOPY flag to True"):
        a.setflags(uic=True)
    assert not a.flags.writeable
    fixed = sd.LayoutArray(bytes(60), "f32[3,5]")
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True of this array"):
        fixed.flags.writeable = True


FLAT_KEYS: list[Any] = [
    0, -1, 14, 15, -16, np.int8(3), slice(None), slice(2, 9, 3), slice(None, None, -2), slice(5, 5), ..., (3,),
    [0, 14, -1], [[1, 2], [3, -15]], [15], [], np.array([], int), np.arange(15) % 2 == 0, np.zeros(15, bool),
    1.5, "a", None, (1, 2),
]  # fmt: skip
#: What NumPy took in other ways before 2.4: as the whole array, as masks that need not fit, as integers.
STRICTER_FLAT_KEYS: list[Any] = [(), np.zeros(14, bool), [0.5], True, np.array(True), [True] * 15]


@pytest.mark.parametrize("key", FLAT_KEYS, ids=repr)
def test_flat(key: Any) -> None:
    check_flat(key)


@needs_numpy("2.4", "flat takes these keys in other ways")
@pytest.mark.parametrize("key", [*STRICTER_FLAT_KEYS, (...,)], ids=repr)
def test_flat_with_the_rules_of_today(key: Any) -> None:
    check_flat(key)


@needs_numpy("2.4", "flat takes some of these in other ways")
@pytest.mark.parametrize(
    "index",
    [np.array([1.5]), np.array([1], "int4"), np.array(True), np.ones(15, bool), np.array([3, 1]), np.array(2)],
    ids=repr,
)
def test_flat_takes_an_array_in_a_layout_for_an_ndarray(index: np.ndarray) -> None:
    """NumPy's own iterators take it for a list, and look at one number after another."""
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    key = sd.LayoutArray.from_numpy(index)
    for mine, theirs in ((key, index), ((key,), (index,))):
        same_outcome(lambda mine=mine: a.flat[mine], lambda theirs=theirs: x.flat[theirs], same_values)
        same_outcome(lambda mine=mine: a.flat.__setitem__(mine, 7), lambda theirs=theirs: x.flat.__setitem__(theirs, 7))
        same_values(a, x)


def test_flat_has_the_rules_of_today_with_every_numpy() -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    whole, *refused = STRICTER_FLAT_KEYS
    same_values(a.flat[whole], x.reshape(-1))
    for key in refused:
        _, error = outcome(lambda key=key: a.flat[key])
        # In the words of this NumPy, whose warnings are errors in tests.
        assert isinstance(error, (IndexError, ValueError, DeprecationWarning))


def check_flat(key: Any) -> None:
    """It reads, refuses and assigns what NumPy's does."""
    case = Case.parse("s16[3,5]{0,1:T(2,2)}")
    a, x = pair(case)
    if (both := same_outcome(lambda: a.flat[key], lambda: x.flat[key])) is not None:
        got, expected = both
        same_values(got, expected)
        assert type(got) is type(expected)
    for new in (7, [1, 2], np.arange(15)):
        a, x = pair(case)
        _, wanted = outcome(lambda x=x, new=new: x.flat.__setitem__(key, new))
        _, error = outcome(lambda a=a, new=new: a.flat.__setitem__(key, new))
        assert (error is None) == (wanted is None), (new, error, wanted)
        same_values(a, x)


def test_flat_looks_at_no_index_for_which_there_is_no_value() -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    for key, new in (([15], []), (-16, []), ([15], [1]), ([0], [])):
        same_outcome(lambda: a.flat.__setitem__(key, new), lambda: x.flat.__setitem__(key, new))  # noqa: B023
    same_values(a, x)


def test_flat_of_a_read_only_array_is_not_assigned() -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    a.flags.writeable = x.flags.writeable = False
    same_outcome(lambda: setattr(a, "flat", 1), lambda: setattr(x, "flat", 1))


def test_flat_as_an_iterator() -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    mine, theirs = a.flat, x.flat
    for value in itertools.islice(theirs, 7):
        assert next(mine) == value
    assert mine.index == theirs.index
    assert mine.coords == theirs.coords
    assert len(mine) == 15
    assert mine.base is a
    same_values(mine.copy(), x.reshape(-1))
    same_values(np.asarray(a.flat), x.reshape(-1))
    assert list(mine) == x.reshape(-1)[7:].tolist()
    a.flat = [1, 2, 3]
    x.flat = [1, 2, 3]
    same_values(a, x)


@pytest.mark.parametrize("key", [0, slice(1, 2), [0, 1], ..., 99, "a"], ids=str)
def test_flat_deletes_nothing(key: Any) -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    same_outcome(lambda: a.flat.__delitem__(key), lambda: x.flat.__delitem__(key))
    same_values(a, x)


@pytest.mark.parametrize("text", ["s16[3,5]{1,0}", "s16[3,5]{0,1:T(2,2)}", "s4[3,5]{1,0:T(2,4)E(4)}", "s16[]"])
def test_flat_reads_what_has_been_written_meanwhile(text: str) -> None:
    a, x = pair(Case.parse(text))
    for z in (a, x):
        z[...] = np.ones((), z.dtype)
        for k, value in enumerate(z.flat):
            if k + 1 < z.size:
                z.flat[k + 1] = np.asarray((int(value) + 1) % 8, z.dtype)
    same_values(a, x)


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_flat_is_compared_element_by_element(compare: Callable[[Any, Any], Any]) -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))
    for other in (x[1, 2], x.reshape(-1)[::-1]):
        same_values(compare(a.flat, other), compare(x.flat, other))
    with pytest.raises(TypeError, match="unhashable"):
        hash(a.flat)


def test_a_class_in_place_of_a_type() -> None:
    a, x = pair(Case.parse("s16[3,5]{0,1}"))
    assert type(a.view(np.ndarray)) is np.ndarray
    assert type(a.view(np.matrix)) is np.matrix
    same_values(a.view(np.ndarray), x)
    for each in (a, x):
        with pytest.raises(ValueError, match="Cannot specify output type twice"):
            each.view(np.matrix, np.ndarray)
    with pytest.raises(BufferError, match="to_numpy"):
        pair(Case.parse("s16[3,5]{0,1:T(2,2)}"))[0].view(np.ndarray)


# --- many axes ------------------------------------------------------------------------------------------------------


def test_as_many_axes_as_numpy_has() -> None:
    rng = np.random.default_rng(3)
    dimensions = tuple(int(n) for n in rng.permutation([2, 3, 2, *[1] * 61]))
    case = random_layout(rng, dimensions, "s16")
    check(case, lambda x: x.T)
    check(case, lambda x: x[..., ::-1])
    check(case, lambda x: x.squeeze())
    check(case, lambda x: x.reshape(-1), always_view=False)
    a, x = pair(case)
    assert int(np.sum(a)) == int(np.sum(x))
    a[...] = 5
    assert (np.asarray(a) == 5).all()
    with pytest.raises(IndexError, match="number of dimensions must be within"):
        a[None]


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{0,1:T(4,8)}", "{1,0}"])
@pytest.mark.parametrize("steps", [(1, 1), (3, 1), (3, 2), (3, 8), (4, 8), (1, 3)])
def test_diagonals_of_views_with_steps(layout: str, steps: tuple[int, int]) -> None:
    """Two coordinates follow one axis, by steps of their own: planned as well as by NumPy."""
    values = np.arange(200 * 300, dtype=np.float32).reshape(200, 300)
    window = np.s_[:: steps[0], :: steps[1]]
    view, x = sd.LayoutArray.from_numpy(values, layout)[window], values[window]
    with limits.replaced(small_elements=0, tiny_elements=0, compile_first=1):
        for offset in (0, 1, 8, -8):
            same_values(view.diagonal(offset), x.diagonal(offset))
            same_values(view.diagonal(offset)[1::2], x.diagonal(offset)[1::2])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x[1:],
        lambda x: x[1],
        lambda x: x[:, ::2],
        lambda x: x[:, :1],
        lambda x: x.reshape(-1),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        lambda x: np.zeros((4, 3)).T,
        lambda x: np.int8(0),
        lambda x: 1,
    ],
    ids=range(9),
)
def test_what_moves_more_than_axes_is_refused(operation: Any) -> None:
    a = sd.LayoutArray.from_numpy(np.arange(12.0).reshape(3, 4), "{1,0:T(2,4)}")
    with pytest.raises(ValueError, match="rearranged takes an operation that only moves, flips, adds or drops axes"):
        a.rearranged(operation)


def test_axes_are_rearranged() -> None:
    values = np.arange(12.0).reshape(3, 1, 4)
    a = sd.LayoutArray.from_numpy(values, "{2,1,0:T(2,4)}")
    for operation in (np.rot90, np.squeeze, np.flip, np.transpose, lambda x: x[:, 0, None, ::-1], lambda x: x):
        np.testing.assert_array_equal(a.rearranged(operation), operation(values))
    assert sd.LayoutArray(b"", "f32[0,3]").rearranged(np.flip).shape == (0, 3)
    assert sd.LayoutArray(bytes(4), "f32[]").rearranged(np.atleast_2d).shape == (1, 1)


@pytest.mark.parametrize("layout", ["f32[]{:T(128)}", "s4[]{:E(4)}"])
def test_no_new_axes_of_a_0d_array(layout: str) -> None:
    """It was the element, a scalar: NumPy gives a view."""
    a = sd.LayoutArray(bytearray(sd.parse_shape(layout).byte_size), layout)
    for found in (np.expand_dims(a, ()), a.expand_dims(())):
        assert (type(found), found.shape) == (sd.LayoutArray, ())
        found[...] = 3
        assert a[()] == 3
        a[...] = 0
