"""The guide for a model provider: its code is run, and passes the contract that it shows."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terret_context import Container
from terret_llm import GenerateOptions, Llm, create_user_message
from terret_loader import check_document
from terret_testing.adapter_contract import AdapterContract, adapter_running
from workspace import ROOT

PAGE = ROOT / "docs" / "guides" / "add-a-model-provider.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def shown() -> Any:
    """Everything that the guide defines, in its order, as one module."""
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(blocks("python")), str(PAGE), "exec"), names)
    return SimpleNamespace(**names)


guide = shown()


class TestParrotOfTheGuide(guide.TestParrot):  # type: ignore[misc, name-defined]  # out of a document
    """M-130, M-131: the server of the guide keeps the whole contract."""


class TestEchoOfTheGuide(AdapterContract):
    """M-130, M-131: the first adapter too."""

    def running(self) -> AbstractAsyncContextManager[tuple[Llm, GenerateOptions]]:
        return adapter_running(guide.EchoAdapter())


async def test_the_first_plugin_answers() -> None:
    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(guide.echo).ready()
        messages = (create_user_message("hello"),)
        request = GenerateOptions(provider="echo", model="m", messages=messages)
        async with aclosing(root[Llm].stream(request)) as chunks:
            texts = [getattr(chunk, "text", "") async for chunk in chunks]
        assert "hello" in texts


def test_the_configuration_shown_has_no_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is taken from a file, since it is not installed."""
    write: Callable[[str], object] = (tmp_path / "parrot.py").write_text
    write("\n".join(blocks("python")))
    (yaml,) = blocks("yaml")
    file = tmp_path / "harness.yml"
    file.write_text(yaml.replace("parrot: {", 'parrot: {use: "./parrot.py:parrot", '), "utf-8")
    assert check_document(file, env={}).faults == ()
