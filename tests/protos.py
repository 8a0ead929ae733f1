"""XLA's protobuf messages, built and read by the protobuf library from XLA's own declarations."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests import paths


@cache
def declarations() -> descriptor_pb2.FileDescriptorSet:
    """The files that declare the messages."""
    data = gzip.decompress((paths.DATA / "xla" / "hlo.protoset.gz").read_bytes())
    return descriptor_pb2.FileDescriptorSet.FromString(data)


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in declarations().file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def message_class(name: str) -> Any:
    """The class of a message: ``message_class("OpMetadata.ProfileInfo")``."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"xla.{name}"))


def merged(message: str, /, *more: bytes, **fields: Any) -> Any:
    """A message with these fields (messages inside it are dicts), and those in some bytes."""
    made = message_class(message)(**fields)
    for data in more:
        made.MergeFromString(data)
    return made


def serialized(message: str, /, **fields: Any) -> bytes:
    """The bytes of a message with these fields; messages inside it are dicts."""
    return bytes(merged(message, **fields).SerializeToString())


def parsed(message: str, data: bytes) -> Any:
    """The message in some bytes."""
    return message_class(message).FromString(data)
