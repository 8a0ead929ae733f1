"""How the tests run: Hypothesis is repeatable and short by default; ``--hypothesis-profile=thorough`` looks further.

``--long`` runs the tests marked slow as well, gives Hypothesis more examples and each campaign of `tests/fuzz` more
time. CI uses it: ``-m "slow or hypothesis"`` are the tests that differ with it, and the campaigns.
``--fuzz-seconds N`` says how long each campaign takes, and ``--fuzz-seed N`` where it begins: for those run by hand.
``--list-skipped FILE`` writes which tests and modules were skipped, for ``pytest @FILE`` where what they lack is there.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Generator

# Before the package is imported: which code ran must not depend on time.
os.environ.setdefault("STRIDED_COMPILE", "first")

import pytest
from hypothesis import HealthCheck, settings

from tests.thinned import EXAMPLES, LONG_EXAMPLES

pytest.register_assert_rewrite("tests.checks")

for profile, examples in (("default", EXAMPLES), ("long", LONG_EXAMPLES)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

#: Seconds of each campaign: in the normal run, and with ``--long``.
FUZZ_SECONDS, LONG_FUZZ_SECONDS = 0.2, 6.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("strided")
    group.addoption("--long", action="store_true", help="run slow tests too, and campaigns for longer")
    group.addoption("--fuzz-seconds", type=float, help="seconds that each campaign of tests/fuzz takes")
    group.addoption("--list-skipped", metavar="FILE", help="write what was skipped, a test or module a line")
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of the campaigns of tests/fuzz")


def _runs_all(config: pytest.Config) -> bool:
    return config.args_source is config.ArgsSource.TESTPATHS


@pytest.hookimpl(optionalhook=True)  # which only pytest-xdist asks for
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All tests are run by as many processes as there are cores, up to four; named ones by this process alone."""
    return min(os.cpu_count() or 1, 4) if _runs_all(config) else 0


#: Compiles all kernels, which takes a minute where none is in the cache. What a test wants before, it compiles, too.
_COMPILE = "import gc; gc.disable(); from strided import kernels; [kernels.load(name) for name in kernels.HOMES]"
_compiling = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    # A shell that is not interactive has what it runs in the background ignore Ctrl-C and SIGQUIT, and so would all
    # subprocesses.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGQUIT") and signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if _runs_all(config) and not config.option.collectonly and not hasattr(config, "workerinput"):
        command = [sys.executable, "-c", _COMPILE]
        config.stash[_compiling] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if (path := config.getoption("--list-skipped")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skipped(path))
    # Before tests are imported: some take a multiple of the profile's number of examples.
    if config.getoption("--long") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("long")


class _Skipped:
    """Writes what was skipped when all tests have run."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: dict[str, None] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._found[report.nodeid] = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._found[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        with open(self._path, "w", encoding="utf-8") as file:
            file.writelines(f"{each}\n" for each in self._found)


def pytest_unconfigure(config: pytest.Config) -> None:
    if process := config.stash.get(_compiling, None):
        process.kill()
        process.wait()


#: Folders whose tests want kernels, later ones more of them: they come last, when these have been compiled.
_WITH_KERNELS = ("dumps", "io", "interop", "arrays", "transfer", "kernels", "fuzz")
#: Its tests compile kernels of their own, for minutes: one process begins with them, while others run what is short.
_LONGEST = "test_other_cpus.py"


def _place(item: pytest.Item) -> int:
    if item.path.name == _LONGEST:
        return -1
    folder = item.path.parent.name
    return _WITH_KERNELS.index(folder) + 1 if folder in _WITH_KERNELS else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the half a million objects that tests are: all of them stay.

    Going through them takes a third of a second, many times while they are made, and for each test that asks for it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    if not config.getoption("--long"):
        slow = [item for item in items if "slow" in item.keywords]
        items[:] = [item for item in items if "slow" not in item.keywords]
        config.hook.pytest_deselected(items=slow)


def pytest_report_header(config: pytest.Config) -> str:
    return "all tests" if config.getoption("--long") else "without tests that take long: --long runs them, as in CI"


@pytest.fixture(scope="session")
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    """Seconds that a campaign may take."""
    given = request.config.getoption("--fuzz-seconds")
    if given is not None:
        return float(given)
    return LONG_FUZZ_SECONDS if request.config.getoption("--long") else FUZZ_SECONDS


@pytest.fixture(scope="session")
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """Seed of a campaign."""
    return int(request.config.getoption("--fuzz-seed"))
