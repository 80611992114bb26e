"""Presets: what each of the known servers wants, and what stands beside a preset beats it."""

import re
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from mounted_models import mounted_model
from terret_llm import Finish, FinishChunk, GenerateOptions, LlmCallConfig, create_user_message
from terret_loader import check_document
from terret_plugin_llm_openai import OpenAiConfig, llm_openai
from terret_plugin_llm_openai._presets import PRESETS, Preset
from terret_plugin_llm_openai._wire import ChatCompletions
from terret_testing import FaultyModelServer, chat_answer

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "llm-openai.md"


def config(**settings: Any) -> OpenAiConfig:
    return OpenAiConfig.model_validate(settings)


@pytest.mark.parametrize("name", get_args(Preset))
def test_a_preset_is_enough(name: Preset) -> None:
    """M-075: address, key and switches; the provider has the preset's name."""
    found = config(preset=name)
    wanted = PRESETS[name]
    assert found.provider == name
    assert {key: getattr(found, key) for key in wanted} == wanted
    assert found.is_loopback or found.base_url.startswith("https://")
    messages = (create_user_message("hi"),)
    request = GenerateOptions(provider=name, model="m", messages=messages)
    assert ChatCompletions(found).encode(request)


def test_settings_beat_the_preset_in_both_spellings() -> None:
    found = config(preset="deepseek", baseUrl="http://a.invalid", first_byte_timeout=1)
    assert (found.base_url, found.first_byte_timeout) == ("http://a.invalid", 1)
    assert (found.reasoning_style, found.api_key_env) == ("thinking", "DEEPSEEK_API_KEY")


def test_without_a_preset_a_base_address_is_a_plain_server() -> None:
    """No switches, and no key of another server."""
    own = config(baseUrl="https://models.invalid/v1")
    assert (own.provider, own.api_key_env, own.max_tokens_field) == ("openai", "", "max_tokens")
    assert config().max_tokens_field == "max_completion_tokens"


def snippets() -> list[str]:
    found = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found


def test_the_page_shows_every_preset() -> None:
    shown = set(re.findall(r"preset: ([\w-]+)", PAGE.read_text("utf-8")))
    assert shown == set(get_args(Preset))


@pytest.mark.parametrize("number", range(len(snippets()) if PAGE.exists() else 0))
def test_the_configuration_on_the_page_has_no_faults(number: int, tmp_path: Path) -> None:
    file = tmp_path / "harness.yml"
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "openai").write_text("sk-1234567")
    file.write_text(snippets()[number], "utf-8")
    assert check_document(file, env={}).faults == ()


def servers() -> list[dict[str, Any]]:
    """The settings of each server on the page."""
    entries = [entry for text in snippets() for entry in yaml.safe_load(text)["plugins"].items()]
    found = [dict(settings) for name, settings in entries if name != "llm-retry"]
    for settings in found:
        settings.pop("use", None)
    return found


@pytest.mark.parametrize("number", range(len(servers()) if PAGE.exists() else 0))
async def test_each_server_on_the_page_answers(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-012, M-075: with its own switches, and its key from the variable that it names."""
    settings = servers()[number]
    found = config(**settings)
    kept = {"apiKeyEnv": found.api_key_env, "apiKey": None, "apiKeyCommand": None}
    preset = {} if "baseUrl" in settings else {"preset": found.preset}
    monkeypatch.setenv(found.api_key_env or "NO_KEY", "sk-of-this-server")
    async with FaultyModelServer(chat_answer("Hi")) as server:
        here: dict[str, Any] = {**settings, **kept, **preset, "baseUrl": server.url}
        async with mounted_model(llm_openai, None, **here) as llm:
            wanted = LlmCallConfig(provider=found.provider, model=found.model or "m")
            call = await llm.prepare_call(wanted)
            request = GenerateOptions.of(call.config, messages=(create_user_message("hi"),))
            async with aclosing(call.stream(request)) as chunks:
                finish = [chunk async for chunk in chunks][-1]
    assert finish == FinishChunk(Finish.stop())
    [sent] = server.requests
    assert (sent.path, sent.json["model"]) == ("/v1/chat/completions", wanted.model)
    bearer = "Bearer sk-of-this-server" if found.api_key_env else None
    assert sent.headers.get("authorization") == bearer
