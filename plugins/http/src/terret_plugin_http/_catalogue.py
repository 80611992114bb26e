"""The routes about the service itself: agents, configuration, protocol, health."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from terret_llm import Llm, ModelInfo

from ._answers import AgentList, Gateways, Health, Models, Resolved
from ._bodies import ModelsQuery
from ._calls import Call, Endpoint
from ._config import Role
from ._errors import HttpError, error_id
from ._neighbours import Entries
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
        "plugins": _names(definition.plugins),  # their settings may hold secrets
    }
    return JSONResponse(body, headers=_NO_STORE)


def _names(plugins: Entries | Mapping[str, object] | None) -> list[str]:
    if plugins is None:
        return []
    return sorted(plugins if isinstance(plugins, Mapping) else plugins.items)


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
        "faults": [str(fault) for fault in await site.folders.check()],
    }
    return JSONResponse(body, headers=_NO_STORE)


async def list_models(call: Call) -> ASGIApp:
    """Lists the providers of models and, asked for, the models of one."""
    llm, wanted = call.site.ctx.get(Llm), call.queried(ModelsQuery).provider
    providers = llm.list_providers() if llm is not None else ()
    body: dict[str, object] = {
        "providers": [_present(name=each.name, title=each.title) for each in providers]
    }
    if llm is not None and wanted is not None:
        if all(each.name != wanted for each in providers):
            raise HttpError(404, "not_found", f'there is no provider "{wanted}"')
        body["models"] = [
            _present(id=each.id, title=each.title, contextWindow=each.context_window)
            for each in await _models(call, llm, wanted)
        ]
    return JSONResponse(body, headers=_NO_STORE)


async def _models(call: Call, llm: Llm, provider: str) -> tuple[ModelInfo, ...]:
    try:
        return await llm.list_models(provider)
    except Exception as error:
        id = error_id()
        call.site.ctx.report(error, label=f"models of {provider} (error {id})")
        text = f'the provider "{provider}" does not list its models: see the log'
        raise HttpError(502, "gateway", text, fields={"errorId": id}) from None


def _present(**fields: object) -> dict[str, object]:
    """Returns the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


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


ENDPOINTS: Final = (
    Endpoint("GET", "/agents", list_agents, "List the agents.", Role.CHAT, {200: (AgentList,)}),
    Endpoint(
        "GET",
        "/agents/{agent}/config",
        show_agent,
        "Tell how an agent is set up.",
        Role.ADMIN,
        {200: (Resolved,)},
    ),
    Endpoint(
        "GET",
        "/config",
        show_config,
        "Tell how the service is set up.",
        Role.ADMIN,
        {200: (Resolved,)},
    ),
    Endpoint(
        "GET",
        "/config/models",
        list_models,
        "List providers and models.",
        Role.ADMIN,
        {200: (Models,)},
        query=ModelsQuery,
        errors=(502,),
    ),
    Endpoint(
        "GET",
        "/config/gateways",
        list_gateways,
        "List the sources of tools.",
        Role.ADMIN,
        {200: (Gateways,)},
    ),
    Endpoint(
        "GET",
        "/protocol/loop-event.schema.json",
        show_schema,
        "Give the JSON Schema of protocol v1.",
        None,
        {200: (Resolved,)},
    ),
    Endpoint(
        "GET", "/healthz", show_health, "Tell that the process answers.", None, {200: (Health,)}
    ),
    Endpoint(
        "GET",
        "/readyz",
        show_readiness,
        "Tell whether messages are taken.",
        None,
        {200: (Health,), 503: (Health,)},
    ),
)
