"""pandas and matplotlib: a LayoutArray goes where an array goes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strided as sd

pytestmark = pytest.mark.partners

VALUES = np.arange(600, dtype=np.float32).reshape(30, 20) % 251
PLACES = np.array([3, 1, 29])


def array(values: np.ndarray = VALUES, layout: str = "{1,0:T(8,128)}", **options: Any) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, layout, **options)


# --- pandas ---------------------------------------------------------------------------------------------------------

FRAMES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "frame": lambda pd, x, k: pd.DataFrame(x),
    "named columns": lambda pd, x, k: pd.DataFrame(x, columns=[f"c{k}" for k in range(20)]),
    "columns": lambda pd, x, k: pd.DataFrame({"q": x[:, 0], "r": x[:, 1]}),
    "series": lambda pd, x, k: pd.Series(x[:, 3], name="s"),
    "index": lambda pd, x, k: pd.Series(x[:, 3], index=x[:, 4]),
    "assigned": lambda pd, x, k: pd.DataFrame({"q": range(30)}).assign(z=x[:, 0]),
    "sum": lambda pd, x, k: pd.Series(VALUES[:, 0]) + x[:, 1],
    "sum from the left": lambda pd, x, k: x[:, 1] + pd.Series(VALUES[:, 0]),
    "compared": lambda pd, x, k: pd.Series(VALUES[:, 0]) > x[:, 1],
    "mask": lambda pd, x, k: pd.Series(VALUES[:, 0])[x[:, 0] > 3],
    "loc": lambda pd, x, k: pd.DataFrame(VALUES).loc[k],
    "iloc": lambda pd, x, k: pd.DataFrame(VALUES).iloc[k],
    "isin": lambda pd, x, k: pd.Series(VALUES[:, 0]).isin(x[:7, 0]),
    "cut": lambda pd, x, k: pd.Series(pd.cut(x[:, 3], 3)),
    "missing": lambda pd, x, k: pd.DataFrame(pd.isna(x)),
    "dates": lambda pd, x, k: pd.Series(pd.to_datetime(k)),
    "grouped": lambda pd, x, k: pd.Series(VALUES[:, 0]).groupby(x[:, 5] > 100).mean(),
}


@pytest.mark.parametrize("name", FRAMES)
def test_pandas_takes_it_as_an_ndarray(name: str) -> None:
    pd = pytest.importorskip("pandas")
    got = FRAMES[name](pd, array(), array(PLACES, "{0:T(128)}"))
    expected = FRAMES[name](pd, VALUES, PLACES)
    same = pd.testing.assert_frame_equal if isinstance(expected, pd.DataFrame) else pd.testing.assert_series_equal
    same(got, expected)


def test_a_frame_has_values_of_its_own() -> None:
    pd = pytest.importorskip("pandas")
    a = array()
    frame = pd.DataFrame(a)
    frame.iloc[0, 0] = -1
    assert a[0, 0] == 0


def test_what_pandas_takes_from_ndarrays_alone() -> None:
    """Refused aloud; `numpy.asarray` is the way round."""
    pd = pytest.importorskip("pandas")
    a, frame = array(), pd.DataFrame(VALUES)
    with pytest.raises(TypeError, match="LayoutArray"):
        pd.unique(a[:, 0])
    with pytest.raises(ValueError, match="LayoutArray"):
        frame + a
    assert ((frame + np.asarray(a)) == 2 * VALUES).all(axis=None)
    with pytest.raises(TypeError, match="LayoutArray"):
        frame.groupby(a[:, 0]).sum()
    assert frame.groupby(np.asarray(a[:, 0])).sum().equals(frame.groupby(VALUES[:, 0]).sum())
    mask = array(VALUES[:, 0] > 100, "{0:T(128)}")
    with pytest.raises(KeyError):
        frame[mask]
    assert frame[np.asarray(mask)].equals(frame[VALUES[:, 0] > 100])
    with pytest.raises(TypeError, match="keys"):
        frame.set_index(a[:, 0])
    with pytest.raises(ValueError, match="LayoutArray"):
        frame.clip(a)


def test_a_mask_by_position_must_be_an_ndarray() -> None:
    """pandas looks for an ndarray and takes anything else for positions; docs/interop.md warns of it."""
    pd = pytest.importorskip("pandas")
    series, chosen = pd.Series(VALUES[:, 0]), VALUES[:, 0] > 100
    mask = array(chosen, "{0:T(128)}")
    assert len(series.iloc[mask]) in (len(series), int(chosen.sum()))
    assert series.iloc[np.asarray(mask)].equals(series.iloc[chosen])
    assert series.where(mask).equals(series.where(chosen))


def test_what_pandas_makes_of_other_than_ndarrays() -> None:
    """It takes an array for a list: no rows have no columns, and all numbers have 64 bits."""
    pd = pytest.importorskip("pandas")
    a = array()
    assert pd.DataFrame(np.asarray(a[:0])).shape == (0, 20)
    assert len(pd.DataFrame(a[:0])) == 0
    assert pd.Series(np.asarray(a[:0, 0])).dtype == a.dtype
    assert len(pd.Series(a[:0, 0])) == 0
    assert pd.array(np.asarray(a[:, 0])).dtype == "Float32"
    assert (pd.array(a[:, 0]) == VALUES[:, 0]).all()


@pytest.mark.parametrize("operate", [operator.and_, operator.or_, operator.xor])
def test_integers_on_the_left_of_a_bitwise_operator(operate: Callable[[Any, Any], Any]) -> None:
    """pandas asks whether the right side is an ndarray of integers, and otherwise makes booleans of the result."""
    pd = pytest.importorskip("pandas")
    bits = np.array([1, 2, 3, 4])
    a, series = array(bits, "{0:T(2)}"), pd.Series([5, 6, 7, 8])
    assert operate(series, a).dtype == bool
    assert operate(series, np.asarray(a)).equals(operate(series, bits))
    assert operate(a, series).equals(operate(bits, series))


def test_a_series_goes_into_a_layout() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(VALUES)
    a = sd.LayoutArray.from_numpy(frame, "{0,1:T(8,128)}")
    assert np.array_equal(a, VALUES)
    a[:, 2] = pd.Series(np.arange(30))
    assert np.array_equal(a[:, 2], np.arange(30))


# --- matplotlib -----------------------------------------------------------------------------------------------------

PICTURES: dict[str, Callable[[Any, Any], Any]] = {
    "imshow": lambda ax, x: ax.imshow(x),
    "matshow": lambda ax, x: ax.matshow(x[:7, ::2]),
    "pcolormesh": lambda ax, x: ax.pcolormesh(x),
    "contour": lambda ax, x: ax.contour(x),
    "lines": lambda ax, x: ax.plot(x),
    "a line": lambda ax, x: ax.plot(x[:, 0], x[:, 1]),
    "scatter": lambda ax, x: ax.scatter(x[:, 0], x[:, 1], c=x[:, 2], s=x[:, 3]),
    "hist": lambda ax, x: ax.hist(x[:, 3]),
    "bar": lambda ax, x: ax.bar(x[:, 1], x[:, 2]),
    "fill": lambda ax, x: ax.fill_between(x[:, 1], x[:, 2]),
    "errors": lambda ax, x: ax.errorbar(x[:, 1], x[:, 2], yerr=x[:, 3]),
    "boxes": lambda ax, x: ax.boxplot(x[:, :3]),
}


@pytest.fixture
def draw() -> Callable[[str, Any], np.ndarray]:
    """The pixels of a picture."""
    figures = pytest.importorskip("matplotlib.figure")
    agg = pytest.importorskip("matplotlib.backends.backend_agg")

    def pixels(name: str, x: Any) -> np.ndarray:
        figure = figures.Figure(figsize=(2, 2), dpi=50)
        PICTURES[name](figure.add_subplot(), x)
        canvas = agg.FigureCanvasAgg(figure)
        canvas.draw()
        return np.array(canvas.buffer_rgba())

    return pixels


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_those_of_an_ndarray(name: str, draw: Callable[[str, Any], np.ndarray]) -> None:
    assert np.array_equal(draw(name, array()), draw(name, VALUES))


@pytest.mark.parametrize("name", ["imshow", "lines"])
def test_bfloat16_is_drawn(name: str, draw: Callable[[str, Any], np.ndarray]) -> None:
    a = array(layout="{1,0:T(8,128)(2,1)}", element_type="bf16")
    assert np.array_equal(draw(name, a), draw(name, a.to_numpy()))
