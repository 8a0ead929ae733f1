"""Libraries that take arrays: each gives what it gives for an ndarray, or refuses. None gets wrong values in silence.

What is refused is said in docs/interop.md, with what to hand over instead.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests.checks import outcome

pytestmark = pytest.mark.partners

VALUES = np.arange(15, dtype=np.float32).reshape(3, 5) * 3 % 7

#: The same values in each way that memory can hold them.
ARRAYS: dict[str, Callable[[np.ndarray], sd.LayoutArray]] = {
    "row-major": lambda x: sd.LayoutArray.from_numpy(x, "{1,0}"),
    "read-only": lambda x: sd.LayoutArray(x.tobytes(), sd.LayoutArray.from_numpy(x, "{1,0}").xla_shape),
    "column-major": lambda x: sd.LayoutArray.from_numpy(x, "{0,1}"),
    "padded": lambda x: sd.LayoutArray.from_numpy(x, "{1,0:T(4,8)}", padding=77),
    "every other": lambda x: sd.LayoutArray.from_numpy(np.repeat(x, 2, 1), "{1,0}")[:, ::2],
    "backwards": lambda x: sd.LayoutArray.from_numpy(x[::-1], "{1,0}")[::-1],
    "tiled": lambda x: sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}", padding=77),
}
CONTIGUOUS = {"row-major", "read-only"}

#: What libraries say of an array that they do not take, in words of their own: docs/interop.md names those that
#: blame something else.
REFUSALS = [
    "LayoutArray",
    "to_numpy()",
    "not an array",
    "not a numpy array",
    "must be a numpy ndarray",
    "type not understood",
    "not a valid edge list",
    "only 0-dimensional arrays",
    "broadcast",
]

Door = Callable[[Any, Any, Path], Any]


def row_major(a: Any) -> Any:
    """The values as an array that nobody has to convert."""
    return a.to_numpy() if isinstance(a, sd.LayoutArray) else a


def in_memory(write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
    """What is read of a file that was written in memory."""
    file = io.BytesIO()
    write(file)
    file.seek(0)
    return read(file)


def netcdf(nc: Any, a: Any, path: Path) -> Any:
    with nc.Dataset(path / "x.nc", "w") as file:
        file.createDimension("row", a.shape[0])
        file.createDimension("column", a.shape[1])
        variable = file.createVariable("x", a.dtype, ("row", "column"))
        variable[:] = a
        return np.asarray(variable[:])


def netcdf_by_xarray(xr: Any, a: Any, path: Path) -> Any:
    pytest.importorskip("netCDF4")
    xr.Dataset({"x": (("row", "column"), a)}).to_netcdf(path / "x.nc", engine="netcdf4")
    with xr.open_dataset(path / "x.nc", engine="netcdf4") as file:
        return file["x"].values


def hdf5(h5py: Any, a: Any, path: Path, **options: Any) -> Any:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("x", data=a, **options)
        file.create_dataset("y", a.shape, a.dtype)[...] = a
        file.attrs["x"] = a
        assert np.array_equal(file["y"], file.attrs["x"])
        return file["x"][...]


def zarr_assigned(zarr: Any, a: Any, path: Path) -> Any:
    target = zarr.create_array(zarr.storage.MemoryStore(), shape=a.shape, dtype=a.dtype, chunks=(2, 2))
    target[:] = a
    return target[:]


def zarr_by_xarray(xr: Any, a: Any, path: Path) -> Any:
    pytest.importorskip("zarr")
    xr.Dataset({"x": (("row", "column"), a)}).to_zarr(path / "x.zarr", consolidated=False)
    with xr.open_zarr(path / "x.zarr", consolidated=False) as file:
        return file["x"].values


def joblib_file(joblib: Any, a: Any, path: Path, **options: Any) -> Any:
    joblib.dump({"a": a}, path / "x", **options)
    return joblib.load(path / "x")["a"]


#: Each with its library, and the arrays that it refuses; of others it gives what it gives of an ndarray.
DOORS: dict[str, tuple[str, Door, set[str]]] = {
    # Files.
    "netCDF4": ("netCDF4", netcdf, set()),
    "netCDF4 by xarray": ("xarray", netcdf_by_xarray, set()),
    "h5py": ("h5py", hdf5, set()),
    "h5py, compressed chunks": ("h5py", lambda m, a, p: hdf5(m, a, p, chunks=(2, 2), compression="gzip"), set()),
    "zarr, assigned": ("zarr", zarr_assigned, set()),
    "zarr, in one piece": ("zarr", lambda m, a, p: m.array(a)[:], set()),
    "zarr, saved": ("zarr", lambda m, a, p: (m.save(p / "x.zarr", a), m.load(p / "x.zarr"))[1], set()),
    "zarr by xarray": ("xarray", zarr_by_xarray, set()),
    "sound": ("scipy.io.wavfile", lambda m, a, p: in_memory(lambda f: m.write(f, 8000, a), m.read)[1], set()),
    "safetensors": ("safetensors.numpy", lambda m, a, p: m.load(m.save({"a": a}))["a"], set(ARRAYS) - CONTIGUOUS),
    "safetensors, converted": ("safetensors.numpy", lambda m, a, p: m.load(m.save({"a": row_major(a)}))["a"], set()),
    "matlab": ("scipy.io", lambda m, a, p: in_memory(lambda f: m.savemat(f, {"a": a}), m.loadmat)["a"], set()),
    "matrix market": ("scipy.io", lambda m, a, p: in_memory(lambda f: m.mmwrite(f, a), m.mmread), set()),
    "joblib": ("joblib", joblib_file, set()),
    "joblib, compressed": ("joblib", lambda m, a, p: joblib_file(m, a, p, compress=3), set()),
    "cloudpickle": ("cloudpickle", lambda m, a, p: pickle.loads(m.dumps(a)), set()),
    # Tables and tensors.
    "polars": ("polars", lambda m, a, p: m.DataFrame(a), set(ARRAYS)),
    "polars, as an ndarray": ("polars", lambda m, a, p: m.from_numpy(np.asarray(a)).to_numpy(), set()),
    "pyarrow, a column": ("pyarrow", lambda m, a, p: m.array(a[:, 1]).to_numpy(zero_copy_only=False), set()),
    "pyarrow, a table": ("pyarrow", lambda m, a, p: m.array(a), set(ARRAYS)),
    "pyarrow, a tensor": ("pyarrow", lambda m, a, p: m.Tensor.from_numpy(row_major(a)).to_numpy(), set()),
    "einops": ("einops", lambda m, a, p: m.rearrange(a, "a b -> b a"), set(ARRAYS)),
    "einops, as an ndarray": ("einops", lambda m, a, p: m.rearrange(np.asarray(a), "a b -> (b a)"), set()),
    "numexpr": ("numexpr", lambda m, a, p: m.evaluate("2 * a + b", {"a": a, "b": a[::-1]}), set()),
    "numexpr, written": ("numexpr", lambda m, a, p: m.evaluate("a", {"a": VALUES}, out=a), set(ARRAYS)),
    "awkward": ("awkward", lambda m, a, p: m.to_numpy(m.Array(a)), {"backwards", "tiled"}),
    "awkward, as an ndarray": ("awkward", lambda m, a, p: m.to_numpy(m.Array(np.asarray(a))), set()),
    # Graphs and symbols.
    "networkx": ("networkx", lambda m, a, p: m.to_numpy_array(m.from_numpy_array(a[:, :3])), set()),
    "networkx, a graph": ("networkx", lambda m, a, p: m.Graph(a[:, :3]), set(ARRAYS)),
    "networkx, as an ndarray": ("networkx", lambda m, a, p: m.to_numpy_array(m.Graph(np.asarray(a[:, :3]))), set()),
    "sympy": ("sympy", lambda m, a, p: np.array(m.Matrix(a), float), set()),
    "sympy, from the right": ("sympy", lambda m, a, p: a * m.Symbol("q"), set()),
    "sympy, from the left": ("sympy", lambda m, a, p: m.Symbol("q") * a, set(ARRAYS)),
    # Pictures.
    "OpenCV": ("cv2", lambda m, a, p: m.blur(a, (3, 3)), set(ARRAYS)),
    "OpenCV, written": ("cv2", lambda m, a, p: m.blur(VALUES, (3, 3), dst=a), set(ARRAYS)),
    "OpenCV, as an ndarray": ("cv2", lambda m, a, p: m.blur(np.asarray(a), (3, 3)), set()),
    "scikit-image": ("skimage.filters", lambda m, a, p: m.sobel(a), set()),
    "scikit-image, windows": ("skimage.util", lambda m, a, p: m.view_as_windows(a, (2, 2)), set(ARRAYS)),
    # Science.
    "sparse": ("scipy.sparse", lambda m, a, p: m.csr_array(a).toarray(), set()),
    "filters": ("scipy.ndimage", lambda m, a, p: m.uniform_filter(a, 3), set()),
    "transforms": ("scipy.fft", lambda m, a, p: m.fft2(a), set()),
    "decomposition": ("scipy.linalg", lambda m, a, p: m.svd(a)[1], set()),
    "products": ("scipy.linalg.blas", lambda m, a, p: m.sgemm(1.0, a, a, trans_b=True), set()),
    "operators": ("scipy.sparse.linalg", lambda m, a, p: m.aslinearoperator(a), set(ARRAYS)),
    "operators, as ndarrays": (
        "scipy.sparse.linalg",
        # OpenBLAS computes with what lies behind a short row, too, and may warn of it.
        np.errstate(invalid="ignore")(lambda m, a, p: m.aslinearoperator(np.asarray(a)).matvec(a[0])),
        set(),
    ),
    "convolution": ("scipy.signal", lambda m, a, p: m.convolve2d(a, a), set()),
    "peaks": ("scipy.signal", lambda m, a, p: m.find_peaks(VALUES[1], height=a[1])[0], set(ARRAYS)),
    "peaks, as ndarrays": ("scipy.signal", lambda m, a, p: m.find_peaks(a[1], height=np.asarray(a[1]))[0], set()),
    "statistics": ("scipy.stats", lambda m, a, p: m.skew(a, axis=1), set()),
    "scaling": ("sklearn.preprocessing", lambda m, a, p: m.StandardScaler().fit_transform(a), set()),
    "regression": ("sklearn.linear_model", lambda m, a, p: m.LinearRegression().fit(a, a[:, 0]).predict(a), set()),
    "neighbours": ("sklearn.neighbors", lambda m, a, p: m.NearestNeighbors(n_neighbors=2).fit(a).kneighbors(a), set()),
    "trees": ("sklearn.tree", lambda m, a, p: m.DecisionTreeRegressor().fit(a, a[:, 0]).predict(a), set()),
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> tuple[Callable[[Any, Path], Any], set[str]]:
    library, function, refused = DOORS[request.param]
    module = pytest.importorskip(library)
    return lambda a, path: function(module, a, path), refused


@pytest.mark.parametrize("kind", ARRAYS)
def test_values_are_right_or_refused(door: Any, kind: str, tmp_path: Path) -> None:
    function, refused = door
    a = ARRAYS[kind](VALUES)
    assert np.array_equal(a, VALUES)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    got, error = outcome(lambda: function(a, ours))
    assert np.array_equal(a, VALUES), "the array itself was changed"
    if kind in refused:
        assert error is not None
        assert any(words in str(error) for words in REFUSALS), error
    else:
        assert error is None, error
        np.testing.assert_array_equal(np.asarray(got), np.asarray(function(VALUES, theirs)))


@pytest.mark.parametrize("kind", ARRAYS)
def test_results_written_into_an_array_reach_its_buffer_or_are_refused(kind: str) -> None:
    """A converted copy is read-only: what SciPy would write to it cannot be lost."""
    ndimage = pytest.importorskip("scipy.ndimage")
    a = ARRAYS[kind](np.zeros_like(VALUES))
    _, error = outcome(lambda: ndimage.uniform_filter(VALUES, 3, output=a))
    if kind in {"read-only", "tiled"}:
        assert isinstance(error, (ValueError, RuntimeError))
        assert not np.any(a)
    else:
        assert error is None
        assert np.array_equal(a, ndimage.uniform_filter(VALUES, 3))


#: Functions of `scipy.ndimage` that look for an ndarray before they write to their target, and the target's dtype.
LOOKING: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "label": (lambda m, out: m.label(VALUES > 2, output=out)[0], "i4"),
    "watershed_ift": (lambda m, out: m.watershed_ift(VALUES.astype("u1"), VALUES.astype("i4"), output=out), "i4"),
    "binary_erosion": (lambda m, out: m.binary_erosion(VALUES < 6, np.ones((1, 2)), output=out), "?"),
    "binary_dilation": (lambda m, out: m.binary_dilation(VALUES > 5, output=out), "?"),
    "binary_fill_holes": (lambda m, out: m.binary_fill_holes(VALUES > 2, output=out), "?"),
    "morphological_gradient": (lambda m, out: m.morphological_gradient(VALUES, 3, output=out), "f4"),
    "morphological_laplace": (lambda m, out: m.morphological_laplace(VALUES, 3, output=out), "f4"),
    "distance_transform_edt": (lambda m, out: m.distance_transform_edt(VALUES > 2, distances=out), "f8"),
    "distance_transform_cdt": (lambda m, out: m.distance_transform_cdt(VALUES > 2, distances=out), "i4"),
}


@pytest.mark.parametrize("kind", ["row-major", "column-major", "tiled"])
@pytest.mark.parametrize("name", LOOKING)
def test_what_is_not_written_to_a_target_is_returned(name: str, kind: str) -> None:
    """SciPy leaves such targets as they were, and returns the values; docs/interop.md says so."""
    ndimage = pytest.importorskip("scipy.ndimage")
    function, dtype = LOOKING[name]
    expected = np.zeros(VALUES.shape, dtype)
    outcome(lambda: function(ndimage, expected))  # with an ndarray, some return nothing
    assert expected.any()
    a = ARRAYS[kind](np.zeros(VALUES.shape, dtype))
    got, error = outcome(lambda: function(ndimage, a))
    if np.any(a):
        np.testing.assert_array_equal(a, expected)
    elif error is None:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", ["row-major", "read-only", "tiled"])
@pytest.mark.parametrize("name", ["area_opening", "diameter_opening"])
def test_pictures_are_filtered_or_refused(name: str, kind: str) -> None:
    """scikit-image writes to ``image.copy().ravel()``, which is a view of an ndarray's copy but not of a tiled one."""
    function = getattr(pytest.importorskip("skimage.morphology"), name)
    x = np.random.default_rng(0).integers(0, 99, (9, 9), np.uint8)
    a, expected = ARRAYS[kind](x), function(x, 8)
    assert not np.array_equal(expected, x)
    got, error = outcome(lambda: function(a, 8))
    assert error is not None or np.array_equal(got, expected)
    assert np.array_equal(function(a.to_numpy(), 8), expected)


