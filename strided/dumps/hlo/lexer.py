"""The lexical rules that all of HLO text shares: brackets, strings, comments, attribute lists.

::

    attributes = { "," name "=" value }
    value      = everything up to a comma outside brackets, strings and comments
    list       = "{" [ item { "," item } ] "}"

Everything works on positions in a text, in time proportional to the characters passed. Nothing recurses: brackets may
nest as deep as the text is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from strided.dumps.hlo.quoting import unquote

#: A string that is closed.
STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
#: An unterminated string or comment takes the rest of the text, so its end is searched for only once.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
#: ``//`` after a colon belongs to an address such as ``gs://bucket``.
COMMENT = r"/\*.*?(?:\*/|\Z)|(?<!:)//[^\n]*+"

#: Single quotes (mesh axes) count if they close on their line and hold no bracket: an apostrophe in unquoted
#: text must not swallow the rest.
_OPAQUE = rf"{_STRING}|{COMMENT}|'[^'\n(){{}}\[\]]*+'"
_TOKEN = re.compile(rf"{_OPAQUE}|[(){{}}\[\],]", re.DOTALL)
_OPAQUE_OR_BRACKET = re.compile(rf"{_OPAQUE}|[(){{}}\[\]]", re.DOTALL)
_COMMENT_OR_STRING = re.compile(f"{_STRING}|{COMMENT}", re.DOTALL)
#: What two words that only comments part end and begin with, the second one behind the others of the comments.
_WORD_END, _WORD_START = re.compile(r"[\w.\-]"), re.compile(rf"(?:{COMMENT}|(?!))*+[\w%]", re.DOTALL)
#: What may stand between two tokens. Here and below, the last choice of a possessive group is ``(?!)``, which never
#: matches: where another one fails midway, Python before 3.11.5 goes on from there, not from where the choice began.
BLANKS = rf"(?:\s++|{COMMENT}|(?!))*+"
_SPACE = re.compile(BLANKS, re.DOTALL)
CLOSER = {"(": ")", "{": "}", "[": "]"}


def brackets(depth: int, string: str = STRING, without: str = "", opening: str = "{") -> str:
    """Brackets around words and strings, and around other braces and lists up to `depth`; `without` some characters.

    >>> bool(re.fullmatch(brackets(2), '{a="}", b=[{}]}')), bool(re.fullmatch(brackets(1), "{[{}]}"))
    (True, False)
    """
    plain = rf"""[^(){{}}\[\]"'/{without}]*+"""
    inner = [string, *(brackets(depth - 1, string, without, each) for each in "{[" if depth)]
    return rf"\{opening}{plain}(?:(?:{'|'.join(inner)}|(?!)){plain})*+\{CLOSER[opening]}"


#: The values of most attributes have no comments, and their brackets are counted by the expression.
_WORD = rf"{STRING}|[\w%.\-:>]++"
_SIMPLE_VALUE = rf"{_WORD}|{brackets(4)}"
_WORD_ALONE = re.compile(_WORD, re.DOTALL)
_ATTRIBUTE = re.compile(rf"{BLANKS},{BLANKS}([A-Za-z_][\w.\-]*+)\s*+={BLANKS}(?:({_SIMPLE_VALUE})(?=,|\Z))?", re.DOTALL)

#: A word in a value, and what makes another list belong to the one in square brackets before it.
_VALUE_WORD = re.compile(rf"{STRING}|'[^'\n]*+'|(?:(?!/[/*])[^\s,=(){{}}\[\]\"]|(?!))++(?![({{])", re.DOTALL)
_LIST_BEHIND_LIST = re.compile(rf"(?=\{{)|{BLANKS}(?:<={BLANKS}(?=\[)|T{BLANKS}(?=\())", re.DOTALL)

_FIELD_HEAD = re.compile(r'[\s,]*+([^\s,=(){}\[\]"]++)\s*+=\s*+')
_STRING_ALONE = re.compile(STRING, re.DOTALL)
_FIELD_VALUE = re.compile(rf'{STRING}|[^\s,(){{}}\[\]"]++', re.DOTALL)

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def closing(text: str, opening: int) -> int:
    """Place just after the bracket that closes the one at `opening`, or -1.

    Strings and comments are stepped over; a mismatched bracket gives -1.

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
    """Place of the comma (or the end of `text`) that ends the value which begins at `start`.

    A closing bracket without a partner ends it too; a bracket or a string that never closes takes the rest.

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
    """Place just after the word, the string or the list in brackets that begins at `start`; else as `value_end`.

    >>> single_end("{ {0}: (1, {}) } ENTRY e {", 0)
    16
    """
    end = closing(text, start) if text[start : start + 1] in CLOSER else -1
    word = _WORD_ALONE.match(text, start)
    return end if end > 0 else word.end() if word else value_end(text, start)


def read_attributes(
    text: str, position: int, end_of_value: Callable[[str, int], int] = value_end, repeated: list[str] | None = None
) -> tuple[dict[str, str], int]:
    """The ``, name=value`` pairs from `position` on, in their order, and where they end.

    Where computations may follow without a comma, `end_of_value` is `single_end`. Of a name that occurs again, the last
    value counts; the name is added to `repeated`.

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
            found[last] += f", device_ids={value}"  # a mesh names its devices after a comma
            continue
        if repeated is not None and name in found:
            repeated.append(name)
        found[name] = value
        last = name
    return found, position


def single_attributes(text: str, position: int) -> tuple[list[tuple[str, str]], int]:
    """The ``, name=value`` pairs from `position` on, each of a single value; where they and the blanks behind them end.

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
    """Whether a text is a single value of an attribute.

    >>> is_value('"a"'), is_value('"a" b'), is_value('="a"')
    (True, False, False)
    """
    return bool(text) and _part_end(text, 0) == len(text)


def _one_value_end(text: str, start: int, name: str) -> int:
    """Place just after the string, the word or the lists in brackets that are the value of attribute `name`.

    Two parts with blanks between them are one value in a literal, ``f32[2]{0} {1, 2}``, and in the axes of a mesh.
    """
    end = _part_end(text, start)
    if name == "literal" or text.startswith("mesh[", start) or name == "device_ids":
        end = max(end, _part_end(text, skip_space(text, end)))
    return end


def _part_end(text: str, start: int) -> int:
    """Place just after a string or a word, or after lists that belong together: ``f32[2]{0}``, ``[2,4]<=[8]``."""
    word = _VALUE_WORD.match(text, start)
    position = word.end() if word else start
    while text[position : position + 1] in CLOSER:
        end = closing(text, position)
        if end < 0:
            return len(text)  # who asks for the value gets all of it
        if text[position] != "[" or not (more := _LIST_BEHIND_LIST.match(text, end)):
            return end
        position = more.end()
    return position


def _without_asides(text: str) -> str:
    """`text` without comments other than XLA's counts, and without trailing blanks."""
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
    """`text` without comments, with a blank where one parts two words; strings are left alone.

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
    """Place of the first character at or after `position` that is neither blank nor comment.

    >>> skip_space("  // no\\n x", 0)
    9
    """
    found = _SPACE.match(text, position)
    return found.end() if found else position


def inside(text: str) -> str:
    """The text between the outer brackets of `text`; all of it if there are none.

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
    """The ``name="value"`` pairs of a braced list; quotes and escapes are undone, unquoted values are kept.

    >>> read_strings('{x="a b",y={"z":1}}')
    {'x': 'a b', 'y': '{"z":1}'}
    """
    return {name: unquote(value) for name, value in read_fields(text).items()}


def integer(text: str) -> int | None:
    """The number that `text` is, of up to 19 digits; None for anything else.

    >>> integer("-3"), integer("3x")
    (-3, None)
    """
    return int(text) if _INTEGER.fullmatch(text) else None


def integers(text: str) -> tuple[int, ...] | None:
    """The numbers of a list in braces; None if one of them is no `integer`.

    >>> integers("{1,0}"), integers("{}"), integers("{1,x}")
    ((1, 0), (), None)
    """
    numbers = [integer(part) for part in split_list(inside(text))]
    known = [number for number in numbers if number is not None]
    return tuple(known) if len(known) == len(numbers) else None
