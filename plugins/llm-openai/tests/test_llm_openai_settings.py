"""Settings: keys, presets, models, limits, and changes while the plugin runs."""

import json
import sys
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mounted_models import mounted_model
from terret_context import ConfigError, Container, PluginFailedError
from terret_llm import (
    Chunk,
    FinishChunk,
    GenerateOptions,
    HarnessError,
    Llm,
    LlmCallConfig,
    LlmError,
    LlmFailure,
    ModelInfo,
    create_user_message,
)
from terret_loader import open_harness
from terret_plugin_llm_openai import OpenAiConfig, llm_openai
from terret_testing import FaultyModelServer, WireAnswer, chat_answer, raw_answer, status_answer

mounted = partial(mounted_model, llm_openai)
HELLO = chat_answer("Hello")


async def ask(llm: Llm, provider: str = "openai", **fields: Any) -> list[Chunk]:
    messages = (create_user_message("hi"),)
    request = GenerateOptions(**{"provider": provider, "model": "m", "messages": messages} | fields)
    chunks: list[Chunk] = []
    with anyio.fail_after(20):
        async with aclosing(llm.stream(request)) as stream:
            chunks += [chunk async for chunk in stream]
    return chunks


async def failure(llm: Llm, provider: str = "openai", **fields: Any) -> LlmFailure:
    finish = (await ask(llm, provider, **fields))[-1]
    assert isinstance(finish, FinishChunk)
    assert finish.finish.failure is not None
    return finish.finish.failure


def printing(folder: Path, *lines: str) -> str:
    """A command that runs these lines of Python."""
    script = folder / "key.py"
    script.write_text("\n".join(lines), "utf-8")
    return f"'{sys.executable}' '{script}'"


async def test_a_missing_key_names_the_variable_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M-074: mounting works; the first request says what to do, before any I/O."""
    monkeypatch.setenv("TEAM_KEY", "  ")
    async with mounted(base_url="https://models.invalid/v1", api_key_env="TEAM_KEY") as llm:
        found = await failure(llm)
    assert found.code == "MISSING_CREDENTIAL"
    assert "TEAM_KEY is not set" in found.message
    assert "models.invalid" in found.message


async def test_an_unusable_key_is_not_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-012, M-074: the variable is named, the key is not."""
    monkeypatch.setenv("TEAM_KEY", "sk-sécret")
    async with mounted(base_url="https://models.invalid/v1", api_key_env="TEAM_KEY") as llm:
        found = await failure(llm)
    assert found.code == "INVALID_CREDENTIAL"
    assert "TEAM_KEY" in found.message
    assert "cret" not in found.message


async def test_a_server_on_this_machine_needs_no_key() -> None:
    async with FaultyModelServer(HELLO) as server, mounted(server, api_key_env="NO_KEY") as llm:
        await ask(llm)
    assert "authorization" not in server.requests[0].headers


async def test_another_server_does_not_get_the_key_of_the_default_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A base address without a variable means: no key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    async with FaultyModelServer(HELLO) as server, mounted(server) as llm:
        await ask(llm)
    assert "authorization" not in server.requests[0].headers
    assert OpenAiConfig(preset="deepseek").api_key_env == "DEEPSEEK_API_KEY"
    assert OpenAiConfig(preset="openai", base_url="https://x.invalid").api_key_env


async def test_the_sources_of_a_key_have_an_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """M-074: apiKey beats apiKeyCommand beats the environment."""
    monkeypatch.setenv("TEAM_KEY", "sk-environment")
    from_command = {
        "apiKeyEnv": "TEAM_KEY",
        "apiKeyCommand": printing(tmp_path, "print('sk-command')"),
    }
    async with FaultyModelServer(HELLO, HELLO) as server:
        async with mounted(server, **from_command, apiKey="sk-configured") as llm:
            await ask(llm)
        async with mounted(server, **from_command) as llm:
            await ask(llm)
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer sk-configured", "Bearer sk-command"]


