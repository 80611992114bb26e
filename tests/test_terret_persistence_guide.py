"""The guide for a persistence backend: its code is run, and passes the contract that it shows."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from terret_context import Container
from terret_sessions import SESSION_PERSISTENCE, Sessions, TurnStart
from workspace import ROOT

PAGE = ROOT / "docs" / "guides" / "write-a-persistence-backend.md"


def shown() -> Any:
    """Everything that the guide defines, in its order, as one module."""
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(code), str(PAGE), "exec"), names)
    return SimpleNamespace(**names)


guide = shown()


class TestStorageOfTheGuide(guide.TestDocumentStorage):  # type: ignore[misc, name-defined]  # a page
    """M-117, M-118: the storage of the guide keeps the whole contract."""


async def test_the_plugin_of_the_guide_keeps_sessions(tmp_path: Path) -> None:
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(guide.session_documents, {"root": tmp_path})
        await root.settle()
        session = root[Sessions].create("s")
        session.append("turn/start", TurnStart(1))
        assert await root[Sessions].flush(session)
        kept = root.get(SESSION_PERSISTENCE)
        assert kept is not None
        assert await kept.list() == (session.header,)
