"""Who may call, from where, and under which name."""

from base64 import b64encode

import pytest
from pydantic import ValidationError

from agent_projects import Project
from http_apps import Client, Reply, Service, run_service
from terret_context import ConfigError
from terret_plugin_http import Http, HttpConfig, MissingTokenError
from terret_testing import call, say

ADMIN_PATHS = ("/config", "/config/models", "/config/gateways", "/agents/shop/config")


@pytest.fixture
def tokens(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tokens are set, in an environment that the project has cleared."""
    monkeypatch.setenv("TERRET_API_TOKEN", "api-secret")
    monkeypatch.setenv("TERRET_ADMIN_TOKEN", "admin-secret")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_without_tokens_callers_of_this_machine_may_do_everything(project: Project) -> None:
    """E-208, E-209: Under a loopback name only, so that no page of another site reaches it."""
    async with run_service(project) as service:
        client = service.client
        for host in ("localhost", "127.0.0.1:8787", "[::1]:8787", "LOCALHOST:1"):
            (agent,) = (await client.get("/agents", host=host)).json["agents"]
            assert agent["systemPrompt"] == "Sell things."
        for host in ("example.com", "127.0.0.1.example.com", "", "[", "10.0.0.1:8787"):
            assert (await client.get("/agents", host=host)).code == "403 origin_refused"
        client.address = ("10.0.0.7", 5000)
        assert (await client.get("/agents")).code == "401 unauthorized"


@pytest.mark.usefixtures("tokens")
async def test_a_token_is_needed_once_there_is_one(project: Project) -> None:
    """E-202, E-203, E-210: As Bearer or as the password of Basic; it is never shown."""
    async with run_service(project, say("Hello.")) as service:
        client = service.client
        basic = {"authorization": "Basic " + b64encode(b"anybody:api-secret").decode()}
        for good in (bearer("api-secret"), basic, {"authorization": "bearer api-secret"}):
            assert (await client.get("/agents", **good)).status == 200
        no_name = b64encode(b"api-secret").decode()
        words = ("Bearer wrong", "Bearer api-secre", "Bearer ", "Basic !", "Basic", "")
        for value in (*words, f"Basic {no_name}"):
            refused = await client.get("/agents", authorization=value)
            assert refused.code == "401 unauthorized"
            assert refused.headers["www-authenticate"].startswith("Bearer")
        for path in ("/healthz", "/readyz", "/protocol/loop-event.schema.json", "/openapi.json"):
            assert (await client.get(path)).status == 200
        replies = [await client.get(path, **bearer("admin-secret")) for path in ADMIN_PATHS]
        assert all("secret" not in reply.body.decode() for reply in replies)


@pytest.mark.usefixtures("tokens")
async def test_administration_needs_the_admin_token(project: Project) -> None:
    """E-204, E-209: Which is good for everything."""
    async with run_service(project, say("Hello.")) as service:
        client = service.client
        for path in ADMIN_PATHS:
            assert (await client.get(path, **bearer("api-secret"))).code == "403 forbidden"
            assert (await client.get(path, **bearer("admin-secret"))).status == 200
        body = {"message": "Hi"}
        sent = await client.post("/agents/shop/messages", body, headers=bearer("admin-secret"))
        assert sent.status == 200
        (agent,) = (await client.get("/agents", **bearer("api-secret"))).json["agents"]
        assert "systemPrompt" not in agent


async def test_without_an_admin_token_nobody_administers(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-205: A token may be any text."""
    monkeypatch.setenv("TERRET_API_TOKEN", "g\u00e9heim")
    monkeypatch.setenv("TERRET_ADMIN_TOKEN", "")
    async with run_service(project) as service:
        for path in ADMIN_PATHS:
            refused = await service.client.get(path, **bearer("g\u00e9heim"))
            assert refused.code == "403 forbidden"
            assert (await service.client.get(path, **bearer(""))).code == "401 unauthorized"


async def test_who_chats_does_not_decide(seller: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-206: Nor does who decides chat."""
    monkeypatch.setenv("USERS", "user-secret")
    monkeypatch.setenv("DECIDERS", "boss-secret")
    http = "{auth: {tokens: [{env: USERS, roles: [chat]}, {env: DECIDERS, roles: [decide]}]}}"
    async with run_service(seller, call("sell", item="hat"), say("Sold."), http=http) as service:
        client, user, boss = service.client, bearer("user-secret"), bearer("boss-secret")
        body = {"message": "Hi", "sessionId": "one"}
        asked = await client.post("/agents/shop/messages", body, headers=user)
        url = asked.json["approveUrl"]
        lists = ("approvals", "questions", "sessions/one/approvals", "sessions/one/questions")
        for path in lists:
            assert (await client.get(f"/agents/shop/{path}", **user)).code == "403 forbidden"
        for path in (url, asked.json["denyUrl"], "/questions/x/answer"):
            refused = await client.post(path, {"answer": "x"}, headers=user)
            assert refused.code == "403 forbidden"
        chat = await client.post("/agents/shop/messages", body, headers=boss)
        assert chat.code == "403 forbidden"
        assert (await client.post(url, headers=boss)).json["text"] == "Sold."


async def test_pages_of_other_origins_may_not_call(project: Project) -> None:
    """E-207: Unless they are listed; then a browser is told so, on every answer."""
    http = "{allowOrigins: ['https://app.example']}"
    async with run_service(project, say("Hello."), http=http) as service:
        client = service.client
        for origin in ("https://evil.example", "null", "http://localhost:9999", "http://[", ""):
            refused = await client.get("/agents", origin=origin)
            assert refused.code == "403 origin_refused"
            assert "access-control-allow-origin" not in refused.headers
        same = await client.get("/agents", origin="http://localhost:8787")
        assert same.status == 200
        listed = await client.get("/agents", origin="https://app.example")
        assert listed.headers["access-control-allow-origin"] == "https://app.example"
        assert listed.headers["access-control-expose-headers"] == "Terret-Session-Id"
        preflight = await client.request(
            "OPTIONS",
            "/agents/shop/messages",
            headers={
                "origin": "https://app.example",
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization, content-type",
            },
        )
        assert preflight.status == 200
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]


@pytest.mark.usefixtures("tokens")
async def test_with_tokens_any_name_will_do_unless_some_are_listed(project: Project) -> None:
    """E-208: The list holds names without ports."""
    async with run_service(project) as service:
        reply = await service.client.get("/agents", host="any.example", **bearer("api-secret"))
        assert reply.status == 200
    async with run_service(project, http="{allowedHosts: [api.example]}") as service:
        codes: dict[str, Reply] = {}
        for host in ("api.example", "API.example:443", "any.example", "localhost"):
            codes[host] = await service.client.get("/healthz", host=host)
        assert [reply.status for reply in codes.values()] == [200, 200, 403, 403]


async def test_only_trusted_proxies_speak_for_others(project: Project) -> None:
    """E-545."""

    async def asked(service: Service) -> Reply:
        return await service.client.get("/agents", **{"x-forwarded-for": "203.0.113.9"})

    async with run_service(project) as service:
        assert (await asked(service)).status == 200
    async with run_service(project, http="{trustedProxies: ['127.0.0.1']}") as service:
        assert (await asked(service)).code == "401 unauthorized"
        assert (await service.client.get("/agents")).status == 200


async def test_a_token_that_is_not_there_is_a_fault_of_the_start(project: Project) -> None:
    """A service that is open because of a slip would be worse."""
    project.write({"harness.yml": ""})
    http = "{auth: {tokens: [{env: NOT_SET, roles: [chat]}]}}"
    with pytest.raises(MissingTokenError, match="NOT_SET"):
        async with run_service(project, http=http):
            pass


def test_settings_are_checked() -> None:
    """E-200: The default is this machine."""
    config = HttpConfig()
    assert (config.host, config.port) == ("127.0.0.1", 8787)
    for bad in ({"port": 70000}, {"basePath": "x"}, {"basePath": "/x/"}, {"heartbeatSeconds": 0}):
        with pytest.raises(ValidationError, match=next(iter(bad))):
            HttpConfig.model_validate(bad)


async def test_limits_change_while_the_service_runs(project: Project) -> None:
    """Whatever the app was made of makes it a new one."""
    async with run_service(project) as service:
        fiber = service.ctx[Http].ctx.fiber
        await fiber.update({"maxBodyBytes": 5})
        refused = await service.client.post("/agents/shop/messages", {"message": "Hi"})
        assert refused.code == "413 too_large"
        with pytest.raises(ConfigError):
            await fiber.update({"maxBodyBytes": 0})
        await fiber.update({"basePath": "/api"})
        renewed = Client(service.ctx[Http].app)
        assert (await renewed.get("/api/healthz")).status == 200
