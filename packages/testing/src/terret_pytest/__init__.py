"""Fixtures for tests of Terret plugins; pytest loads them through the entry point.

Asynchronous tests that take `harness` run on asyncio and on trio: anyio's fixture `anyio_backend`
is parametrised over the installed backends, and `terret-testing` brings both.

A package of its own, since pytest imports it at every start: `terret_testing` and all of Terret
are imported when a test asks for a fixture.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

pytest.register_assert_rewrite("terret_testing")  # its contract suites are tests


@pytest.fixture
def harness() -> Callable[..., AbstractAsyncContextManager[Any]]:
    """`async with harness(plugins=[...], model=script(...)) as h`, see `running_harness`."""
    from terret_testing import running_harness

    return running_harness


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker `virtual_time`."""
    text = (
        "virtual_time: waiting takes no time: when every task waits, time jumps to the next moment"
    )
    config.addinivalue_line("markers", text)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> None:
    """Lets anyio's plugin run tests that take `harness`, unless pytest-asyncio is there for that.

    For other asynchronous tests of a project, its setting `anyio_mode = auto` does the same.
    """
    if (
        collector.istestfunction(obj, name)
        and iscoroutinefunction(obj)
        and "harness" in signature(obj).parameters
        and not collector.config.pluginmanager.has_plugin("asyncio")
    ):
        pytest.mark.usefixtures("anyio_backend")(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test marked with `virtual_time` on both backends with a time that jumps.

    `anyio.sleep(3600)` returns at once there, in order with all other waits. `anyio.current_time`
    shows that time; `time.monotonic` does not.
    """
    if metafunc.definition.get_closest_marker("virtual_time") is not None:
        from terret_testing._virtual_time import backends

        choice = pytest.mark.parametrize("anyio_backend", backends().values(), ids=backends())
        metafunc.definition.add_marker(choice)
