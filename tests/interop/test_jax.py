"""JAX: its buffers wrapped in place, values handed over, layouts both ways."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.layout.element_types import element_type

pytestmark = [pytest.mark.partners, pytest.mark.jax]

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy
pytest.importorskip("jax.experimental.layout", reason="this JAX names no layouts", exc_type=ImportError)
from jax.experimental.layout import Format  # noqa: E402
from jax.experimental.layout import Layout as JaxLayout  # noqa: E402
from jax.sharding import SingleDeviceSharding  # noqa: E402

from strided.interop.jax import from_jax, layout_from_jax, layout_to_jax, to_jax  # noqa: E402

WHOLE = ["bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
WHOLE += ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu", "float8_e3m4"]
PACKED = ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"]
NAMES = [name for name in WHOLE + PACKED if hasattr(jnp, name)]


def example(name: str, shape: tuple[int, ...] = (3, 5), order: tuple[int, ...] | None = None) -> Any:
    """A JAX array of small values, its dimensions in an order from major to minor."""
    values = jnp.asarray(np.arange(np.prod(shape)).reshape(shape) % 2, jnp.float32).astype(getattr(jnp, name))
    return values if order is None else ordered(values, order)


def ordered(values: Any, order: tuple[int, ...], **options: Any) -> Any:
    layout = JaxLayout(order, **options)
    return jax.device_put(values, Format(layout, SingleDeviceSharding(jax.devices()[0])))


def same_bits(left: Any, right: Any) -> bool:
    left, right = np.asarray(left), np.asarray(right)
    return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["rows", "columns"])
@pytest.mark.parametrize("name", NAMES)
def test_a_buffer_says_what_jax_says(name: str, order: tuple[int, ...]) -> None:
    array = example(name, order=order)
    a = from_jax(array)
    assert same_bits(a, array)
    assert a.layout.minor_to_major == order[::-1]
    assert same_bits(a[1:, ::2], np.asarray(array)[1:, ::2])
    assert a.buffer.size == (15 * element_type(a.element_type).bits + 7) // 8 if name in PACKED else 15 * a.itemsize


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "bool_", "float4_e2m1fn"])
def test_the_memory_is_jaxs_own(name: str) -> None:
    array = example(name, order=(1, 0))
    a = from_jax(array)
    assert a.buffer.ctypes.data == array.unsafe_buffer_pointer()
    assert not a.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        a[0, 0] = 1


def test_packed_integers_are_copied_unless_asked() -> None:
    array = example("int4")
    assert from_jax(array).buffer.ctypes.data != array.unsafe_buffer_pointer()
    wrapped = from_jax(array, copy=False)
    assert wrapped.buffer.ctypes.data == array.unsafe_buffer_pointer()
    assert same_bits(wrapped, array)
    held = weakref.ref(array)
    values = np.asarray(array)
    del array
    gc.collect()
    assert held() is not None
    assert same_bits(wrapped, values)


def test_a_copy_is_one() -> None:
    array = example("float32")
    a = from_jax(array, copy=True)
    assert a.buffer.ctypes.data != array.unsafe_buffer_pointer()
    assert not a.flags.writeable
    assert same_bits(a, array)


def test_the_memory_outlives_the_array_and_its_deletion() -> None:
    array = example("float32", (64, 65))
    values = np.array(array)
    a = from_jax(array)
    part = a[3:, ::2]
    array.delete()
    del array, a
    gc.collect()
    others = [jnp.full((64, 65), 7.0) for _ in range(20)]
    assert same_bits(part, values[3:, ::2])
    assert len(others) == 20


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_donation_leaves_the_wrapped_memory_alone() -> None:
    array = example("float32", (64, 65))
    values = np.array(array)
    a = from_jax(array)
    result = jax.jit(lambda x: x * 100, donate_argnums=0)(array).block_until_ready()
    assert result.shape == (64, 65)
    assert same_bits(a, values)


@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (7,), (2, 3, 4)])
def test_every_rank(shape: tuple[int, ...]) -> None:
    for name in ("float32", "int4"):
        array = jnp.ones(shape, getattr(jnp, name))
        assert same_bits(from_jax(array), array)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"jax\.Array is wanted, not ndarray"):
        from_jax(np.zeros(3))
    gone = jnp.arange(3) + 1
    gone.delete()
    with pytest.raises(sd.UnsupportedError, match="deleted"):
        from_jax(gone)
    with pytest.raises(sd.UnsupportedError, match="key_data"):
        from_jax(jax.random.key(0))
    with pytest.raises(sd.UnsupportedError, match="inside a JAX transformation"):
        jax.jit(lambda x: from_jax(x) and x)(jnp.ones(3))


def test_tiles_on_the_cpu_are_refused() -> None:
    try:
        tiled = ordered(jnp.arange(12.0).reshape(3, 4), (0, 1), tiling=((2, 2),))
    except jax.errors.JaxRuntimeError:
        pytest.skip("this jaxlib makes no such array itself")
    with pytest.raises(sd.UnsupportedError, match="does not carry out the tiles"):
        from_jax(tiled)


SEVERAL = """
import jax, jax.numpy as jnp, numpy as np, strided as sd
from strided.interop.jax import from_jax
mesh = jax.sharding.Mesh(np.array(jax.devices()), "x")
spread = jax.device_put(jnp.arange(8), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
try:
    from_jax(spread)
except sd.UnsupportedError as error:
    print(error)
for shard in spread.addressable_shards:
    print(from_jax(shard.data).tolist())
"""


def test_many_devices_are_refused_and_their_shards_taken() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, "-c", SEVERAL], env=os.environ | flags, capture_output=True, text=True, check=True
    )
    refusal, *shards = ran.stdout.splitlines()
    assert "lies on 2 devices; wrap each" in refusal
    assert shards == ["[0, 1, 2, 3]", "[4, 5, 6, 7]"]


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(2,2)}", "{0,1:T(2,128)(2,1)}"])
@pytest.mark.parametrize("name", NAMES)
def test_values_go_to_jax(name: str, layout: str) -> None:
    values = np.asarray(example(name))
    a = sd.LayoutArray.from_numpy(values, layout)
    assert same_bits(to_jax(a), values)
    assert same_bits(jnp.asarray(a), values)
    assert same_bits(to_jax(a[1:, ::-2]), values[1:, ::-2])


def test_to_jax_shares_nothing_that_changes() -> None:
    a = sd.LayoutArray.from_numpy(np.arange(4096, dtype=np.float32))
    array = to_jax(a)
    a[:] = 0
    assert int(array[4095]) == 4095


def test_to_jax_changes_no_type() -> None:
    for dtype in ("f8", "i8", "u8", "c16"):
        with pytest.raises(sd.UnsupportedError, match="jax_enable_x64"):
            to_jax(sd.LayoutArray.from_numpy(np.zeros(3, dtype)))
    for name in ("s1", "u1"):
        with pytest.raises(sd.UnsupportedError, match="booleans"):
            to_jax(sd.LayoutArray(bytes(3), f"{name}[3]"))
    with pytest.raises(sd.UnsupportedError, match="float6_e3m2fn"):
        to_jax(sd.LayoutArray(bytes(3), "f6e3m2fn[3]"))


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(2,2)}"])
def test_jax_asks_for_the_values(layout: str) -> None:
    """`jax.numpy` takes the array, also while it traces; the type is the one that JAX makes of an ndarray's."""
    for dtype in ("float32", "int32", "bfloat16"):
        values = jnp.arange(15).reshape(3, 5).astype(dtype)
        a = sd.LayoutArray.from_numpy(np.asarray(values), layout)
        for function in (jnp.asarray, jnp.array, lambda x: jnp.stack([x, x]), lambda x: jnp.concatenate([x, x], 1)):
            assert same_bits(function(a), function(values))
        assert same_bits(jax.jit(lambda x, a=a: x * a)(values), values * values)
        assert same_bits(jax.jit(lambda a=a: jnp.asarray(a).sum(0))(), values.sum(0))
        assert same_bits(jnp.zeros((3, 5), values.dtype).at[...].set(a), values)
    wide = sd.LayoutArray.from_numpy(np.arange(15.0).reshape(3, 5), layout)
    assert jnp.asarray(wide).dtype == jnp.float32


def test_what_jax_asks_for_shares_nothing() -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((64, 64), np.float32), "{1,0}")
    array = jnp.asarray(a)
    a[...] = 1
    assert not array.any()