@pytest.mark.parametrize("kind", ARRAYS)
def test_elements_of_a_sparse_array(kind: str) -> None:
    """SciPy sets a flag of ``np.asarray(rows)`` that NumPy then refuses to set; `as_strided` has it."""
    sparse = pytest.importorskip("scipy.sparse").csr_array(VALUES)
    rows = ARRAYS[kind](np.array([[2, 0, 1]]))[0]
    got, error = outcome(lambda: sparse[rows, rows])
    assert np.array_equal(got, VALUES[[2, 0, 1], [2, 0, 1]]) if error is None else "WRITEABLE" in str(error)
    given = rows.as_strided() if rows.is_strided else np.asarray(rows)
    assert np.array_equal(sparse[given, given], VALUES[[2, 0, 1], [2, 0, 1]])


@pytest.mark.parametrize("kind", ARRAYS)
def test_opencv_draws_on_no_copy(kind: str) -> None:
    """An ndarray that it may not write to is refused, so that no line is drawn where nobody sees it."""
    cv2 = pytest.importorskip("cv2")
    a = ARRAYS[kind](np.zeros((12, 20), np.uint8))
    with pytest.raises(cv2.error, match="not a numpy array"):
        cv2.line(a, (0, 0), (9, 9), 255)
    expected = cv2.line(np.zeros((12, 20), np.uint8), (0, 0), (9, 9), 255)
    _, error = outcome(lambda: cv2.line(np.asarray(a), (0, 0), (9, 9), 255))
    assert np.array_equal(a, np.zeros_like(expected) if error is not None else expected)
    if kind != "read-only":
        a[...] = cv2.line(a.to_numpy(), (0, 0), (9, 9), 255)
        assert np.array_equal(a, expected)


