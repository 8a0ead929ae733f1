"""Possessive groups in the patterns of the package: none on which versions of Python differ.

Where an attempt of a possessive group fails after its first step, Python before 3.11.5 goes on from where that attempt
had come to, and later ones from where it began. A group is the same everywhere if its attempts fail at their first step
or if its last choice is ``(?!)``, which fails and begins where the attempt did.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import BuiltinMethodType
from typing import Any

import pytest

import strided
from strided.dumps.protobuf import textproto

_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


def is_single(items: Any) -> bool:
    return len(items) == 1 and items[0][0] in _SINGLE


def cannot_fail(code: Any, argument: Any) -> bool:
    return code is op.POSSESSIVE_REPEAT and argument[0] == 0 and is_single(argument[2])


def never_matches(items: Any) -> bool:
    """Whether this is ``(?!)``, which has a code of its own from Python 3.12 on."""
    ((code, argument),) = items if len(items) == 1 else [(None, None)]
    return code is op.FAILURE or (code is op.ASSERT_NOT and not list(argument[1]))


def fails_at_first(items: Any) -> bool:
    """Whether an attempt to match these fails where it began, if it does."""
    codes = [code for code, _ in items]
    rest = next((k for k, code in enumerate(codes) if code not in _SINGLE), len(codes))  # one comparison, as it were
    if rest == 0 and codes:
        code, argument = items[0]
        if code is op.SUBPATTERN and len(codes) == 1:
            return fails_at_first(argument[3])
        if code is op.BRANCH:
            begins_anew = never_matches(argument[1][-1])
            if not begins_anew and not (len(codes) == 1 and all(map(fails_at_first, argument[1]))):
                return False
            rest = 1
        elif code is op.POSSESSIVE_REPEAT and is_single(argument[2]):
            rest = 1
    return all(cannot_fail(*item) for item in items[rest:])


def possessive_groups(items: Any) -> Iterator[Any]:
    """What possessive groups repeat, those within others too; repeated characters are right in all versions."""
    for code, argument in items:
        if code is op.POSSESSIVE_REPEAT and not is_single(argument[2]):
            yield argument[2]
        if code in _REPEATS:
            yield from possessive_groups(argument[2])
        elif code is op.BRANCH:
            for branch in argument[1]:
                yield from possessive_groups(branch)
        elif code is op.SUBPATTERN:
            yield from possessive_groups(argument[3])
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from possessive_groups(argument[1])
        elif code is op.ATOMIC_GROUP:
            yield from possessive_groups(argument)


def groups_of(pattern: re.Pattern[Any]) -> list[Any]:
    return list(possessive_groups(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)))


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, BuiltinMethodType):
        value = value.__self__
    if isinstance(value, re.Pattern):
        yield value
    elif type(value) in (list, tuple, dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(part)


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(strided.__path__, "strided."):
        if not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:  # a partner that is not installed
                assert not (error.name or "").startswith("strided")  # noqa: PT017


def test_python_of_any_version_matches_our_patterns_alike():
    # Examples of the pages that print a value leave it in __builtins__: it may hold itself.
    values = [value for module in modules() for name, value in vars(module).items() if name != "__builtins__"]
    patterns = {pattern for value in values for pattern in patterns_in(value)}
    patterns.update(textproto._run_patterns("name"))
    groups = [(pattern, group) for pattern in patterns for group in groups_of(pattern)]
    assert len(groups) > 50
    assert {pattern.pattern for pattern, group in groups if not fails_at_first(group)} == set()


@pytest.mark.parametrize(
    ("pattern", "alike"),
    [
        (r"(?:[^x]|x(?!y))*+", False),
        (r"(?:[^x]|x(?!y)|(?!))*+", True),
        (r"(?:a[bc]*+d)*+", False),
        (r"(?:ab[cd]*+)*+", True),
        (r"(?:[ab]++|\\.)*+", True),
        (r"(?:ab|a[cd]*+b)?+", False),
        (r"x(?:(?:ab|a[cd]*+b|(?!))c)*+", False),
        (r"x(?:(?:ab|a[cd]*+b|(?!))[cd]*+)*+", True),
        (r"(?:(?<!a)b)++", False),
        (r"(?:(?=(?:a*+b)*+)c*+d|(?!))?+", False),
        (r"(?:a?b)*+", False),
        (r"[ab]*+c++\d?+", None),
    ],
)
def test_the_rule_sees_what_versions_differ_in(pattern, alike):
    groups = groups_of(re.compile(pattern))
    assert (all(map(fails_at_first, groups)) if groups else None) is alike
