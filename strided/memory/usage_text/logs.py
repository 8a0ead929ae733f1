"""Extracts a text from a log.

A log may contain the text as JSON or as one string with escaped line ends; it may colour it, use other line ends, and
put a prefix before each line, such as a process, the time or the line number.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

#: Escape sequences for colours, and for erasing the rest of a line after them, as from grep.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}[mK]")
#: A line end with carriage returns: a terminal within a terminal adds a second one before the newline.
_LINE_END = re.compile(r"(?<!\r)\r++\n|\r")
#: The keys of messages in logs of JSON objects, and that of the time.
_WRITTEN = frozenset(("log", "message", "msg", "textPayload", "text", "line", "MESSAGE", "@message", "body"))
_MOMENT = "timestamp"
#: The most characters of JSON that are parsed at a time, which takes many times their size in memory.
_LONGEST_JSON = 1 << 24
#: The beginning of a line that names an operation.
_OPERATOR = re.compile(r'Operator: \w{1,40}="')
#: Escape sequences of JSON and repr.
_ESCAPED = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrt\"'\\/]))"
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
#: The parts of a prefix that differ between lines: dates, times, and seconds since an epoch.
_TIME = re.compile(
    r"(?<![\d.])(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?|\d{1,19}\.\d{2,9}|\d{10,19})(?![\d.])"
)
#: A possible line number, and the characters that grep puts around it.
_COUNTER = re.compile(r"\d{1,9}")
_BESIDE_COUNTER = ":-"
#: The most numbers in a prefix that are tried.
_MOST_COUNTERS = 20
#: The fewest and the most lines that show whether a number counts them: counts of several processes soon restart.
_FEW, _MANY = 3, 200


def text_of_log(text: str) -> str:
    """The text in a log, without JSON, escapes and colours, in lines that end with a newline."""
    return _with_line_ends(_COLOUR.sub("", _unescaped(_written(text))))


def _with_line_ends(text: str) -> str:
    r"""The text with all line ends replaced by newlines, also carriage returns of progress bars.

    >>> _with_line_ends("a\r\nb\rc\r\r\nd")
    'a\nb\nc\nd'
    """
    return _LINE_END.sub("\n", text) if "\r" in text else text


def _written(text: str) -> str:
    r"""The messages in a log of JSON objects, one per line or all in a list; any other text unchanged.

    >>> _written('{"level": "ERROR", "message": "HLO module: jit_f."}\nthe end')
    'HLO module: jit_f.\nthe end'
    """
    start = text[:1000].lstrip()[:1]
    if start and start in "[{" and (found := _strings_of(text)) is not None:
        return "\n".join(found)
    if '{"' not in text:
        return text
    lines = ((line, _strings_of(line) if line.startswith("{") else None) for line in text.split("\n"))
    return "\n".join(line if found is None else "\n".join(found) for line, found in lines)


def _strings_of(text: str) -> list[str] | None:
    """The strings at the keys of messages in JSON, or else all its strings; None if it is not JSON, or too long."""
    if len(text) > _LONGEST_JSON:
        return None
    try:
        value = json.loads(text)
        if isinstance(value, list):
            moments = [str(one.get(_MOMENT, "")) if isinstance(one, dict) else "" for one in value]
            value = value[::-1] if moments and moments[0] > moments[-1] else value  # the latest is first
        strings = list(_strings_in(value))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)):
        return None
    written = [one for key, one in strings if key in _WRITTEN]
    return [one.removesuffix("\n") for one in written or [one for _, one in strings]]


def _strings_in(value: object) -> Iterator[tuple[str, str]]:
    """The strings of a JSON value, each with the nearest key."""
    # Not recursive: nested generators would pass each string through every level.
    within: list[Iterator[tuple[str, object]]] = [iter([("", value)])]
    while within:
        for key, one in within[-1]:
            if isinstance(one, str):
                yield key, one
            elif isinstance(one, (dict, list)):
                within.append(iter(one.items()) if isinstance(one, dict) else zip(itertools.repeat(key), one))
                break
        else:
            within.pop()


def _unescaped(text: str) -> str:
    r"""The text with lines unescaped that contain several lines as one string of JSON or repr.

    >>> _unescaped(r'"HLO module: jit_f.\nSee \"it\""')
    '"HLO module: jit_f.\nSee "it""'
    """
    if r"\n" not in text:
        return text
    return "\n".join(_ESCAPED.sub(_character, line) if _holds_lines(line) else line for line in text.split("\n"))


def _holds_lines(line: str) -> bool:
    r"""Whether a line contains several as one string. Names of operations may also contain an escaped line end."""
    end = line.find(r"\n")
    return end >= 0 and _OPERATOR.search(line, 0, end) is None


def _character(escaped: re.Match[str]) -> str:
    high, low, code, sign = escaped.groups()
    if high:  # JSON writes a character beyond 0xffff as two surrogates
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
    return chr(int(code, 16)) if code else _ESCAPES.get(sign, sign)


def without_prefixes(text: str, first: re.Match[str] | None) -> str:
    """The lines of a log with the prefix of its `first` one, without that prefix; all lines if it has none.

    Times and line numbers in the prefix may differ. Processes may not: lines of another process belong to another
    report.
    """
    prefix = first[1].rstrip() if first else ""
    if first is None or not prefix:
        return text
    timed = re.compile(_alike(prefix))
    alike = _counted_alike(prefix, text[first.start() : first.start() + (1 << 20)], timed) or timed
    return "\n".join(line[found.end() :] for line in text.split("\n") if (found := alike.match(line)))


def _alike(prefix: str) -> str:
    """The pattern of a prefix at any time; blanks before a time may align it."""
    *before, last = _TIME.split(prefix)
    parts = (re.escape(one.rstrip(" ")) + " *" * one.endswith(" ") for one in before)
    return f"(?>{_TIME.pattern})".join((*parts, re.escape(last)))


def _counted_alike(prefix: str, text: str, timed: re.Pattern[str]) -> re.Pattern[str] | None:
    """The pattern of the prefix of each line, if a number in it counts the lines; otherwise None.

    A line number counts all lines whose prefixes differ only in their times; digits of a time do not.
    """
    lines = text.split("\n", _MANY)[:_MANY]
    for number in itertools.islice(_COUNTER.finditer(prefix), _MOST_COUNTERS):
        before, after = prefix[: number.start()].rstrip(" "), prefix[number.end() :]
        open_ended = "[:-]" if before[-1:] in _BESIDE_COUNTER and before else ""
        closed = "[:-]" if after[:1] in _BESIDE_COUNTER and after else ""
        alike = re.compile(
            f"{_alike(before[: len(before) - bool(open_ended)])}{open_ended} *({_COUNTER.pattern}){closed}"
            f"{_alike(after[bool(closed) :])}"
        )
        matches = [alike.match(line) for line in lines]
        counts = [int(found[1]) for found in matches if found]
        is_whole = all(found or not timed.match(line) for found, line in zip(matches, lines, strict=True))
        if is_whole and len(counts) >= _FEW and all(a < b for a, b in itertools.pairwise(counts)):
            return alike
    return None
