"""The checks of `.ci/run` one by one, each in an environment of its own: ``nox -s tests-3.12``, ``nox -s lint``, ...

What stands behind ``--`` goes to pytest, sphinx-build or asv.
"""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "tests", "docs"]
nox.options.error_on_missing_interpreters = False

#: What Numba supports.
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests, with every Python that is here."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """All tests, with the oldest dependencies that pyproject.toml allows."""
    session.install("-c", ".ci/oldest.txt", "-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Format, style, types, the layers of imports, and the scripts of pages."""
    session.install(".[lint,docs,bench]")
    session.run("pip", "uninstall", "--yes", "strided", silent=True)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports", "--no-cache")
    session.run(".ci/scripts/check", external=True)


@nox.session(python=PYTHONS[0])
def docs(session: nox.Session) -> None:
    """The pages, warnings as errors, in docs/_build."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", *session.posargs, "docs", "docs/_build")


@nox.session(python=PYTHONS[0])
def bench(session: nox.Session) -> None:
    """Every benchmark once, of what is here: ``nox -s bench -- --bench convert.Large`` for one of them."""
    session.install("-e", ".[bench]")
    session.chdir("asv_bench")
    session.run("asv", "machine", "--yes")
    session.run("asv", "run", "--quick", "--python=same", *session.posargs)


@nox.session(python=PYTHONS[0])
def coverage(session: nox.Session) -> None:
    """Lines and branches that the tests reach, kernels left out: compiled code is not seen."""
    session.install("-e", ".[test]", "coverage")
    session.run("coverage", "run", "-m", "pytest", "--numprocesses=0", *session.posargs)  # of one process
    session.run("coverage", "report")
