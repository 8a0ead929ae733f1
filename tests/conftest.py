"""How the tests run: Hypothesis is repeatable and short by default; ``--hypothesis-profile=thorough`` looks further.

``--long`` runs the tests marked slow as well and gives each campaign of `tests/fuzz` more time; CI uses it.
``--fuzz-seconds N`` says how long each campaign takes, and
``--fuzz-seed N`` where it begins: for campaigns run by hand.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.checks")

settings.register_profile(
    "default",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

#: Seconds of each campaign: in the normal run, and with ``--long``.
FUZZ_SECONDS, LONG_FUZZ_SECONDS = 0.5, 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("strided")
    group.addoption("--long", action="store_true", help="run slow tests too, and campaigns for longer")
    group.addoption("--fuzz-seconds", type=float, help="seconds that each campaign of tests/fuzz takes")
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of the campaigns of tests/fuzz")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        skip = pytest.mark.skip(reason="takes long; run by --long, as in CI")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


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
