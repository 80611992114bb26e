"""What people read when a request fails: who, where, why, and what to do about it."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from mounted_models import mounted_model
from terret_context import PluginFailedError
from terret_llm import Finish, FinishChunk, GenerateOptions, Llm, LlmFailure, create_user_message
from terret_plugin_llm_openai import OpenAiConfig, llm_openai
from terret_testing import (
    FaultyModelServer,
    WireAnswer,
    chat_answer,
    event_answer,
    raw_answer,
    silent_answer,
    status_answer,
)

mounted = partial(mounted_model, llm_openai)
KEY = "abcd/SECRET+key=0123"
BEGUN = event_answer({"choices": [{"delta": {"content": "x"}}]})
PAGE = b"<html>\n<head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


async def finish_of(llm: Llm) -> Finish:
    request = GenerateOptions(provider="openai", model="m", messages=(create_user_message("hi"),))
    with anyio.fail_after(20):
        async with aclosing(llm.stream(request)) as stream:
            chunks = [chunk async for chunk in stream]
    assert isinstance(chunks[-1], FinishChunk)
    return chunks[-1].finish


async def failure(llm: Llm) -> LlmFailure:
    failure = (await finish_of(llm)).failure
    assert failure is not None
    return failure


@asynccontextmanager
async def greeting(words: bytes) -> AsyncIterator[int]:
    """A server that is none of models: it answers the first bytes with these. Yields its port."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(words)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            status_answer(404, b"404 page not found"),
            "{} answered HTTP 404: 404 page not found; nothing is at {url}/chat/completions: "
            "check baseUrl",
        ),
        (
            WireAnswer(status=308, headers={"location": "https://elsewhere.invalid/v1"}),
            "{} answered HTTP 308: go to https://elsewhere.invalid/v1; redirects are not followed: "
            "let baseUrl name where the server is",
        ),
        (
            status_answer(429, {"error": {"message": "slow down."}}, retry_after="600"),
            "{} answered HTTP 429: slow down; it asks to wait 600 s",
        ),
        (
            WireAnswer(status=502, headers={"content-type": "text/html"}, body=PAGE),
            "{} answered HTTP 502: a page in HTML: 502 Bad Gateway",
        ),
        (raw_answer(PAGE), "{} sent no JSON: a page in HTML: 502 Bad Gateway"),
        (BEGUN.resets(), "the connection to {} broke: Connection reset by peer"),
        (silent_answer(), "{} sent nothing of an answer for 0.1 s (firstByteTimeout)"),
        (BEGUN.holds(), "{} sent nothing of an answer for 0.2 s (idleTimeout)"),
        (BEGUN.ends(-9), "{} closed the stream without an answer"),
        (
            event_answer('{"choices":[{"delta":{"content":"x"}}]}', '{"cho').ends(-2),
            "{} closed the stream in the middle of the answer",
        ),
    ],
)
async def test_a_failure_says_who_where_why_and_what_to_do(answer: WireAnswer, words: str) -> None:
    """M-071, B-021, B-116, B-133: on one line, by the names that the settings have."""
    limits = {"firstByteTimeout": 0.1, "idleTimeout": 0.2}
    async with FaultyModelServer(answer) as server, mounted(server, **limits) as llm:
        found = await failure(llm)
    assert found.message == words.format(f"openai at {server.host}", url=server.url)


@pytest.mark.parametrize("echo", [KEY, "abcd%2FSECRET%2Bkey%3D0123", "abcd/SEC********0123"])
@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"apiKey": KEY}, "the key is that of apiKey"),
        ({"apiKeyCommand": f"echo {KEY}"}, "the key is that of apiKeyCommand"),
        ({"apiKeyEnv": "TEAM_KEY"}, "the key is that of the environment variable TEAM_KEY"),
    ],
)
async def test_a_refused_key_is_named_by_its_place_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], place: str, echo: str
) -> None:
    """B-125, B-271, M-012: also when the server quotes it, escapes it, or masks it in part."""
    monkeypatch.setenv("TEAM_KEY", KEY)
    answer = status_answer(401, {"error": {"message": f"Wrong key {echo} in request."}})
    async with FaultyModelServer(answer) as server, mounted(server, **config) as llm:
        found = await failure(llm)
    said = "Wrong key [removed] in request"
    assert found.message == f"openai at {server.host} answered HTTP 401: {said}; {place}"


async def test_a_server_that_wants_a_key_and_got_none_says_so() -> None:
    async with FaultyModelServer(status_answer(401)) as server, mounted(server) as llm:
        found = await failure(llm)
    assert found.message.endswith("; no key was sent: apiKeyEnv names the variable that holds it")


async def test_what_a_router_was_told_by_the_server_behind_it_is_shown() -> None:
    """The router's own words are the same for every failure."""
    metadata = {"raw": '{"error":{"message":"context is full"}}', "provider_name": "x"}
    body = {"error": {"message": "Provider returned error", "code": 502, "metadata": metadata}}
    async with FaultyModelServer(status_answer(502, body)) as server, mounted(server) as llm:
        found = await failure(llm)
    assert found.message.endswith("HTTP 502: Provider returned error: context is full")