@pytest.mark.parametrize(("seconds", "runs"), [(0.0, 2), (60.0, 1)])
async def test_a_command_is_run_for_each_request_or_its_key_is_kept_for_a_while(
    tmp_path: Path, seconds: float, runs: int
) -> None:
    """M-074: resolved once per stream."""
    log = tmp_path / "runs"
    command = printing(tmp_path, f"open({str(log)!r}, 'a').write('x')", "print('sk-1234567')")
    settings: dict[str, Any] = {"apiKeyCommand": command, "apiKeyTtl": seconds}
    async with FaultyModelServer(HELLO, HELLO) as server, mounted(server, **settings) as llm:
        await ask(llm)
        await ask(llm)
    assert len(log.read_text()) == runs


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["print('sk-SECRET')", "raise SystemExit(3)"], "failed with exit status 3"),
        (["pass"], "is empty"),
    ],
)
async def test_a_command_that_gives_no_key_is_named_and_what_it_printed_is_not(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    async with mounted(
        baseUrl="http://models.invalid", apiKeyCommand=printing(tmp_path, *lines)
    ) as llm:
        found = await failure(llm)
    assert found.code == "MISSING_CREDENTIAL"
    assert said in found.message
    assert "SECRET" not in found.message


async def test_a_command_that_does_not_exist_is_named() -> None:
    async with mounted(baseUrl="http://models.invalid", apiKeyCommand="no-such-program x") as llm:
        found = await failure(llm)
    assert (found.code, "'no-such-program' cannot be run" in found.message) == (
        "MISSING_CREDENTIAL",
        True,
    )


async def test_the_configured_model_and_cap_are_the_defaults() -> None:
    """M-026: an agent that names no model uses the one of the plugin."""
    settings: dict[str, Any] = {"model": "tiny", "maxTokens": 64, "contextWindow": 4096}
    async with FaultyModelServer(models=("a",)) as server, mounted(server, **settings) as llm:
        call = await llm.prepare_call(LlmCallConfig(provider="openai"))
    assert (call.config.model, call.config.max_tokens) == ("tiny", 64)
    assert call.adapter_defaults == frozenset({"model", "max_tokens"})
    assert call.context_window == 4096


async def test_a_catalog_says_what_is_known_of_each_model() -> None:
    """M-075: advice; other models can be used, with the limits of the server."""
    settings: dict[str, Any] = {
        "maxTokens": 10,
        "models": {
            "big": {"title": "Big", "contextWindow": 99, "reasoningEffort": "high"},
            "plain": {"reasoningEfforts": [], "maxTokens": 5},
        },
    }
    async with mounted(baseUrl="http://models.invalid", **settings) as llm:
        listed = await llm.list_models("openai")
        other = await llm.resolve_model_info("openai", "other")
    big = ModelInfo(
        id="big", title="Big", context_window=99, max_tokens=10, default_reasoning_effort="high"
    )
    assert listed == (big, ModelInfo(id="plain", max_tokens=5, reasoning_efforts=()))
    assert other == ModelInfo(id="other", max_tokens=10)


async def test_without_a_catalog_the_server_is_asked_for_its_models() -> None:
    """M-075: and its list limits nothing."""
    async with (
        FaultyModelServer(models=("a", "b")) as server,
        mounted(server, contextWindow=7) as llm,
    ):
        listed = await llm.list_models("openai")
    assert listed == (ModelInfo(id="a", context_window=7), ModelInfo(id="b", context_window=7))


async def test_a_server_without_a_list_of_models_is_a_typed_failure() -> None:
    async with mounted(baseUrl="http://127.0.0.1:9/v1") as llm:
        with pytest.raises(LlmError, match="cannot connect to openai at 127") as raised:
            await llm.list_models("openai")
    assert raised.value.code == "TRANSPORT"


@pytest.mark.parametrize("direct", [True, False])
async def test_an_effort_that_is_not_offered_is_refused_before_anything_is_sent(
    direct: bool,
) -> None:
    """M-064, M-065: a model on which thinking is locked off takes no other effort."""
    locked: dict[str, Any] = {"models": {"m": {"reasoningEfforts": ["off"]}}}
    async with FaultyModelServer() as server, mounted(server, **locked) as llm:
        if direct:
            found = (await failure(llm, reasoning_effort="high")).code
        else:
            config = LlmCallConfig(provider="openai", model="m", reasoning_effort="high")
            with pytest.raises(HarnessError) as raised:
                await llm.prepare_call(config)
            found = raised.value.code
    assert found == "UNSUPPORTED_REASONING_EFFORT"
    assert server.requests == []


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "on"}, {"thinking": {"type": "enabled"}}),
        (
            {"reasoning_effort": "max"},
            {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
        ),
        (
            {"purpose": "session-title", "reasoning_effort": "max"},
            {"thinking": {"type": "disabled"}},
        ),
    ],
)
async def test_deepseek_is_told_how_much_to_think(
    asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    """M-064: a request beats the configured default, and titles need no thoughts."""
    settings: dict[str, Any] = {"preset": "deepseek", "reasoningEffort": "off"}
    async with FaultyModelServer(HELLO) as server, mounted(server, **settings) as llm:
        await ask(llm, "deepseek", **asked)
    body = server.requests[0].json
    assert {key: body[key] for key in ("thinking", "reasoning_effort") if key in body} == sent


async def test_an_effort_that_nobody_chose_is_not_sent() -> None:
    """M-064: unset is omitted."""
    async with FaultyModelServer(HELLO) as server, mounted(server, preset="deepseek") as llm:
        await ask(llm, "deepseek")
    assert not {"thinking", "reasoning_effort"} & server.requests[0].json.keys()


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"baseUrl": "api.openai.com"}, "http://"),
        ({"extraBody": {"messages": []}}, "cannot set messages"),
        ({"idleTimeout": 0}, "greater than 0"),
        ({"contextWindow": -1}, "greater than 0"),
        ({"models": {"m": {"maxTokens": 0}}}, "models.m.maxTokens"),
        ({"modle": "m"}, 'did you mean "model"'),
        ({"preset": "depseek"}, "preset"),
        ({"retry": {"maxDelayMs": 10}}, "initialDelayMs must not be above maxDelayMs (10)"),
        ({"apiKeyCommand": "print 'it"}, "apiKeyCommand: no closing quotation"),
        ({"preset": "deepseek", "reasoningEffort": "huge"}, "huge is not offered (known: off, on,"),
        (
            {"models": {"m": {"reasoningEfforts": [], "reasoningEffort": "low"}}},
            "models.m.reasoningEffort: low is not offered (known: none)",
        ),
        ({"headers": {"x": "é"}}, "no HTTP header can carry"),
    ],
)
async def test_a_wrong_setting_fails_the_plugin_and_is_named(
    config: dict[str, Any], fault: str
) -> None:
    """M-032, M-065, M-075: refused at every entry, and no effort is left out in silence."""
    async with Container() as root:
        await root.plugin(Llm).ready()
        with pytest.raises(PluginFailedError) as raised:
            await root.plugin(llm_openai, config).ready()
        assert isinstance(raised.value.__cause__, ConfigError)
        assert fault in str(raised.value.__cause__)


