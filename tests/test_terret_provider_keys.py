"""The key of one provider is never used for another."""

from contextlib import aclosing
from typing import Any

import pytest

from mounted_models import mounted_model
from terret_llm import FinishChunk, GenerateOptions, create_user_message
from terret_plugin_llm_anthropic import llm_anthropic
from terret_plugin_llm_openai import llm_openai

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY")


@pytest.mark.parametrize(
    ("plugin", "config", "provider", "own"),
    [
        (llm_openai, {}, "openai", "OPENAI_API_KEY"),
        (llm_openai, {"preset": "deepseek"}, "deepseek", "DEEPSEEK_API_KEY"),
        (llm_anthropic, {}, "anthropic", "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_provider_without_a_key_of_its_own_asks_for_just_that(
    monkeypatch: pytest.MonkeyPatch,
    plugin: object,
    config: dict[str, Any],
    provider: str,
    own: str,
) -> None:
    """E-542: although the keys of the others are there, nothing is sent."""
    for name in KEYS:
        monkeypatch.setenv(name, "sk-of-somebody-else")
    monkeypatch.delenv(own)
    hello = (create_user_message("hi"),)
    request = GenerateOptions(provider=provider, model="m", messages=hello)
    async with (
        mounted_model(plugin, **config) as llm,
        aclosing(llm.stream(request)) as stream,
    ):
        finish = [chunk async for chunk in stream][-1]
    assert isinstance(finish, FinishChunk)
    failure = finish.finish.failure
    assert failure is not None
    assert failure.code == "MISSING_CREDENTIAL"
    assert [name for name in KEYS if name in failure.message] == [own]
