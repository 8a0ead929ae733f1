"""Takes a text out of the log that holds it.

A log may hold the text as JSON or as one string, in which ends of lines are two characters; it may colour it, end its
lines in other ways, and put something before each, such as a process, the time or the number of the line.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

#: What sets the colours of a terminal, and erases the rest of its line behind them, as grep does: a log may hold both.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}[mK]")
#: An end of a line with carriage returns: a terminal within a terminal puts a second one before the newline.
_LINE_END = re.compile(r"(?<!\r)\r++\n|\r")
#: The keys under which logs of JSON objects keep what was written, and a moment.
_WRITTEN = frozenset(("log", "message", "msg", "textPayload", "text", "line", "MESSAGE", "@message", "body"))
_MOMENT = "timestamp"
#: Characters of a JSON text, or of a line of JSON, that is read as a whole, which takes many times its size in memory.
_LONGEST_JSON = 1 << 24
#: The beginning of a line that names an operation.
_OPERATOR = re.compile(r'Operator: \w{1,40}="')
#: What JSON and repr write for a character.
_ESCAPED = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrt\"'\\/]))"
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
#: What differs from line to line in what a log puts before each: dates, times, and seconds since some moment.
_TIME = re.compile(
    r"(?<![\d.])(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?|\d{1,19}\.\d{2,9}|\d{10,19})(?![\d.])"
)
#: A number that may count the lines of a text, and the signs between which grep puts it.
_COUNTER = re.compile(r"\d{1,9}")
_BESIDE_COUNTER = ":-"
#: Numbers before a line that are tried.
_MOST_COUNTERS = 20
#: Lines that tell whether a number counts them, at least and at most: those of several processes soon begin again.
_FEW, _MANY = 3, 200


def text_of_log(text: str) -> str:
    """What a log holds, without JSON, escapes and colours, in lines that end with a newline."""
    return _with_line_ends(_COLOUR.sub("", _unescaped(_written(text))))


def _with_line_ends(text: str) -> str:
    r"""The text, in which every line ends with a newline, as also those do that a progress bar overwrites.

    >>> _with_line_ends("a\r\nb\rc\r\r\nd")
    'a\nb\nc\nd'
    """
    return _LINE_END.sub("\n", text) if "\r" in text else text


def _written(text: str) -> str:
    r"""What was written to a log that holds JSON objects, one in each line or all in a list; else the text.

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
    """What a text in JSON holds under the keys of logs, else all its strings; None if it is none, or too long a one."""
    if len(text) > _LONGEST_JSON:
        return None
    try:
        value = json.loads(text)
        if isinstance(value, list):
            moments = [str(one.get(_MOMENT, "")) if isinstance(one, dict) else "" for one in value]
            value = value[::-1] if moments and moments[0] > moments[-1] else value  # the latest was put first
        strings = list(_strings_in(value))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)):
        return None
    written = [one for key, one in strings if key in _WRITTEN]
    return [one.removesuffix("\n") for one in written or [one for _, one in strings]]


def _strings_in(value: object) -> Iterator[tuple[str, str]]:
    """The strings of a JSON value, each with the nearest key."""
    # Generators within each other would hand on every string once for each list that it lies in.
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
    r"""The text, in which lines that hold others as one string, as JSON and repr write it, are those.

    >>> _unescaped(r'"HLO module: jit_f.\nSee \"it\""')
    '"HLO module: jit_f.\nSee "it""'
    """
    if r"\n" not in text:
        return text
    return "\n".join(_ESCAPED.sub(_character, line) if _holds_lines(line) else line for line in text.split("\n"))


def _holds_lines(line: str) -> bool:
    r"""Whether a line holds others as one string; names of operations may have an end of line too."""
    end = line.find(r"\n")
    return end >= 0 and _OPERATOR.search(line, 0, end) is None


def _character(escaped: re.Match[str]) -> str:
    high, low, code, sign = escaped.groups()
    if high:  # JSON writes a character beyond 0xffff as two halves
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
    return chr(int(code, 16)) if code else _ESCAPES.get(sign, sign)


def without_prefixes(text: str, first: re.Match[str] | None) -> str:
    """The lines of a log that begin as its `first` one, without what it puts before each; all if it puts nothing there.

    Times may differ, and so may a number that counts the lines. Processes may not: the lines of another one are those
    of another report.
    """
    prefix = first[1].rstrip() if first else ""
    if first is None or not prefix:
        return text
    timed = re.compile(_alike(prefix))
    alike = _counted_alike(prefix, text[first.start() : first.start() + (1 << 20)], timed) or timed
    return "\n".join(line[found.end() :] for line in text.split("\n") if (found := alike.match(line)))


def _alike(prefix: str) -> str:
    """The pattern of what a log puts before a line, at any time; blanks before a time may align it."""
    *before, last = _TIME.split(prefix)
    parts = (re.escape(one.rstrip(" ")) + " *" * one.endswith(" ") for one in before)
    return f"(?>{_TIME.pattern})".join((*parts, re.escape(last)))


def _counted_alike(prefix: str, text: str, timed: re.Pattern[str]) -> re.Pattern[str] | None:
    """The pattern of what stands before each line of a text, if a number in that counts them; else None.

    What counts lines counts all that differ in their times alone, as the digits of a time do not.
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
