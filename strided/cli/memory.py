"""`strided memory`: where does a program's memory go?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from strided.cli.file_kinds import refuse_empty
from strided.cli.operands import STANDARD
from strided.cli.options import as_json, file_names, force, module_number, width
from strided.cli.pictures import check_picture, svg, write_svg
from strided.cli.programs import program_of, refuse_number, standard_input
from strided.escape import visible
from strided.tpu.default_layout import GENERATIONS

if TYPE_CHECKING:
    from strided.dumps.directory.programs import Program
    from strided.memory.report import MemoryReport


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="(FILE | DIR[:PROGRAM] | -)...", shell_complete=file_names)
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Buffers to list.")
@click.option("--space", default="hbm", show_default=True, metavar="hbm|vmem|N", help="The memory space.")
@click.option("--generation", type=click.Choice(GENERATIONS), help="The TPU.  [default: by the layouts]")
@click.option(
    "--max-expansion",
    type=float,
    metavar="X",
    help="Exit with 1 if padding makes a buffer more than X times as large, and over 1% of the peak is wasted by it.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Try the cures with libtpu's compiler; needs the module before optimizations, in the dump or beside FILE.",
)
@module_number
@svg
@force
@as_json
def memory(
    files: tuple[str, ...],
    top: int,
    space: str,
    generation: str | None,
    max_expansion: float | None,
    verify: bool,
    module_number: int | None,
    picture: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show where a program's memory goes, and what would take less.

    FILE is the log or the message of a program that ran out of memory, a memory usage report, a buffer assignment, or
    HLO as text or proto; - is standard input. Of a dump folder, the program that takes most is reported. Several files
    of one program, such as an error and its module, make one report; each other program has its own.
    """
    from strided.memory.material import sorted_by_program
    from strided.memory.memory_report import report_of, space_number
    from strided.memory.printed import report_text
    from strided.memory.report import check_expansion
    from strided.memory.verify import with_verified_cures

    number = space_number(space)
    if max_expansion is not None:
        check_expansion(max_expansion)
    check_picture(picture, files, as_json=as_json, overwrite=force)
    refuse_number(module_number, files)
    programs = sorted_by_program(_sources(files), module_number)
    if picture is not None and len(programs) > 1:
        raise click.UsageError(f"--svg draws one program, and these are {len(programs)}: give the files of one")
    reports = [report_of(one, generation=generation, space=number) for one in programs]
    if verify:
        pairs = zip(reports, programs, strict=True)
        reports = [with_verified_cures(report, one.module_before, generation) for report, one in pairs]
    if as_json:
        found = [report.to_dict() | {"buffers": [b.to_dict() for b in report.buffers[:top]]} for report in reports]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    elif picture != STANDARD:
        click.echo("\n\n".join(report_text(report, width=width(), top=top) for report in reports))
    if picture is not None:
        write_svg(reports[0].svg(), picture, force=force)
    if max_expansion is not None and (expanded := list(_expanded(reports, max_expansion))):
        click.echo("\n".join(expanded), err=True)
        sys.exit(1)


def _expanded(reports: Sequence[MemoryReport], most: float) -> Iterator[str]:
    """A line for each buffer that expands more than `most` times."""
    for report in reports:
        for buffer in report.expanded(most):
            yield visible(f"strided: {report.module or 'the program'}: expands more than {most:g} times: {buffer}")


def _sources(files: Sequence[str]) -> list[Program | str | bytes]:
    """What the operands name. UsageError for standard input given twice, and for an empty file."""
    if files.count(STANDARD) > 1:
        raise click.UsageError("standard input can be read once")
    for each in files:
        refuse_empty(each)
    return [_source(each) for each in files]


def _source(file: str) -> Program | str | bytes:
    """What an operand names: a program of a dump folder, standard input, or a file."""
    return standard_input() if file == STANDARD else program_of(file) or file
