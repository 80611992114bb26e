"""What type checkers know of lookups; the assertions are made when this file is checked."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, assert_type

import pytest

from terret_context import (
    Bail,
    Container,
    Context,
    Emit,
    Next,
    Parallel,
    Root,
    Serial,
    Service,
    ServiceKey,
    Waterfall,
)


class Shell(ABC):
    __service_key__: ClassVar[str] = "shell"

    @abstractmethod
    def run(self) -> str: ...


class Reader(Protocol):
    __service_key__: ClassVar[str] = "reader"

    def read(self) -> bytes: ...


class Words(Service, key="words"):
    """A concrete service."""


COUNT: ServiceKey[int] = ServiceKey("count")


class Bash(Shell):
    def run(self) -> str:
        return "done"


class File:
    def read(self) -> bytes:
        return b"text"


EMIT = Emit[str]("tests/types-emit", doc="For the tests of types.")
PAIR = Emit[str, int]("tests/types-pair", doc="For the tests of types.", direct=True)
PARALLEL = Parallel[str]("tests/types-parallel", doc="For the tests of types.")
BAIL = Bail[str, int]("tests/types-bail", doc="For the tests of types.")
SERIAL = Serial[str, int]("tests/types-serial", doc="For the tests of types.")
WATERFALL = Waterfall[str, int]("tests/types-waterfall", doc="For the tests of types.")


async def test_lookups_have_the_type_of_their_key() -> None:
    """C-424: a class, an abstract class, a protocol or a `ServiceKey`, without ignores."""
    async with Container() as root:
        root.provide(Shell, Bash())
        root.provide(Reader, File())
        root.provide(COUNT, 3)
        await root.plugin(Words).ready()
        assert_type(root[Shell], Shell)
        assert_type(root[Reader], Reader)
        assert_type(root[Words], Words)
        assert_type(root[COUNT], int)
        assert_type(root.get(Words), Words | None)
        assert (root[Shell].run(), root[Reader].read(), root[COUNT]) == ("done", b"text", 3)
        assert isinstance(root[Words], Words)


async def test_an_unknown_attribute_of_a_context_is_an_error_of_types() -> None:
    """C-424: `ctx.name` is for glue code; type checkers refuse it."""
    async with Container() as root:
        ctx: Context = root
        root.provide(COUNT, 3)
        assert ctx.count == 3  # type: ignore[attr-defined]  # the error under test
        with pytest.raises(AttributeError):
            ctx.count = 4  # type: ignore[attr-defined]  # the error under test
        assert_type(ctx.root, Root)
        await ctx.root.settle()


async def test_dispatches_have_the_types_of_their_event() -> None:
    """C-424, C-425: payload and result come from the subscription."""
    heard: list[Any] = []

    async def wrap(text: str, call_next: Next[int]) -> int:
        return await call_next() + len(text)

    async with Container() as root:
        root.on(EMIT, lambda text: heard.append(text.upper()))
        root.on(PAIR, lambda text, number: heard.append(text * number))
        root.on(PARALLEL, lambda text: heard.append(text.lower()))
        root.on(BAIL, lambda text: len(text))
        root.on(SERIAL, lambda text: len(text))
        root.on(WATERFALL, wrap)
        assert_type(root.emit(EMIT, "a"), None)
        assert_type(await root.parallel(PARALLEL, "A"), int)
        assert_type(root.bail(BAIL, "abc"), int | None)
        assert_type(await root.serial(SERIAL, "abc"), int | None)
        assert_type(await root.waterfall(WATERFALL, "abc", lambda: 1), int)
        root.emit(EMIT, 3)  # type: ignore[misc]  # the error under test
        for fn in root.listeners(PAIR):
            fn("x", 2)
    assert heard[:2] == ["A", "a"]
    assert heard[-1] == "xx"
