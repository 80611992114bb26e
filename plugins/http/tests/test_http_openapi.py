"""The OpenAPI document, and whether the service does what it says."""

from typing import Any

import pytest
import schemathesis
from anyio import from_thread, to_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from requests import Request
from schemathesis import Case, checks

from agent_projects import Project
from generated_cases import mend_generation
from http_apps import Client, Reply, run_service
from terret_testing import Answer, call, say

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


async def test_the_document_has_all_routes(project: Project) -> None:
    """Each operation has its own id, and the errors have one shape."""
    async with run_service(project) as service:
        document = (await service.client.get("/openapi.json")).json
        assert document["openapi"] == "3.1.0"
        operations = [each for path in document["paths"].values() for each in path.values()]
        ids = [operation["operationId"] for operation in operations]
        assert len(ids) == len(set(ids)) == 24
        assert "/agents/{agent}/messages" in document["paths"]
        body = document["components"]["schemas"]["MessageBody"]
        assert body["required"] == ["message"]
        assert set(body["properties"]) == {"message", "sessionId", "messageId", "whenBusy"}


async def head(client: Client, request: Any) -> Reply:
    """Sends a request; of a stream the beginning is enough."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    path = request.path_url
    body = request.body.encode() if isinstance(request.body, str) else request.body
    async with client.stream(request.method, path, body, headers=headers) as stream:
        whole = b""
        if "event-stream" not in stream.headers.get("content-type", ""):
            async for chunk in stream.chunks:
                whole += chunk
        return Reply(stream.status, stream.headers, whole)


async def known_names(client: Client) -> dict[str, str]:
    """Returns names for paths that are there; what is missing is made."""
    listed = (await client.get("/agents/shop/approvals")).json["approvals"]
    while not listed:
        await client.send("Sell", sessionId="two")
        listed = (await client.get("/agents/shop/approvals")).json["approvals"]
    if (await client.get("/agents/shop/sessions/one")).status == 404:
        await client.send("Hi", sessionId="one")
    return {"agent": "shop", "session": "one", "item": listed[0]["id"], "child": "none"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # it takes a while
async def test_the_service_does_what_the_document_says(
    seller: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is sent: statuses, media types and bodies are those of the document."""
    mend_generation(monkeypatch)
    answers: list[Answer] = [call("sell", item="hat"), say("Sold.")] * 400
    async with run_service(seller, *answers, http="{maxWaitSeconds: 1}") as service:
        document = (await service.client.get("/openapi.json")).json
        schema = schemathesis.openapi.from_dict(document)
        checks.load_all_checks()
        all_checks: Any = [checks.CHECKS.get_one(name) for name in CHECKS]

        def conforms(case: Case[Any], known: bool) -> None:
            names = from_thread.run(known_names, service.client) if known else {}
            case.path_parameters.update(
                {name: names.get(name, value) for name, value in case.path_parameters.items()}
            )
            given = case.as_transport_kwargs(base_url="http://localhost:8787")
            given.pop("cookies", None)
            request = Request(**given).prepare()
            reply = from_thread.run(head, service.client, request)
            headers = {name: [value] for name, value in reply.headers.items()}
            response = schemathesis.Response(
                reply.status, headers, reply.body, request, elapsed=0.0, verify=False
            )
            case.validate_response(response, checks=all_checks)

        bounded = settings(
            max_examples=8,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        often = st.sampled_from([True, True, True, False])
        for operation in schema.get_all_operations():
            case: Any = operation.ok().as_strategy()  # type: ignore[union-attr]  # the document is valid
            await to_thread.run_sync(bounded(given(case=case, known=often)(conforms)))
