"""torch: memory shared if the layout is plain strides, values converted if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.layout.element_types import ELEMENT_TYPES

pytestmark = pytest.mark.partners

torch = pytest.importorskip("torch", reason="torch is not installed")

from strided.interop.torch import to_torch  # noqa: E402

#: The types that torch has, too.
SHARED = {
    "pred": "bool",
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
}
OTHERS = sorted({name for name, t in ELEMENT_TYPES.items() if t.dtype is not None} - set(SHARED))


def example(name: str, layout: str = "{0,1}") -> sd.LayoutArray:
    values = (np.arange(15).reshape(3, 5) % 2).astype(np.float32)
    return sd.LayoutArray.from_numpy(values, layout, element_type=name)


def bits_of(tensor: Any) -> bytes:
    """The bytes of a tensor's values, row-major."""
    plain: bytes = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    return plain


@pytest.mark.parametrize("name", SHARED)
def test_plain_layouts_share_memory(name: str) -> None:
    a = example(name)
    for tensor in (torch.from_dlpack(a), to_torch(a)):
        assert tensor.dtype == getattr(torch, SHARED[name])
        assert tensor.data_ptr() == a.buffer.ctypes.data
        assert tuple(tensor.shape) == (3, 5)
        assert tensor.stride() == (1, 3)
        assert bits_of(tensor) == a.to_numpy().tobytes()


def test_writes_are_seen_on_both_sides() -> None:
    a = example("f32")
    tensor = torch.from_dlpack(a)
    a[1, 2] = 42
    assert tensor[1, 2].item() == 42
    tensor[2, 4] = -1
    assert a[2, 4] == -1
    torch.from_dlpack(a[::2, 1:])[0, 0] = 9
    assert a[0, 1] == 9


@pytest.mark.parametrize("name", SHARED)
def test_tiled_layouts_are_converted(name: str) -> None:
    a = example(name, "{0,1:T(2,2)}")
    with pytest.raises(BufferError, match=r"is not plain strides; to_numpy\(\) converts it"):
        torch.from_dlpack(a)
    tensor = to_torch(a)
    assert tensor.dtype == getattr(torch, SHARED[name])
    assert bits_of(tensor) == a.to_numpy().tobytes()
    with pytest.raises(BufferError, match="not plain strides"):
        to_torch(a, copy=False)


@pytest.mark.parametrize("name", OTHERS)
def test_types_that_torch_lacks(name: str) -> None:
    with pytest.raises(sd.UnsupportedError, match="torch has no"):
        to_torch(example(name))
    with pytest.raises(BufferError, match=r"DLPack has no type|[Uu]nsupported"):  # the latter torch says
        torch.from_dlpack(example(name))


def test_memory_that_torch_must_not_write_to_is_copied() -> None:
    a = sd.LayoutArray(bytes(12), "u8[3,4]")
    tensor = to_torch(a)
    tensor[0, 0] = 1
    assert a[0, 0] == 0
    with pytest.raises(BufferError, match="read-only"):
        to_torch(a, copy=False)


def test_reversed_views_are_copied() -> None:
    a = example("s32")
    assert to_torch(a[::-1]).tolist() == a[::-1].tolist()
    with pytest.raises(BufferError, match="backwards"):
        to_torch(a[::-1], copy=False)


@pytest.mark.parametrize("take", [torch.from_dlpack, torch.as_tensor, torch.tensor], ids=lambda f: f.__name__)
def test_torch_itself_refuses_them(take: Any) -> None:
    """Negative strides in a DLPack capsule would end the process."""
    with pytest.raises(BufferError, match="runs backwards"):
        take(example("s32")[::-1])


class Rows(torch.utils.data.Dataset[Any]):
    """The data set of docs/interop.md."""

    def __init__(self, a: sd.LayoutArray) -> None:
        self.a = a

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, k: int) -> Any:
        return to_torch(self.a[k])


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1:T(2,2)}"])
@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_a_data_loader(name: str, layout: str) -> None:
    """It asks for rows one by one, which torch does not know; a data set hands it tensors."""
    a = example(name, layout)
    with pytest.raises(TypeError, match="LayoutArray"):
        next(iter(torch.utils.data.DataLoader(a, batch_size=2)))
    batches = list(torch.utils.data.DataLoader(Rows(a), batch_size=2))
    assert [len(batch) for batch in batches] == [2, 1]
    assert torch.cat(batches).tolist() == a.to_numpy().astype(float).tolist()


@pytest.mark.slow  # the worker imports torch
def test_a_data_loader_with_workers(tmp_path: Path) -> None:
    """Each worker maps the file anew."""
    a = example("bf16", "{1,0:T(2,4)(2,1)}")
    a.buffer.tofile(tmp_path / "x.bin")
    mapped = sd.open(tmp_path / "x.bin", a.xla_shape)
    loader = torch.utils.data.DataLoader(Rows(mapped), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert torch.cat(list(loader)).tolist() == a.to_numpy().astype(float).tolist()


def test_copies() -> None:
    a = example("bf16")
    tensor = to_torch(a, copy=True)
    assert tensor.data_ptr() != a.buffer.ctypes.data
    tensor[:] = 0
    assert a[0, 1] == 1


@pytest.mark.parametrize("shape", ["f32[]", "f32[0,3]", "bf16[1,1,2]{0,2,1}"])
def test_every_rank(shape: str) -> None:
    a = sd.LayoutArray(bytearray(sd.parse(shape).byte_size), shape)
    assert tuple(to_torch(a).shape) == a.shape


def test_other_doors() -> None:
    a = example("f32", "{0,1:T(2,2)}")
    assert torch.from_numpy(a.to_numpy()).tolist() == a.tolist()
    with pytest.raises(BufferError, match="not plain strides"):
        torch.as_tensor(a)
    assert torch.as_tensor(example("f32")).tolist() == a.tolist()
    assert torch.tensor(np.asarray(a)).tolist() == a.tolist()


def test_tensors_come_in() -> None:
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    a = sd.LayoutArray(tensor.numpy(), "f32[3,4]")
    tensor[1, 1] = 77
    assert a[1, 1] == 77
    assert sd.LayoutArray.from_numpy(tensor, "{0,1:T(2,2)}").tolist() == tensor.tolist()


@pytest.mark.filterwarnings("error::UserWarning")
def test_operators_beside_a_tensor_do_not_warn() -> None:
    """torch got the read-only copy of ``np.asarray``, and warned that writing to it is undefined."""
    a, tensor = example("f32", "{1,0:T(2,2)(2,1)}"), torch.ones(3)
    assert not a.is_strided
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else it warns once in a process
    try:
        assert (a[:, :3] == tensor).tolist() == (a.to_numpy()[:, :3] == 1).tolist()
    finally:
        torch.set_warn_always(always)


def test_only_arrays_in_a_layout() -> None:
    with pytest.raises(TypeError, match=r"not ndarray; torch\.as_tensor takes the others"):
        to_torch(np.zeros(3))
