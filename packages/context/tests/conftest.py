"""Time is virtual in the container's tests: a sleep returns as soon as nothing else can run."""

from typing import Any

import pytest

from virtual_time import virtual_backend


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return virtual_backend(request.param)
