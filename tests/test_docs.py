"""The pages and the README are true: every example in them runs, and prints what stands there."""

from __future__ import annotations

import doctest
import inspect
import re
import shlex
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import strided as sd
from strided import cli, kernels
from strided.memory.copies import verify
from tests import copies_samples, paths

ROOT = paths.ROOT
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^>>> (?:import|from) (\w+)", re.MULTILINE)
PARTNERS = {"dask", "fsspec", "jax", "pandas", "torch", "xarray", "zarr"}
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

_MODULE = """HloModule example

ENTRY main {
  p = f32[1,300]{1,0:T(8,128)} parameter(0)
  ROOT n = f32[1,300]{1,0:T(8,128)} negate(p)
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the pages speak of, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    values = np.arange(17 * 300, dtype=np.float32).reshape(17, 300) % 256 / 256
    layout = "bf16[17,300]{1,0:T(8,128)(2,1)}"
    sd.LayoutArray.from_numpy(values, layout, padding=-1).buffer.tofile("activations.bin")
    Path("example.hlo.txt").write_text(_MODULE, encoding="utf-8")
    _dump_table(monkeypatch)
    with zipfile.ZipFile(paths.DATA / "memory" / "step.zip") as step:
        step.extractall()
    weights = np.random.default_rng(0).normal(0, 0.02, (512, 640))
    sd.LayoutArray.from_numpy(weights, "bf16[512,640]{1,0:T(8,128)(2,1)}").buffer.tofile("weights.bin")
    for device, shard in sd.shard(weights, "{devices=[2,2]<=[4]}", "{1,0:T(8,128)(2,1)}", element_type="bf16").items():
        shard.buffer.tofile(f"weights{device}.bin")
    for folder in ("dump", "rerun"):
        paths.unpack_dump(Path(folder))
    rerun = sd.LayoutArray(np.fromfile("activations.bin", np.uint8), layout)
    rerun[8:16, 128:256] = 0
    rerun.buffer.tofile("rerun.bin")
    (path,) = Path("rerun").glob("*while_loop.snapshot*")
    run = sd.read_snapshot(path, mapped=False)
    results = [np.array(value) for value in run.results]
    results[1][2] *= -1
    sd.write_snapshot(path, run.arguments, tuple(results), module=run.module_proto)


def skip_without_partners(page: Path) -> None:
    """Skip a page whose examples import a library that is not installed."""
    imported = {name for _, code in blocks(page, "pycon") for name in _IMPORT.findall(code)}
    for name in sorted(imported & PARTNERS):
        pytest.importorskip(name)


def _dump_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump of the program of the page about copies, and a compiler that knows it."""
    recorded, compiler = copies_samples.case("table"), copies_samples.RecordedCompiler()
    Path("table_dump").mkdir()
    for stage, text in (("before", recorded["before"]), ("after", copies_samples.compiled_as(recorded))):
        Path(f"table_dump/module_0000.jit_table.{stage}_optimizations.txt").write_text(text, encoding="utf-8")
    compiler.known.update(recorded["compiled"])
    monkeypatch.setattr(verify, "compile_hlo", compiler.compile_hlo)


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a language, each with the line that it starts at."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        if found[1] == language:
            yield text.count("\n", 0, found.start(2)), found[2]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skip_without_partners(page)
    names: dict[str, object] = {}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=_FLAGS)
    for line, code in blocks(page, "pycon"):
        test = parser.get_doctest(code, names, page.name, str(page), line)
        if page.name == "README.md":  # its examples name results in comments, not in output
            for example in test.examples:
                exec(example.source, test.globs)
        else:
            runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.failures == 0, capsys.readouterr().out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, text in blocks(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, wanted = part.partition("\n")
            words = shlex.split(command, comments=True)
            if words[0] != "strided" or words[1] == "warmup":
                continue  # other programs: the run of all checks tries them
            with pytest.raises(SystemExit):
                cli.main(words[1:])
            printed = "".join(capsys.readouterr())
            if wanted.strip():
                assert printed.rstrip() == wanted.rstrip(), f"{page.name}, line {line}: {command}"
            else:
                assert printed


@pytest.mark.usefixtures("files")
def test_start_says_how_to_make_the_files_of_all_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, byte for byte, but for those that it unpacks."""
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("dump", "rerun"):
        paths.unpack_dump(Path(folder))
    start = ROOT / "docs" / "start.md"
    _, first = next(blocks(start, "pycon"))
    doctest.run_docstring_examples(first, {}, name=start.name)
    ((_, script),) = blocks(start, "python")
    exec(script.replace("SOURCE", ROOT.as_posix()), {})
    found = [path.relative_to(made) for path in made.rglob("*") if path.is_file()]
    wanted = [
        *tmp_path.glob("*.bin"),
        *(file for name in ("dump", "rerun", "table_dump") for file in (tmp_path / name).iterdir()),
    ]
    assert sorted(found) == sorted(path.relative_to(tmp_path) for path in wanted)
    assert not [path for path in found if path.read_bytes() != (tmp_path / path).read_bytes()]


def test_pages_are_linked() -> None:
    """Every page stands in a table of contents, and every link to a page leads to one."""
    pages = {page.stem for page in PAGES[1:]}
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    listed = set()
    for text in texts.values():
        for table in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            listed |= {line.strip() for line in table.splitlines() if line.strip() and not line.startswith(":")}
    assert listed == pages - {"index"}
    for page, text in texts.items():
        for target in re.findall(r"\]\((\w+)\.md\)", text):
            assert target in pages, f"{page.name} links to {target}.md"


def test_the_readme_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = PAGES[0].read_text(encoding="utf-8").partition("optional extras are")[2].partition(" of them")[0]
    assert sorted(re.findall(r"`(\w+)`", named)) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize("module", [sd, sd.inspect, sd.testing, sd.tpu], ids=lambda module: module.__name__)
def test_every_public_function_has_an_example(module: ModuleType) -> None:
    functions = [thing for name in module.__all__ if inspect.isfunction(thing := getattr(module, name))]
    assert functions
    assert not [function.__name__ for function in functions if ">>>" not in (function.__doc__ or "")]


@pytest.mark.parametrize("module", [sd, sd.inspect, sd.testing, sd.tpu], ids=lambda module: module.__name__)
def test_every_public_name_has_a_page(module: ModuleType) -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES if page.stem.startswith("api_")]
    listed = {path.rpartition(".")[2] for text in pages for path in re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)}
    listed |= set(sd.errors.__all__)  # all on the page of their module
    public = {name for name in module.__all__ if not inspect.ismodule(getattr(module, name))}
    assert not public - listed


def test_pages_say_how_much_scratch_memory_kernels_take() -> None:
    docs = ROOT / "docs"
    said = re.findall(r"(\d+) KB for each thread", (docs / "speed.md").read_text(encoding="utf-8"))
    said += re.findall(r"`kernels\.SCRATCH_BYTES` \| (\d+) KB", (docs / "maintainers.md").read_text(encoding="utf-8"))
    assert said == [str(kernels.SCRATCH_BYTES >> 10)] * 2


def test_constants_that_pages_name_are_in_the_modules_they_name() -> None:
    """As in `module.NAME`, and the names behind it in the same list or cell."""
    sources: dict[str, str] = defaultdict(str)
    for path in (PAGES[0].parent / "strided").rglob("*.py"):
        sources[path.stem] += path.read_text(encoding="utf-8")
    seen = 0
    for page in PAGES:
        for module, names in re.findall(
            r"`(\w+)\.(_?[A-Z][A-Z_0-9]+`(?:(?:, | and )`_?[A-Z][A-Z_0-9]+`)*)", page.read_text(encoding="utf-8")
        ):
            for name in re.findall(r"_?[A-Z][A-Z_0-9]+", names):
                if module in sources:
                    seen += 1
                    assert re.search(rf"^[\w, ]*\b{name}\b[\w, ]*(:.*)?=", sources[module], re.MULTILINE), (
                        f"{page.name} names {module}.{name}"
                    )
    assert seen > 50
