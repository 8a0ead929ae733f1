"""Commands run in the process of the tests."""

from __future__ import annotations

import pytest

from strided import cli


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed on both streams."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code, *capsys.readouterr()
