"""The click group of all commands."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import click

import strided
from strided.cli.interruption import exiting_when_ended
from strided.files.atomic import naming_in_write_errors
from strided.runtime.bytecode import cut_off
from strided.wording import did_you_mean

#: The commands in the help's order; each is a module of that name.
COMMANDS = (
    "info",
    "show",
    "padding",
    "identify",
    "diff",
    "convert",
    "assemble",
    "shard",
    "ls",
    "hlo",
    "memory",
    "copies",
    "explore",
    "demo",
    "warmup",
)


class Help(click.HelpFormatter):
    """Help texts whose option lists fit a narrow terminal."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width >= 2 * col_max else self.width // 4, col_spacing)


class Context(click.Context):
    """The context of a command."""

    formatter_class = Help


class Commands(click.Group):
    """The commands, each imported on use. They end quietly when the reader of their output has gone."""

    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import this command only, because imports take most of the time to start."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"strided.cli.{cmd_name}"), cmd_name)
        command.context_class = Context
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does; texts are wrapped, never cut."""
        found = [(name, self.get_command(ctx, name)) for name in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in found if command])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; UsageError that suggests a similar name if there is none."""
        # While a shell completes a line, an error would be printed over it.
        if args[0] in COMMANDS or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        close = difflib.get_close_matches(args[0], COMMANDS, n=1)
        meant = did_you_mean(close) or "'strided --help' lists the commands"
        raise click.UsageError(f"no command is called {args[0]!r}; {meant}")

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with exiting_when_ended(), _writing():  # click prints the help and the version in here
            return super().make_context(*args, **kwargs)
        raise click.exceptions.Exit(0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with exiting_when_ended(), _writing():
                super().invoke(ctx)
        except EOFError as error:  # click would take it for the end of typed input
            raise click.ClickException(cut_off(error) or str(error) or "the input ends too early") from error


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Around writes to standard output: end quietly if its reader has gone; name standard output in other errors."""
    try:
        with naming_in_write_errors("standard output"):
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError as again:
            _discard_output()
            if error.errno == again.errno == errno.EINVAL:  # a broken pipe on Windows
                return
        raise


def _discard_output() -> None:
    """Send remaining output nowhere: Python flushes it at exit, which would fail again and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(strided.__version__, message="strided %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Read, explain and convert buffers in any XLA layout."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
