"""A harness that follows its files by itself."""

from collections.abc import Callable
from pathlib import Path

import anyio

from terret_context import Container
from terret_loader import ENTRY, EntryChange, Loader, open_harness

Write = Callable[..., Path]

PART = """
from terret_context import Config, plugin

class PartConfig(Config):
    text: str = ""
    size: int = 0

@plugin(config=PartConfig)
def part(ctx, config): ...
"""


class Changes:
    """Waits for announced entries."""

    def __init__(self, root: Container) -> None:
        self.sizes: list[object] = []
        self._more = anyio.Event()
        root.on(ENTRY, self._note)

    def _note(self, change: EntryChange) -> None:
        self.sizes.append(change.entry and dict(change.entry.config))
        self._more.set()
        self._more = anyio.Event()

    async def next(self) -> object:
        with anyio.fail_after(30):
            while not self.sizes:
                await self._more.wait()
        return self.sizes.pop(0)


async def test_saved_renamed_and_included_files_are_followed(write: Write, tmp_path: Path) -> None:
    """C-206, C-348, C-349: also a folder that does not exist yet."""
    text = "extends: ./base.yml\nplugins: {part: {use: ./part.py, size: 1}}"
    path = write(text, part__py=PART, base__yml="plugins: {}")
    async with open_harness("harness.yml", watch=True) as root:
        changes = Changes(root)
        path.write_text(text.replace("size: 1", "size: 2"))
        assert await changes.next() == {"size": 2}
        (tmp_path / "new.yml").write_text(text.replace("size: 1", "size: 3"))
        (tmp_path / "new.yml").replace(path)
        assert await changes.next() == {"size": 3}
        (tmp_path / "base.yml").write_text("plugins: {part: {text: base}}")
        assert await changes.next() == {"text": "base", "size": 3}
        path.write_text(text.replace("size: 1", "text: '${file:./later/prompt.md}'"))
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "prompt.md").write_text("one")
        assert await changes.next() == {"text": "one"}
        (tmp_path / "later" / "prompt.md").write_text("two")
        assert await changes.next() == {"text": "two"}
        assert root[Loader].faults == ()


async def test_a_file_that_turns_invalid_is_followed_again_when_it_is_good(
    write: Write, tmp_path: Path
) -> None:
    """C-206, C-342, C-347."""
    text = "plugins: {part: {use: ./part.py, size: 1}}"
    path = write(text, part__py=PART)
    async with open_harness("harness.yml", watch=True) as root:
        changes = Changes(root)
        path.unlink()
        path.write_text("plugins: {part: {")
        path.write_text(text.replace("size: 1", "size: 5"))
        assert await changes.next() == {"size": 5}


async def test_changes_that_come_together_are_one(write: Write) -> None:
    """C-347."""
    text = "plugins: {part: {use: ./part.py, size: 0}}"
    path = write(text, part__py=PART)
    async with open_harness("harness.yml") as root:
        root[Loader].watch(collect_ms=500)
        changes = Changes(root)
        for size in range(1, 9):
            path.write_text(text.replace("size: 0", f"size: {size}"))
        assert await changes.next() == {"size": 8}
        assert changes.sizes == []


async def test_watching_ends_with_the_harness(write: Write) -> None:
    """C-206, C-337."""
    write("plugins: {}")
    with anyio.fail_after(30):
        async with open_harness("harness.yml", watch=True) as root:
            await root.settle()
