from collections.abc import Iterator

import pytest

from durable_process import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """The parent of harness processes."""
    with Zygote() as started:
        yield started
