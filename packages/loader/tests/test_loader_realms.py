"""Isolation in a document: changed realms move what runs, and restart who sees something else."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from terret_context import Container, Fiber, FiberState
from terret_loader import Loader, open_harness

Write = Callable[..., Path]

PARTS = """
from terret_context import Config, plugin

log = []

class NameConfig(Config):
    name: str

@plugin(provides=("dep",), config=NameConfig)
def give(ctx, config):
    ctx.provide("dep", config.name)
    log.append(f"+{config.name}")
    yield
    log.append(f"-{config.name}")

@plugin(inject=("dep",), config=NameConfig)
def take(ctx, config):
    log.append(f"{config.name}+{ctx.dep}")
    yield
    log.append(f"{config.name}-")
"""


class Running:
    """A harness that is made to follow one document after the other."""

    def __init__(self, root: Container, path: Path) -> None:
        self.loader = root[Loader]
        self._path = path

    @property
    def log(self) -> list[str]:
        """What ran since it was last asked, in alphabetical order."""
        fiber = next(fiber for entry in self.loader.entries if (fiber := self.at(entry.path)))
        log: list[str] = fiber.plugin.body.__globals__["log"]  # type: ignore[union-attr]
        found = sorted(log)
        log.clear()
        return found

    def at(self, path: str) -> Fiber | None:
        return None if path == "logging" else self.loader.fiber(path)

    async def follow(self, *entries: str) -> list[str]:
        """Reconciles, and gives what ran."""
        self._path.write_text(document(*entries))
        await self.loader.reconcile()
        return self.log


@asynccontextmanager
async def running(write: Write, *entries: str, safe: bool = True) -> AsyncIterator[Running]:
    path = write(document(*entries), parts__py=PARTS)
    async with open_harness(path, safe=safe) as root:
        yield Running(root, path)


def document(*entries: str) -> str:
    return f"plugins: {{{', '.join(entries)}}}"


def gives(id: str, **isolate: str) -> str:
    return f"{id}: {{use: './parts.py:give', name: {id}, isolate: {labels(isolate)}}}"


def takes(id: str, **isolate: str) -> str:
    return f"{id}: {{use: './parts.py:take', name: {id}, isolate: {labels(isolate)}}}"


def group(id: str, *entries: str, **isolate: str) -> str:
    return f"{id}: {{isolate: {labels(isolate)}, plugins: {{{', '.join(entries)}}}}}"


def labels(isolate: dict[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {label}' for key, label in isolate.items())}}}"


async def test_the_realm_of_the_consumer_decides_whether_it_runs(write: Write) -> None:
    """C-078 to C-082, C-088: each change is one step of its life, or none."""
    async with running(write, gives("a"), takes("t")) as harness:
        assert harness.log == ["+a", "t+a"]
        assert await harness.follow(gives("a"), takes("t", other="true")) == []
        assert await harness.follow(gives("a"), takes("t")) == []
        assert await harness.follow(gives("a"), takes("t", dep="true")) == ["t-"]
        assert await harness.follow(gives("a"), takes("t", dep="true")) == []
        assert await harness.follow(gives("a"), takes("t")) == ["t+a"]


async def test_the_realm_of_the_provider_moves_without_a_reload(write: Write) -> None:
    """C-083 to C-086."""
    async with running(write, gives("a"), takes("t")) as harness:
        assert harness.log == ["+a", "t+a"]
        assert await harness.follow(gives("a", other="true"), takes("t")) == []
        assert await harness.follow(gives("a"), takes("t")) == []
        assert await harness.follow(gives("a", dep="true"), takes("t")) == ["t-"]
        assert await harness.follow(gives("a"), takes("t")) == ["t+a"]


async def test_consumers_of_a_group_see_what_their_realm_has(write: Write) -> None:
    """C-087, C-089: an own realm of the group, the labelled one of another, one of their own."""
    harnesses = (
        group(
            "g", gives("a"), takes("x"), takes("y", dep="lab"), takes("z", dep="true"), dep="true"
        ),
        group("h", gives("b"), dep="lab"),
    )
    async with running(write, *harnesses) as harness:
        assert harness.log == ["+a", "+b", "x+a", "y+b"]
        waiting = harness.at("g/z")
        assert waiting is not None
        assert waiting.state is FiberState.PENDING


async def test_a_label_around_what_has_it_already_restarts_nothing(write: Write) -> None:
    """C-090."""
    inner = group("i", takes("t"), dep="lab")
    async with running(write, gives("a", dep="lab"), group("o", inner)) as harness:
        assert harness.log == ["+a", "t+a"]
        assert await harness.follow(gives("a", dep="lab"), group("o", inner, dep="lab")) == []
        assert await harness.follow(gives("a", dep="lab"), group("o", inner)) == []


async def test_a_group_of_consumers_changes_its_label(write: Write) -> None:
    """C-091."""
    givers = gives("a", dep="alpha"), gives("b", dep="beta")
    async with running(write, *givers, group("g", takes("t"), dep="alpha")) as harness:
        assert harness.log == ["+a", "+b", "t+a"]
        assert await harness.follow(*givers, group("g", takes("t"), dep="beta")) == ["t+b", "t-"]


async def test_a_group_of_providers_changes_its_label(write: Write) -> None:
    """C-092."""
    takers = takes("s", dep="alpha"), takes("t", dep="beta")
    async with running(write, group("g", gives("a"), dep="alpha"), *takers) as harness:
        assert harness.log == ["+a", "s+a"]
        moved = group("g", gives("a"), dep="beta")
        assert await harness.follow(moved, *takers) == ["s-", "t+a"]


async def test_entries_move_into_an_isolating_group_and_out(write: Write) -> None:
    """C-093 to C-097: moving is a new start, in the other realm."""

    def documents(*inside: str) -> tuple[str, ...]:
        both = {"a": gives("a"), "t": takes("t")}
        apart = group("g", *(both[id] for id in inside), gives("n", dep="x"), dep="true")
        return (*(text for id, text in both.items() if id not in inside), apart)

    async with running(write, *documents()) as harness:
        assert harness.log == ["+a", "+n", "t+a"]
        assert await harness.follow(*documents("t")) == ["t-"]
        assert await harness.follow(*documents("t", "a")) == ["+a", "-a", "t+a"]
        assert await harness.follow(*documents("a")) == ["t-"]
        assert await harness.follow(*documents()) == ["+a", "-a", "t+a"]


async def test_a_provider_takes_the_place_of_one_that_goes(write: Write) -> None:
    """C-083: what still holds the place when the document is read does not keep it from moving."""
    first = gives("a"), gives("b", dep="lab"), takes("t")
    async with running(write, *first) as harness:
        assert harness.log == ["+a", "+b", "t+a"]
        assert await harness.follow(gives("b"), takes("t")) == ["+b", "-a", "-b", "t+b", "t-"]
        assert harness.loader.faults == ()


async def test_a_group_and_what_is_in_it_take_a_place_that_becomes_free(write: Write) -> None:
    """C-083."""
    inner = gives("b"), takes("t")
    async with running(write, gives("a"), group("g", *inner, dep="lab")) as harness:
        assert harness.log == ["+a", "+b", "t+b"]
        assert await harness.follow(group("g", *inner)) == ["+b", "-a", "-b", "t+b", "t-"]
        assert await harness.follow(group("g", *inner, dep="true")) == []


async def test_a_move_that_is_not_accepted_changes_nothing(write: Write) -> None:
    """C-342."""
    entries = gives("a"), gives("b", dep="lab"), takes("t")
    async with running(write, *entries, safe=False) as harness:
        assert harness.log == ["+a", "+b", "t+a"]
        assert await harness.follow(gives("a"), gives("b"), takes("t")) == []
        (fault,) = harness.loader.faults
        assert "b: provides dep, as a (harness.yml:1:11) does" in str(fault)
