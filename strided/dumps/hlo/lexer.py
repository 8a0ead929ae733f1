"""The lexical rules of HLO text: brackets, strings, comments, attribute lists.

::

    attributes = { "," name "=" value }
    value      = everything up to a comma outside brackets, strings and comments
    list       = "{" [ item { "," item } ] "}"

All functions work on positions in a text, in linear time and without recursion, so that brackets may nest as deep as
the text is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from strided.dumps.hlo.quoting import unquote

#: A terminated string.
STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
#: A string; an unterminated one (or a comment) takes the rest of the text, so that its end is searched for only once.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
#: A comment; ``//`` after a colon is none, as in ``gs://bucket``.
COMMENT = r"/\*.*?(?:\*/|\Z)|(?<!:)//[^\n]*+"

#: Single quotes (of mesh axes) count only if they close on their line without a bracket: an apostrophe in unquoted
#: text must not hide what follows.
_OPAQUE = rf"{_STRING}|{COMMENT}|'[^'\n(){{}}\[\]]*+'"
_TOKEN = re.compile(rf"{_OPAQUE}|[(){{}}\[\],]", re.DOTALL)
_OPAQUE_OR_BRACKET = re.compile(rf"{_OPAQUE}|[(){{}}\[\]]", re.DOTALL)
_COMMENT_OR_STRING = re.compile(f"{_STRING}|{COMMENT}", re.DOTALL)
#: The end of a word before a comment, and the beginning of the next word, perhaps after further comments.
_WORD_END, _WORD_START = re.compile(r"[\w.\-]"), re.compile(rf"(?:{COMMENT}|(?!))*+[\w%]", re.DOTALL)
#: Blanks and comments between tokens. Here and below, the last alternative of a possessive group is ``(?!)``, which
#: never matches: if another fails midway, Python before 3.11.5 continues from there, not from where it began.
BLANKS = rf"(?:\s++|{COMMENT}|(?!))*+"
_SPACE = re.compile(BLANKS, re.DOTALL)
CLOSER = {"(": ")", "{": "}", "[": "]"}


def brackets(depth: int, string: str = STRING, without: str = "", opening: str = "{") -> str:
    """A pattern of brackets around words, strings and other brackets nested up to `depth`, `without` some characters.

    >>> bool(re.fullmatch(brackets(2), '{a="}", b=[{}]}')), bool(re.fullmatch(brackets(1), "{[{}]}"))
    (True, False)
    """
    plain = rf"""[^(){{}}\[\]"'/{without}]*+"""
    inner = [string, *(brackets(depth - 1, string, without, each) for each in "{[" if depth)]
    return rf"\{opening}{plain}(?:(?:{'|'.join(inner)}|(?!)){plain})*+\{CLOSER[opening]}"


#: Most attribute values have no comments and nest little, so that a regular expression matches them.
_WORD = rf"{STRING}|[\w%.\-:>]++"
_SIMPLE_VALUE = rf"{_WORD}|{brackets(4)}"
_WORD_ALONE = re.compile(_WORD, re.DOTALL)
_ATTRIBUTE = re.compile(rf"{BLANKS},{BLANKS}([A-Za-z_][\w.\-]*+)\s*+={BLANKS}(?:({_SIMPLE_VALUE})(?=,|\Z))?", re.DOTALL)

#: A word in a value; and what joins another list to the list in square brackets before it.
_VALUE_WORD = re.compile(rf"{STRING}|'[^'\n]*+'|(?:(?!/[/*])[^\s,=(){{}}\[\]\"]|(?!))++(?![({{])", re.DOTALL)
_LIST_BEHIND_LIST = re.compile(rf"(?=\{{)|{BLANKS}(?:<={BLANKS}(?=\[)|T{BLANKS}(?=\())", re.DOTALL)

_FIELD_HEAD = re.compile(r'[\s,]*+([^\s,=(){}\[\]"]++)\s*+=\s*+')
_STRING_ALONE = re.compile(STRING, re.DOTALL)
_FIELD_VALUE = re.compile(rf'{STRING}|[^\s,(){{}}\[\]"]++', re.DOTALL)

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def closing(text: str, opening: int) -> int:
    """The position after the bracket that closes the one at `opening`, or -1 if there is none or brackets mismatch.

    Strings and comments are skipped.

    >>> closing('({")"})=', 0)
    7
    """
    expected = [CLOSER[text[opening]]]
    for token in _OPAQUE_OR_BRACKET.finditer(text, opening + 1):
        first = text[token.start()]
        if first in CLOSER:
            expected.append(CLOSER[first])
        elif first in ")]}":
            if first != expected.pop():
                return -1
            if not expected:
                return token.end()
    return -1


def value_end(text: str, start: int) -> int:
    """The position of the comma, or the end of `text`, that ends the value beginning at `start`.

    An unmatched closing bracket also ends it; an unclosed bracket or string takes the rest.

    >>> value_end("[2,4]<=[8], x=1", 0)
    10
    """
    position = start
    while token := _TOKEN.search(text, position):
        first = text[token.start()]
        if first in CLOSER:
            position = closing(text, token.start())
            if position < 0:
                return len(text)
        elif first in ",)]}":
            return token.start()
        else:
            position = token.end()
    return len(text)


def single_end(text: str, start: int) -> int:
    """The position after the word, string or bracketed list that begins at `start`; otherwise as `value_end`.

    >>> single_end("{ {0}: (1, {}) } ENTRY e {", 0)
    16
    """
    end = closing(text, start) if text[start : start + 1] in CLOSER else -1
    word = _WORD_ALONE.match(text, start)
    return end if end > 0 else word.end() if word else value_end(text, start)


def read_attributes(
    text: str, position: int, end_of_value: Callable[[str, int], int] = value_end, repeated: list[str] | None = None
) -> tuple[dict[str, str], int]:
    """The ``, name=value`` pairs from `position`, in order, and where they end.

    If computations may follow without a comma, `end_of_value` is `single_end`. For a repeated name the last value
    counts, and the name is added to `repeated`.

    >>> read_attributes('f(), dimensions={0,1}, metadata={op_name="a,b"}', 3)
    ({'dimensions': '{0,1}', 'metadata': '{op_name="a,b"}'}, 47)
    """
    found: dict[str, str] = {}
    last = ""
    while matched := _ATTRIBUTE.match(text, position):
        (name, value), position = matched.groups(), matched.end()
        if value is None:
            start, position = position, end_of_value(text, position)
            value = _without_asides(text[start:position])
        if name == "device_ids" and found.get(last, "").startswith("mesh["):
            found[last] += f", device_ids={value}"  # a mesh has its devices after a comma
            continue
        if repeated is not None and name in found:
            repeated.append(name)
        found[name] = value
        last = name
    return found, position


def single_attributes(text: str, position: int) -> tuple[list[tuple[str, str]], int]:
    """The ``, name=value`` pairs with single values from `position`, and where they and the following blanks end.

    >>> single_attributes("f(), dimensions={0} index=1", 3)
    ([('dimensions', '{0}')], 20)
    """
    found: list[tuple[str, str]] = []
    while matched := _ATTRIBUTE.match(text, position):
        start = matched.end()
        position = start if matched[2] else _one_value_end(text, start, matched[1])
        if position == start and not matched[2]:
            return found, start
        found.append((matched[1], matched[2] or text[start:position]))
    return found, skip_space(text, position)


def is_value(text: str) -> bool:
    """Whether a text is a single attribute value.

    >>> is_value('"a"'), is_value('"a" b'), is_value('="a"')
    (True, False, False)
    """
    return bool(text) and _part_end(text, 0) == len(text)


def _one_value_end(text: str, start: int, name: str) -> int:
    """The position after the string, word or bracketed lists that are the value of attribute `name`.

    In a literal, ``f32[2]{0} {1, 2}``, and in the axes of a mesh, a value may have two parts separated by blanks.
    """
    end = _part_end(text, start)
    if name == "literal" or text.startswith("mesh[", start) or name == "device_ids":
        end = max(end, _part_end(text, skip_space(text, end)))
    return end


def _part_end(text: str, start: int) -> int:
    """The position after a string, a word, or lists that belong together: ``f32[2]{0}``, ``[2,4]<=[8]``."""
    word = _VALUE_WORD.match(text, start)
    position = word.end() if word else start
    while text[position : position + 1] in CLOSER:
        end = closing(text, position)
        if end < 0:
            return len(text)  # the value is all of the rest
        if text[position] != "[" or not (more := _LIST_BEHIND_LIST.match(text, end)):
            return end
        position = more.end()
    return position


def _without_asides(text: str) -> str:
    """`text` without trailing blanks, and without comments except XLA's ``/*index=5*/``."""
    if "/" in text:
        text = _COMMENT_OR_STRING.sub(lambda found: found[0] if found[0].startswith(('"', "/*index=")) else "", text)
    return text.rstrip()


def split_list(text: str) -> list[str]:
    """The parts of `text` between commas outside brackets and strings, without surrounding blanks and comments.

    >>> split_list("f32[2,3]{1,0} %a, /*index=1*/%b")
    ['f32[2,3]{1,0} %a', '%b']
    """
    parts, position = [], 0
    while True:
        end = value_end(text, position)
        part = trimmed(text[position:end])
        if part or end < len(text):
            parts.append(part)
        if end >= len(text):
            return parts
        position = end + 1


def trimmed(text: str) -> str:
    """`text` without comments or surrounding blanks.

    >>> trimmed(" /*index=5*/%b ")
    '%b'
    """
    return text.strip() if "/" not in text else without_comments(text).strip()


def without_comments(text: str) -> str:
    """`text` without comments, except in strings; a comment between two words becomes a blank.

    >>> without_comments('a/* x */ "/* y */" // z'), without_comments("ROOT/* x */y = f32[2]/* z */{0}")
    ('a "/* y */" ', 'ROOT y = f32[2]{0}')
    """
    return _COMMENT_OR_STRING.sub(_without, text)


def _without(found: re.Match[str]) -> str:
    if found[0][0] == '"':
        return found[0]
    parts_words = _WORD_END.match(found.string, found.start() - 1) and _WORD_START.match(found.string, found.end())
    return " " if parts_words else ""


def skip_space(text: str, position: int) -> int:
    """The position of the first character at or after `position` that is neither blank nor comment.

    >>> skip_space("  // no\\n x", 0)
    9
    """
    found = _SPACE.match(text, position)
    return found.end() if found else position


def inside(text: str) -> str:
    """`text` without its outer brackets, if it has them.

    >>> inside("{%a, %b}")
    '%a, %b'
    """
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] in CLOSER and text[-1] == CLOSER[text[0]] else text