async def test_a_port_that_speaks_no_tls_is_told_from_one_that_is_closed() -> None:
    async with (
        greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port,
        mounted(base_url=f"https://127.0.0.1:{port}/v1") as llm,
    ):
        found = await failure(llm)
    assert found == LlmFailure(
        f"cannot connect to openai at 127.0.0.1:{port}: wrong version number; "
        "does it speak TLS? else let baseUrl begin with http://",
        "TRANSPORT",
    )


async def test_a_port_that_speaks_no_http_is_a_broken_connection() -> None:
    async with (
        greeting(b"SSH-2.0\r\n") as port,
        mounted(base_url=f"http://127.0.0.1:{port}") as llm,
    ):
        found = await failure(llm)
    assert found.code == "TRANSPORT"
    assert found.message.startswith(f"the connection to openai at 127.0.0.1:{port} broke: ")


async def test_a_server_may_listen_on_ipv6() -> None:
    async with FaultyModelServer(status_answer(500), host="::1") as server, mounted(server) as llm:
        found = await failure(llm)
    assert found.message.startswith("openai at [::1]:")
    assert found.code == "SERVER"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("configured", [True, False])
async def test_a_proxy_that_is_not_there_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, scheme: str, configured: bool
) -> None:
    """B-271: whether it is a setting or comes from the environment."""
    proxy = "http://user:SECRET@127.0.0.1:9"
    monkeypatch.setenv(f"{scheme}_proxy", "" if configured else proxy)
    config: dict[str, Any] = {"proxy": proxy} if configured else {}
    async with mounted(base_url=f"{scheme}://models.invalid/v1", **config) as llm:
        found = await failure(llm)
    assert found.message == (
        "cannot connect to openai at models.invalid through the proxy 127.0.0.1:9: "
        "Connection refused; check the proxy"
    )


async def test_a_proxy_that_refuses_is_told_from_the_server() -> None:
    async with FaultyModelServer() as proxy:
        address = f"http://{proxy.host}"
        async with mounted(base_url="https://models.invalid/v1", proxy=address) as llm:
            found = await failure(llm)
    assert found.code == "TRANSPORT"
    assert f"models.invalid through the proxy {proxy.host}: " in found.message


@pytest.mark.parametrize(
    "proxy",
    ["socks9://u:SECRET@127.0.0.1:9", "http://u:SECR/ET@127.0.0.1:9", "socks5://127.0.0.1:9"],
)
async def test_a_proxy_of_the_environment_that_cannot_be_used_says_why(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    if proxy.startswith("socks5") and importlib.util.find_spec("socksio"):
        pytest.skip("proxies of the kind SOCKS can be used here")
    monkeypatch.setenv("all_proxy", proxy)
    async with mounted(base_url="http://models.invalid/v1") as llm:
        found = await failure(llm)
    assert found.code == "INVALID_REQUEST"
    assert found.message.startswith("the proxy cannot be used: ")
    assert "SECR" not in found.message


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"proxy": "ftp://user:SECRET@there"}, "proxy: must begin with http://"),
        ({"baseUrl": "https://user:SECRET@there/v1"}, "baseUrl: must not hold a password"),
        ({"headers": {"x-key": "SECRÈT"}}, "headers: 'x-key' holds characters"),
        ({"headers": {"x-key": "SECRET\nx: y"}}, "headers: 'x-key' holds characters"),
        ({"headers": {"x key": "SECRET"}}, "headers: 'x key' is no name of an HTTP header"),
        ({"headers": {"Content-Length": "3"}}, "headers: 'Content-Length' is set by"),
        ({"sessionHeader": "x: y"}, "sessionHeader: 'x: y' is no name of an HTTP header"),
        ({"baseUrl": "https://there/v1?key=SECRET"}, "baseUrl: must be an address without query"),
        ({"baseUrl": "https://there:99999/v1"}, "baseUrl: is no valid address"),
        ({"baseUrl": "https://user:SECR/ET@there/v1"}, "baseUrl: is no valid address"),
        ({"proxy": "http://user:SECR/ET@there"}, "proxy: is no valid address"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_refused_without_showing_it(
    config: dict[str, Any], complaint: str
) -> None:
    """B-271, M-012: what h11 says of a header that cannot be sent would show it."""
    with pytest.raises(PluginFailedError) as raised:
        async with mounted(**config):
            raise AssertionError("it was mounted")
    assert complaint in str(raised.value)
    assert "SECR" not in str(raised.value)


def test_settings_show_no_headers_and_no_proxy() -> None:
    """B-271: they carry keys and passwords as well as `apiKey` does."""
    config = OpenAiConfig.model_validate(
        {"headers": {"authorization": "Bearer SECRET"}, "proxy": "http://u:SECRET@127.0.0.1:9"}
    )
    assert "SECRET" not in repr(config) + config.model_dump_json()


async def test_white_space_around_a_header_is_not_sent() -> None:
    """It comes from files and commands, and HTTP has no place for it."""
    headers = {"authorization": " Bearer of-a-file\n"}
    hello = chat_answer("Hi")
    async with FaultyModelServer(hello) as server, mounted(server, headers=headers) as llm:
        assert await finish_of(llm) == Finish.stop()
    assert server.requests[0].headers["authorization"] == "Bearer of-a-file"