@pytest.mark.parametrize("kind", ARRAYS)
def test_pictures(kind: str) -> None:
    image = pytest.importorskip("PIL.Image")
    iio = pytest.importorskip("imageio.v3")
    x = VALUES.astype(np.uint8)
    a = ARRAYS[kind](x)
    assert np.array_equal(image.fromarray(np.asarray(a)), x)
    got, error = outcome(lambda: image.fromarray(a))
    buffers = sys.version_info >= (3, 12)
    if kind == "tiled" or (kind in CONTIGUOUS and not buffers):
        assert isinstance(error, (AttributeError, TypeError))
    else:
        assert np.array_equal(got, x)
    assert np.array_equal(iio.imread(iio.imwrite("<bytes>", a, extension=".png")), x)


@pytest.mark.parametrize("element_type", ["bf16", "f8e4m3fn"])
def test_safetensors_has_types_that_numpy_lacks(element_type: str, tmp_path: Path) -> None:
    """The bytes are written as they are; of other layouts `to_numpy` converts them."""
    numpy = pytest.importorskip("safetensors.numpy")
    safetensors = pytest.importorskip("safetensors")
    row = sd.LayoutArray.from_numpy(VALUES, "{1,0}", element_type=element_type)
    tiled = row.to_layout("{1,0:T(2,4)}")
    numpy.save_file({"row": row, "tiled": tiled.to_numpy()}, tmp_path / "x")
    found = dict(safetensors.deserialize((tmp_path / "x").read_bytes()))
    assert {name: bytes(held["data"]) for name, held in found.items()} == dict.fromkeys(found, row.tobytes())
    assert sorted(found) == ["row", "tiled"]


def test_hdf5_reads_into_ndarrays_alone(tmp_path: Path) -> None:
    """`read_direct` refuses the array; assigned to it, what is read reaches the buffer of any layout."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = VALUES
        for kind in set(ARRAYS) - {"read-only"}:
            a = ARRAYS[kind](np.zeros_like(VALUES))
            with pytest.raises(TypeError, match="LayoutArray"):
                file["x"].read_direct(a)
            a[...] = file["x"]
            assert np.array_equal(a, VALUES)
        assert np.array_equal(sd.LayoutArray.from_numpy(file["x"], "{0,1:T(2,2)}"), VALUES)


def test_notebooks_show_text_and_a_table() -> None:
    display = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    shown, _ = display.format(ARRAYS["tiled"](VALUES))
    assert shown["text/plain"].startswith("LayoutArray([[0., 3., 6., 2., 5.]")
    assert "<table" in shown["text/html"]
