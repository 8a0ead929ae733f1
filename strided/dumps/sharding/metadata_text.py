"""The metadata of a sharding, kept as text: where in the program it comes from."""

from __future__ import annotations

from strided.layout.lexer import Lexer


def read_metadata(lexer: Lexer) -> tuple[str, ...]:
    """The records of ``{...}`` or ``{{...}, {...}}``, from the first brace on, as text."""
    lexer.expect("{")
    if not lexer.take("{"):
        return tuple(filter(None, [_record(lexer)]))
    records = [_record(lexer)]
    while lexer.take(","):
        lexer.expect("{", "'{' to open the next record")
        records.append(_record(lexer))
    lexer.expect("}", "',' or '}' after a record of the metadata")
    return tuple(filter(None, records))


def _record(lexer: Lexer) -> str:
    """The text of a record up to its closing brace: names and values, divided by blanks or commas."""
    start, seen = lexer.start, set[str]()
    while not lexer.take("}"):
        if seen:
            lexer.take(",")
        if lexer.word in seen:
            lexer.fail(f"{lexer.word} stands twice", lexer.start)
        if not lexer.word.endswith("="):
            lexer.fail("expected name=value or '}'")
        seen.add(lexer.take_word())
        _skip_value(lexer)
    return lexer.text[start : lexer.end - 1].strip()


def _skip_value(lexer: Lexer) -> None:
    """Go past a string, a number, a bool, or numbers in braces."""
    if lexer.text.startswith(("'", '"'), lexer.start):
        lexer.string("a string")
    elif lexer.take("{"):
        if not lexer.take("}"):
            lexer.integers("a number")
            lexer.expect("}", "',' or '}'")
    elif lexer.word in ("true", "false"):
        lexer.take_word()
    else:
        lexer.required_integer("a string or a number")