async def test_the_next_request_uses_changed_settings_and_a_wrong_change_keeps_the_last() -> None:
    """M-076: address, key, limits and catalog, without a restart of the plugin."""
    async with (
        FaultyModelServer(HELLO) as first,
        FaultyModelServer(HELLO, HELLO) as second,
        Container() as root,
    ):
        await root.plugin(Llm).ready()
        fiber = root.plugin(llm_openai, {"baseUrl": first.url, "apiKey": "key-one"})
        await fiber.ready()
        before = await root[Llm].prepare_call(LlmCallConfig(provider="openai", model="m"))
        changed = {"baseUrl": second.url, "apiKey": "key-two", "contextWindow": 7}
        await fiber.update(changed | {"models": {"x": {}}})
        assert [model.id for model in await root[Llm].list_models("openai")] == ["x"]
        with pytest.raises(ConfigError):
            await fiber.update({"contextWindow": "many"})
        await ask(root[Llm])
        messages = (create_user_message("hi"),)
        request = GenerateOptions(provider="openai", model="m", messages=messages)
        async with aclosing(before.stream(request)) as chunks:
            assert [chunk async for chunk in chunks]
        await fiber.update({"baseUrl": second.url})
        await ask(root[Llm])
    [old] = first.requests
    assert old.headers["authorization"] == "Bearer key-one"
    sent = [request.headers.get("authorization") for request in second.requests]
    assert sent == ["Bearer key-two", None]