def read_fields(text: str) -> dict[str, str]:
    """The ``name=value`` pairs of a braced list such as metadata, separated by blanks or commas; values verbatim.

    >>> read_fields('{op_name="x y" source_line=3 shape={1,2}}')
    {'op_name': '"x y"', 'source_line': '3', 'shape': '{1,2}'}
    """
    text = inside(without_comments(text) if "/*index=" in text else text)
    found: dict[str, str] = {}
    position = 0
    while head := _FIELD_HEAD.match(text, position):
        position = _field_end(text, head.end())
        found.setdefault(head[1], text[head.end() : position])
    return found


def _field_end(text: str, position: int) -> int:
    if string := _STRING_ALONE.match(text, position):  # another field may follow without a blank
        return string.end()
    while position < len(text):
        if text[position] in CLOSER:
            end = closing(text, position)
            position = len(text) if end < 0 else end
        elif plain := _FIELD_VALUE.match(text, position):
            position = plain.end()
        else:
            return position
    return position


def read_strings(text: str) -> dict[str, str]:
    """The ``name="value"`` pairs of a braced list, unquoted and unescaped; values without quotes are kept.

    >>> read_strings('{x="a b",y={"z":1}}')
    {'x': 'a b', 'y': '{"z":1}'}
    """
    return {name: unquote(value) for name, value in read_fields(text).items()}


def integer(text: str) -> int | None:
    """Parse a number of up to 19 digits; None for anything else.

    >>> integer("-3"), integer("3x")
    (-3, None)
    """
    return int(text) if _INTEGER.fullmatch(text) else None


def integers(text: str) -> tuple[int, ...] | None:
    """Parse a list of numbers in braces; None if one of them is no `integer`.

    >>> integers("{1,0}"), integers("{}"), integers("{1,x}")
    ((1, 0), (), None)
    """
    numbers = [integer(part) for part in split_list(inside(text))]
    known = [number for number in numbers if number is not None]
    return tuple(known) if len(known) == len(numbers) else None
