"""Asynchronous tests run on both backends."""

import sniffio


async def test_an_async_test_runs_on_the_backend_it_is_named_after(anyio_backend: str) -> None:
    assert sniffio.current_async_library() == anyio_backend
