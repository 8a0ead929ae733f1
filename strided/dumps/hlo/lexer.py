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
_CLOSER = {"(": ")", "{": "}", "[": "]"}


def brackets(depth: int, string: str = STRING, without: str = "", opening: str = "{") -> str:
    """Brackets around words and strings, and around other braces and lists up to `depth`; `without` some characters.

    >>> bool(re.fullmatch(brackets(2), '{a="}", b=[{}]}')), bool(re.fullmatch(brackets(1), "{[{}]}"))
    (True, False)
    """
    plain = rf"""[^(){{}}\[\]"'/{without}]*+"""
    inner = [string, *(brackets(depth - 1, string, without, each) for each in "{[" if depth)]
    return rf"\{opening}{plain}(?:(?:{'|'.join(inner)}|(?!)){plain})*+\{_CLOSER[opening]}"


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

_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_ESCAPES = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}


def closing(text: str, opening: int) -> int:
    """Place just after the bracket that closes the one at `opening`, or -1.

    Strings and comments are stepped over; a mismatched bracket gives -1.

    >>> closing('({")"})=', 0)
    7
    """
    expected = [_CLOSER[text[opening]]]
    for token in _OPAQUE_OR_BRACKET.finditer(text, opening + 1):
        first = text[token.start()]
        if first in _CLOSER:
            expected.append(_CLOSER[first])
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
        if first in _CLOSER:
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
    end = closing(text, start) if text[start : start + 1] in _CLOSER else -1
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
    while text[position : position + 1] in _CLOSER:
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
    return (
        " " if _WORD_END.match(found.string, found.start() - 1) and _WORD_START.match(found.string, found.end()) else ""
    )


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
    return text[1:-1].strip() if len(text) > 1 and text[0] in _CLOSER and text[-1] == _CLOSER[text[0]] else text


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
        if text[position] in _CLOSER:
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


def unquote(text: str) -> str:
    r"""The text between quotes, escapes undone; unquoted text unchanged.

    >>> print(unquote(r'"a\"b"'), unquote(r'{"a":"\n"}'))
    a"b {"a":"\n"}
    """
    return unescape(text) if text[:1] in ('"', "'") else text


def integer(text: str) -> int | None:
    """The number that `text` is, of up to 19 digits; None for anything else.

    >>> integer("-3"), integer("3x")
    (-3, None)
    """
    return int(text) if _INTEGER.fullmatch(text) else None


def unescape(text: str) -> str:
    r"""C-escaped text decoded, without the quotes around it.

    Octal escapes are bytes of UTF-8; invalid ones show as ``\xff``.

    >>> unescape(r'"caf\303\251\n"')
    'café\n'
    """
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_byte_of, as_bytes(text)).decode("utf-8", "backslashreplace")


def _byte_of(found: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = found.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if hexadecimal is not None:
        return bytes((int(hexadecimal, 16),))
    return _ESCAPED.get(letter, letter)


def as_bytes(value: str | bytes | memoryview) -> bytes:
    """Text in UTF-8, bytes as they are."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def escape(value: str | bytes | memoryview) -> str:
    r"""Text as XLA prints it between quotes: C escapes, three octal digits for what is not printable ASCII.

    >>> escape('a"é')
    'a\\"\\303\\251'
    """
    data = as_bytes(value)
    if data.isascii() and (text := data.decode()).isprintable() and not any(c in text for c in "\\\"'"):
        return text
    return "".join(_ESCAPES.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\{b:03o}") for b in data)


#: The pieces of a line for a Gatherer: strings and comments, closed or open, brackets, the rest.
_PIECE = re.compile(
    r"""(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'(){}\[\]]*+')|(?P<quote>")"""
    r"""|(?P<comment>/\*.*?\*/|(?<!:)//.*+)|(?P<begun>/\*)|(?P<bracket>[(){}\[\]])|(?P<rest>[^\s"'/(){}\[\]]++|['/])"""
)
_STRING_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"')
#: What begins a string or comment; most lines have none, and only their brackets are looked at.
_ASIDE, _BRACKET = re.compile("[\"'/]"), re.compile(r"[(){}\[\]]")


class Gatherer:
    """Follows brackets, strings and comments from line to line.

    >>> lines = Gatherer()
    >>> lines.feed("a = f32[2] add(b,"), lines.whole, lines.feed("c)"), lines.whole
    (None, False, None, True)
    """

    __slots__ = ("_expected", "_in_string", "broken", "comment", "last")

    def __init__(self) -> None:
        self._expected: list[str] = []
        self._in_string = False
        self.comment: str | None = None  # what follows the mark of a comment that is still open
        self.broken = False  # a bracket closed that was not open
        self.last = ""  # the last character that was neither blank nor comment

    @property
    def depth(self) -> int:
        """Brackets that are open."""
        return len(self._expected)

    @property
    def whole(self) -> bool:
        """Whether nothing is open."""
        return not (self._expected or self._in_string or self.comment is not None or self.broken)

    def feed(self, line: str) -> None:
        """Go over one more line (without its line end)."""
        position = self._finish(line)
        if position < 0:
            return
        if _ASIDE.search(line, position) is None:
            for bracket in _BRACKET.findall(line, position):
                self._turn(bracket)
                if self.broken:
                    return
            self.last = line[position:].rstrip()[-1:] or self.last
            return
        for piece in _PIECE.finditer(line, position):
            kind = piece.lastgroup
            if kind == "bracket":
                self._turn(piece[0])
                if self.broken:
                    return
            elif kind == "quote":
                self._in_string = True
                return
            elif kind == "begun":
                self.comment = line[piece.end() :]
                return
            if kind != "comment":
                self.last = line[piece.end() - 1]

    def _finish(self, line: str) -> int:
        """Where the open string or comment ends, or -1 if it goes on."""
        position = 0
        if self._in_string:
            found = _STRING_END.match(line)
            position = found.end() if found else -1
            self.last = '"'
        elif self.comment is not None:
            end = line.find("*/")
            position = end + 2 if end >= 0 else -1
        if position >= 0:
            self._in_string, self.comment = False, None
        return position

    def _turn(self, bracket: str) -> None:
        if bracket in _CLOSER:
            self._expected.append(_CLOSER[bracket])
        elif not self._expected or self._expected[-1] != bracket:
            self.broken = True
        else:
            self._expected.pop()
