"""Fixtures for tests of Terret plugins; pytest loads them through the entry point.

Asynchronous tests run on asyncio and on trio: anyio's fixture `anyio_backend` is parametrised
over the installed backends, and `terret-testing` brings both.

A package of its own, since pytest imports it at every start: `terret_testing` and all of Terret
are imported when a test asks for a fixture.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

pytest.register_assert_rewrite("terret_testing")  # its contract suites are tests


@pytest.fixture
def harness() -> Callable[..., AbstractAsyncContextManager[Any]]:
    """`async with harness(plugins=[...], model=script(...)) as h`, see `running_harness`."""
    from terret_testing import running_harness

    return running_harness
