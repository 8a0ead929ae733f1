"""The Python array API standard: `with_namespace` gives an array with a namespace; a LayoutArray alone has none."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.interop.array_api import NamespacedArray, with_namespace
from tests import namespace

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def array(layout: str = "{1,0,2:T(2,2)}") -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(VALUES, layout)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{1,0,2:T(2,2)}"])
def test_the_namespace_is_numpy(layout: str) -> None:
    a = array(layout)
    x = with_namespace(a[1:, ::2])
    assert not hasattr(a, "__array_namespace__")
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2022.12") is np
    with pytest.raises(ValueError, match="1066"):
        x.__array_namespace__(api_version="1066.12")
    assert x.buffer is a.buffer
    assert np.array_equal(x, VALUES[1:, ::2])
    x[0, 0, 0] = -1
    assert a[1, 0, 0] == -1


def test_views_and_pickles_keep_the_namespace() -> None:
    x = with_namespace(array())
    for view in (
        x[0],
        x.T,
        x.mT,
        np.permute_dims(x, (2, 0, 1)),
        np.expand_dims(x, axis=0),
        pickle.loads(pickle.dumps(x)),
    ):
        assert type(view) is NamespacedArray
    assert np.sum(x, axis=0).__array_namespace__() is np


def test_what_the_standard_asks_of_an_array() -> None:
    """Attributes and methods of the array object, beside operators."""
    x = with_namespace(array())
    assert (x.device, x.dtype, x.ndim, x.shape, x.size) == ("cpu", np.float32, 3, (2, 3, 4), 24)
    assert np.array_equal(x.mT, VALUES.swapaxes(1, 2))
    assert np.array_equal(x[0].T, VALUES[0].T)
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="device"):
        x.to_device("gpu")
    assert x.__dlpack_device__() == (1, 0)
    assert "dltensor" in repr(x.__dlpack__(copy=True))
    expected = {name for name in dir(np.ndarray) if name.startswith("__") and callable(getattr(np.ndarray, name))}
    missing = {name for name in expected if not hasattr(x, name)}
    assert missing <= {"__array_finalize__", "__array_wrap__", "__setstate__"}


#: Functions of the standard that are given no array, or only one to convert.
WITHOUT_ARRAYS = {
    *("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"),
    *("__array_namespace_info__", "broadcast_shapes", "fftfreq", "finfo", "iinfo", "isdtype", "rfftfreq"),
}


@pytest.mark.partners
def test_every_function_of_the_standard_takes_the_array() -> None:
    """NumPy asks the array: the tests of its namespace put each of these to arrays in a layout."""
    strict = pytest.importorskip("array_api_strict")
    tried = {*namespace.functions().values(), *namespace.ufuncs().values()}
    names = 0
    for standard, numpy in ((strict, np), (strict.linalg, np.linalg), (strict.fft, np.fft)):
        for name in standard.__all__:
            function = getattr(numpy, name, None)  # older versions of NumPy lack the newest names
            if callable(function) and not isinstance(function, type) and name not in WITHOUT_ARRAYS:
                assert function in tried, name
                names += 1
    assert names > 150


@pytest.mark.partners
def test_array_api_compat() -> None:
    compat = pytest.importorskip("array_api_compat")
    a = array()
    x = with_namespace(a)
    assert not compat.is_array_api_obj(a)
    with pytest.raises(TypeError, match="LayoutArray is not a supported array type"):
        compat.array_namespace(a)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x) is np
    assert compat.is_numpy_namespace(compat.array_namespace(x, 2.0, None))
    assert not compat.is_numpy_array(x)
    assert (compat.device(x), compat.size(x), compat.is_lazy_array(x)) == ("cpu", 24, False)
    assert compat.to_device(x, "cpu") is x
    # Its own namespace for ndarrays is another one, unless asked for NumPy's.
    with pytest.raises(TypeError, match="Multiple namespaces"):
        compat.array_namespace(x, VALUES)
    assert compat.array_namespace(x, VALUES, use_compat=False) is np


@pytest.mark.partners
def test_einops() -> None:
    """What only moves axes stays a view."""
    einops = pytest.importorskip("einops.array_api")
    x = with_namespace(array())
    turned = einops.rearrange(x, "a b c -> c a b")
    assert np.shares_memory(turned, x)
    assert np.array_equal(turned, VALUES.transpose(2, 0, 1))
    assert np.array_equal(einops.rearrange(x, "a b (c d) -> (a d) (b c)", d=2),
                          VALUES.reshape(2, 3, 2, 2).transpose(0, 3, 1, 2).reshape(4, 6))  # fmt: skip
    assert np.array_equal(einops.reduce(x, "a b c -> b", "sum"), VALUES.sum((0, 2)))
    assert np.array_equal(einops.repeat(x, "a b c -> a b c 2"), VALUES[..., None].repeat(2, -1))


_ASKED_FOR_A_NAMESPACE = """
import numpy as np, scipy.cluster.vq, scipy.ndimage, scipy.special, scipy.stats, sklearn, sklearn.preprocessing
import strided as sd
from strided.interop.array_api import with_namespace

x = np.arange(15, dtype=np.float64).reshape(3, 5) ** 1.5
a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}")
for function in (
    lambda x: scipy.special.logsumexp(x, axis=0),
    lambda x: scipy.stats.skew(x, axis=0),
    lambda x: scipy.ndimage.uniform_filter(x, 3),
    lambda x: scipy.cluster.vq.whiten(x),
):
    np.testing.assert_array_equal(function(a), function(x))
    np.testing.assert_array_equal(function(with_namespace(a)), function(x))
together = lambda a: scipy.stats.ttest_ind(a, x[:2]).statistic
np.testing.assert_array_equal(together(a), together(x))

scaled = lambda a: sklearn.preprocessing.StandardScaler().fit_transform(a)
np.testing.assert_array_equal(scaled(a), scaled(x))
with sklearn.config_context(array_api_dispatch=True):
    np.testing.assert_array_equal(scaled(with_namespace(a)), scaled(x))
"""


@pytest.mark.slow  # an interpreter of its own
@pytest.mark.partners
def test_scipy_and_sklearn_where_they_follow_the_standard() -> None:
    """SciPy converts what names no namespace, and takes it beside ndarrays."""
    pytest.importorskip("scipy")
    pytest.importorskip("sklearn")
    environment: dict[str, Any] = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _ASKED_FOR_A_NAMESPACE]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