@pytest.mark.parametrize("element_type", ["u1", "s1", "f6e2m3fn"])
def test_types_that_jax_would_take_for_others_are_refused(element_type: str) -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((2, 3), np.float32), element_type=element_type)
    with pytest.raises(sd.UnsupportedError, match="astype"):
        jnp.asarray(a)


def test_arguments_of_compiled_functions_are_converted_by_hand() -> None:
    """JAX asks no argument for its values, and says so; `to_jax` gives them."""
    a = sd.LayoutArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1:T(2,2)}")
    for function in (jax.jit(lambda x: 2 * x), jax.grad(lambda x: (x * x).sum()), jax.device_put):
        with pytest.raises((TypeError, ValueError), match=r"explicitly convert|not a valid JAX type"):
            function(a)
        assert np.array_equal(function(to_jax(a)), function(jnp.asarray(a.to_numpy())))
    shape = jax.eval_shape(lambda x: x.T, jax.ShapeDtypeStruct(a.shape, a.dtype))
    assert shape.shape == (3, 2)


@pytest.mark.parametrize(
    "text", ["{}", "{0}", "{1,0}", "{0,1}", "{0,2,1:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{1,0:T(8,128)(8,1)E(4)}"]
)
def test_layouts_go_round(text: str) -> None:
    layout = sd.parse(text)
    there = layout_to_jax(layout)
    assert tuple(there.major_to_minor) == layout.minor_to_major[::-1]
    assert layout_from_jax(there) == layout
    assert layout_to_jax(layout_from_jax(there)) == there


