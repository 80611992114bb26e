"""The OpenAPI document, made of the table of routes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from ._answers import ErrorAnswer, Resolved
from ._calls import COMMON_ERRORS, Answers, Call, Endpoint

_REFERENCE: Final = "#/components/schemas/{model}"


def endpoint_of(table: Sequence[Endpoint]) -> Endpoint:
    """Returns the route that gives the document of a table, itself included."""
    paths: list[Endpoint] = []

    async def show_document(call: Call) -> ASGIApp:
        return JSONResponse(document(paths, call.site.links.base_path))

    answers: Answers = {200: (Resolved,)}
    own = Endpoint("GET", "/openapi.json", show_document, "Give this document.", None, answers)
    paths += [*table, own]
    return own


def document(endpoints: Iterable[Endpoint], base_path: str = "") -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of the endpoints."""
    endpoints = tuple(endpoints)
    models = dict.fromkeys(_models(endpoints))
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], by_alias=True, ref_template=_REFERENCE
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Terret", "version": version("terret-plugin-http")},
        "servers": [{"url": base_path or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }


def _models(endpoints: Iterable[Endpoint]) -> Iterable[type[BaseModel]]:
    yield ErrorAnswer
    for endpoint in endpoints:
        if endpoint.body is not None:
            yield endpoint.body
        for answer in endpoint.answers.values():
            if not isinstance(answer, str):
                yield from answer


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    answers = {str(status): _answer(status, each) for status, each in endpoint.answers.items()}
    statuses = sorted({*COMMON_ERRORS, *endpoint.errors})
    errors = {str(status): _answer(status, (ErrorAnswer,)) for status in statuses}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__ + _suffix(endpoint),
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {**errors, **answers},
    }
    if endpoint.role is None:
        operation["security"] = []
    else:
        operation["description"] = f'Needs the role "{endpoint.role}".'
    if endpoint.body is not None:
        required = any(field.is_required() for field in endpoint.body.model_fields.values())
        operation["requestBody"] = {"required": required, "content": _content((endpoint.body,))}
    return operation


def _suffix(endpoint: Endpoint) -> str:
    """Tells routes of one handler apart."""
    return "_of_session" if endpoint.path.count("{") > 1 else ""


def _answer(status: int, answer: tuple[type[BaseModel], ...] | str) -> dict[str, Any]:
    told: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if isinstance(answer, str):
        told["content"] = {answer: {"schema": {"type": "string"}}}
    elif answer:
        told["content"] = _content(answer)
    return told


def _content(models: tuple[type[BaseModel], ...]) -> Mapping[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"application/json": {"schema": schema}}


def _path_parameters(endpoint: Endpoint) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", endpoint.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(endpoint: Endpoint) -> Iterable[dict[str, Any]]:
    schema = endpoint.query.model_json_schema(by_alias=True)
    for name, value in schema.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": False, "schema": value}
