"""The routes about the service itself: agents, configuration, protocol, health."""

from importlib.metadata import version
from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from terret_llm import Llm

from ._answers import AgentList, Answer, Gateways, Health, Models, Resolved
from ._calls import Call, Endpoint, Handler
from ._config import Role
from ._status import Status


async def list_agents(call: Call) -> ASGIApp:
    """Lists the agents of the project."""
    folders = call.site.folders
    definitions = folders.definitions
    entries = []
    for name in folders.names:
        definition = definitions.get(name)
        entry: dict[str, object] = {"name": name, "status": "ok" if definition else "unavailable"}
        if definition is not None and definition.config.description is not None:
            entry["description"] = definition.config.description
        if definition is not None and Role.ADMIN in call.by.roles:
            entry["systemPrompt"] = definition.prompt
        entries.append(entry)
    return JSONResponse({"agents": entries}, headers=_NO_STORE)


async def show_agent(call: Call) -> ASGIApp:
    """Tells how an agent is set up."""
    definition = call.site.definition(call.names["agent"])
    settings = definition.config.model_dump(mode="json", by_alias=True, exclude={"plugins"})
    body = {
        **settings,
        "name": definition.name,
        "systemPrompt": definition.prompt,
        "tools": [tool.name for tool in definition.tools],
        "plugins": sorted(definition.config.plugins),  # their settings may hold secrets
    }
    return JSONResponse(body, headers=_NO_STORE)


async def show_config(call: Call) -> ASGIApp:
    """Tells how the service is set up."""
    site = call.site
    entries = [fiber for fiber in site.ctx.root.fibers() if fiber.entry is not None]
    body = {
        "version": version("terret-plugin-http"),
        "environment": site.folders.environment,
        "tokens": [
            {"name": each.name, "roles": sorted(each.roles)} for each in site.tokens.callers
        ],
        "plugins": [{"name": each.name, "state": each.state.name.lower()} for each in entries],
    }
    return JSONResponse(body, headers=_NO_STORE)


async def list_models(call: Call) -> ASGIApp:
    """Lists the providers of models."""
    llm = call.site.ctx.get(Llm)
    providers = [{"name": each.name} for each in llm.list_providers()] if llm else []
    return JSONResponse({"providers": providers}, headers=_NO_STORE)


async def list_gateways(call: Call) -> ASGIApp:
    """Lists the sources of tools that other services offer; no plugin brings any yet."""
    return JSONResponse({"sources": []}, headers=_NO_STORE)


async def show_schema(call: Call) -> ASGIApp:
    """Gives the JSON Schema of protocol v1."""
    return Response(call.site.loop_events.schema, media_type="application/json")


async def show_health(call: Call) -> ASGIApp:
    """Tells that the process answers."""
    return JSONResponse({"status": "ok"}, headers=_NO_STORE)


async def show_readiness(call: Call) -> ASGIApp:
    """Tells whether messages are taken."""
    status = call.site.status
    code = 200 if status is Status.READY else 503
    return JSONResponse({"status": status}, code, headers=_NO_STORE)


_NO_STORE: Final = {"Cache-Control": "no-store"}


def _get(
    path: str, handler: Handler, summary: str, role: Role | None, model: type[Answer]
) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        handler=handler,
        role=role,
        summary=summary,
        answers={200: (model,)},
        errors=(400, 401, 403, 404, 500, 502, 503),
    )


ENDPOINTS: Final = (
    _get("/agents", list_agents, "List the agents.", Role.CHAT, AgentList),
    _get(
        "/agents/{agent}/config", show_agent, "Tell how an agent is set up.", Role.ADMIN, Resolved
    ),
    _get("/config", show_config, "Tell how the service is set up.", Role.ADMIN, Resolved),
    _get("/config/models", list_models, "List the providers of models.", Role.ADMIN, Models),
    _get("/config/gateways", list_gateways, "List the sources of tools.", Role.ADMIN, Gateways),
    _get(
        "/protocol/loop-event.schema.json",
        show_schema,
        "Give the JSON Schema of protocol v1.",
        None,
        Resolved,
    ),
    _get("/healthz", show_health, "Tell that the process answers.", None, Health),
    _get("/readyz", show_readiness, "Tell whether messages are taken.", None, Health),
)