def test_layouts_are_the_ones_that_xla_makes_of_them() -> None:
    for text in ("{1,0}", "{0,1:T(8,128)}", "{1,0:T(8,128)(2,1)}"):
        assert str(layout_to_jax(sd.parse(text))._to_xla_layout(np.dtype(np.float32))) == text


def test_layouts_of_formats() -> None:
    array = ordered(jnp.zeros((3, 4)), (1, 0))
    assert layout_from_jax(array.format) == sd.Layout((0, 1))
    layout = layout_to_jax(sd.Layout((0, 1)))
    moved = jax.device_put(jnp.zeros((3, 4)), Format(layout, array.sharding))
    assert moved.format.layout == layout
    assert layout_from_jax(JaxLayout((0, 1))) == sd.Layout((1, 0))
    assert layout_from_jax(JaxLayout((0, 1), tiling=()), "int4") == sd.Layout((1, 0), element_size_in_bits=4)
    assert layout_from_jax(JaxLayout((0, 1), tiling=()), np.int8) == sd.Layout((1, 0))


@pytest.mark.parametrize("text", ["{1,0:S(1)}", "{1,0:L(128)}", "{1,0:SC(0:2)}", "{1,0:M(8)}"])
def test_what_jaxs_layouts_lack_is_refused(text: str) -> None:
    with pytest.raises(sd.UnsupportedError, match="JAX's layouts have no"):
        layout_to_jax(sd.parse(text))


def test_unknown_layouts_are_refused() -> None:
    for layout in (None, JaxLayout.AUTO):
        with pytest.raises(sd.UnsupportedError, match="is no concrete layout"):
            layout_from_jax(layout)


def test_what_is_no_array_or_no_layout_is_named() -> None:
    assert layout_to_jax("{0,1:T(8,128)}") == layout_to_jax(sd.parse_layout("{0,1:T(8,128)}"))
    for given in (np.arange(3), "f32[3]", jnp.arange(3)):
        with pytest.raises(TypeError, match="a LayoutArray is wanted"):
            to_jax(given)
    with pytest.raises(TypeError, match="a Layout or its text is wanted"):
        layout_to_jax((1, 0))
    with pytest.raises(sd.NotationError, match="expected '}' at the end of the layout, found the end"):
        layout_to_jax("{1,0")


def test_values_in_another_byte_order_are_refused() -> None:
    a = sd.LayoutArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1}").view(">f4")
    with pytest.raises(sd.UnsupportedError, match="JAX has no >f4"):
        to_jax(a)