async def test_a_changed_policy_or_name_registers_the_provider_again_in_place() -> None:
    """M-076, M-032: the policy is that of the settings."""
    config = {"baseUrl": "http://127.0.0.1:9", "provider": "mine"}
    async with Container() as root:
        await root.plugin(Llm).ready()
        fiber = root.plugin(llm_openai, config)
        await fiber.ready()
        await fiber.update(config | {"retry": {"maxRetries": 1, "retryableCodes": ["SERVER"]}})
        policy = root[Llm].provider_retry_policy("mine")
        assert policy is not None
        assert (policy.max_retries, policy.retryable_codes) == (1, frozenset({"SERVER"}))
        await fiber.update(config | {"provider": "yours"})
        assert [info.name for info in root[Llm].list_providers()] == ["yours"]
        await fiber.dispose()
        assert root[Llm].list_providers() == ()


async def test_settings_that_need_other_connections_restart_the_plugin() -> None:
    """M-076: from http to https; afterwards the provider is there again."""
    async with Container() as root:
        await root.plugin(Llm).ready()
        fiber = root.plugin(llm_openai, {"baseUrl": "http://models.invalid"})
        await fiber.ready()
        await fiber.update({"baseUrl": "https://models.invalid"})
        assert [info.name for info in root[Llm].list_providers()] == ["openai"]


async def test_a_harness_file_mounts_it(tmp_path: Path) -> None:
    """Two servers are two entries of the same plugin; a key may come from a file."""
    (tmp_path / "key").write_text("sk-from-file\n")
    file = tmp_path / "harness.yml"
    file.write_text(
        "plugins:\n"
        "  llm: {}\n"
        "  llm-openai: {model: gpt-5, apiKey: '${file:key}'}\n"
        "  local: {use: llm-openai, provider: qwen, baseUrl: 'http://localhost:1/v1'}\n"
    )
    async with open_harness(file) as root:
        names = {info.name for info in root[Llm].list_providers()}
    assert names == {"openai", "qwen"}


def test_settings_do_not_show_keys() -> None:
    """M-012: neither as text nor as JSON."""
    config = OpenAiConfig(api_key="sk-SECRET")  # type: ignore[arg-type]  # pydantic takes text
    assert "SECRET" not in repr(config) + str(config) + json.dumps(config.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("https://api.openai.com/v1/", False),
        ("http://localhost:8080/v1", True),
        ("http://127.8.0.1", True),
        ("http://[::1]:80/v1", True),
        ("https://models.invalid", False),
    ],
)
def test_the_address_tells_whether_the_server_is_here(url: str, loopback: bool) -> None:
    config = OpenAiConfig(base_url=url)
    assert config.is_loopback == loopback
    assert not config.base_url.endswith("/")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (status_answer(401, {"error": "no"}), "AUTH"),
        (raw_answer("<html>"), "MALFORMED_RESPONSE"),
        (raw_answer('{"data":1}'), "MALFORMED_RESPONSE"),
    ],
)
async def test_a_list_of_models_that_is_refused_or_garbled_is_a_typed_failure(
    answer: WireAnswer, code: str
) -> None:
    async with FaultyModelServer(models=answer) as server, mounted(server) as llm:
        with pytest.raises(LlmError) as raised:
            await llm.list_models("openai")
    assert raised.value.code == code
