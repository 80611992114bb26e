import re
from collections.abc import Collection, Sequence
from typing import cast

from terret_llm import GenerateOptions, ToolSchema

from ._prompts import few_shot
from ._schemas import JsonSchema, choice, kind_of, properties_of, required_of
from ._spans import Number, numbers, phrases, quotations
from ._turns import Turn
from ._words import stems

_EXAMPLES = (
    ("population(country): What is the population of Chile?", '{"country": "Chile"}'),
    ("subtract(a, b): How much is 90 minus 45?", '{"a": 90, "b": 45}'),
    (
        "find_book(title): Please look for the book The Old Man and the Sea.",
        '{"title": "The Old Man and the Sea"}',
    ),
    ("delete_file(path): Remove the file tmp/log-1.csv for me.", '{"path": "tmp/log-1.csv"}'),
)
_STARTS_WITH_NUMERAL = re.compile(r"[\d.,-]+(?:\s|$)")
_LOOKS_LIKE_A_NAME = re.compile(r"(?=.*[A-Za-z]).*[A-Z0-9/_.]")


def argument_prompt(tool: ToolSchema, turn: Turn) -> GenerateOptions:
    """The request to copy the arguments of a call of `tool` from what the person said."""
    signature = f"{tool.name}({', '.join(properties_of(tool.parameters))})"
    instruction = "Copy the arguments of the call from the request."
    return few_shot(instruction, _EXAMPLES, f"{signature}: {turn.request}", max_tokens=256)


def argument_schema(tool: ToolSchema, turn: Turn) -> JsonSchema | None:
    """The parameters of `tool`, restricted to what the request says; None if it lacks something.

    Numbers and strings become choices among the spans of the request. An optional parameter is
    left out unless the request has a span to spare for it.
    """
    restricted = _Restriction(tool, turn).of_object(tool.parameters)
    if restricted is None or "$defs" not in tool.parameters:
        return restricted
    return {"$defs": tool.parameters["$defs"], **restricted}


def determined(schema: JsonSchema) -> dict[str, object]:
    """The arguments for which a restricted schema leaves no choice, by name."""
    choices = {name: part.get("enum") for name, part in properties_of(schema).items()}
    return {
        name: values[0]
        for name, values in choices.items()
        if isinstance(values, list) and len(values) == 1
    }


def without(schema: JsonSchema, names: Collection[str]) -> JsonSchema:
    """An object schema that lacks the properties `names`."""
    left = {name: part for name, part in properties_of(schema).items() if name not in names}
    return {**schema, "properties": left, "required": list(left)}


class _Restriction:
    """Narrows the schemas of one tool to the spans of one request."""

    def __init__(self, tool: ToolSchema, turn: Turn) -> None:
        properties = properties_of(tool.parameters)
        kinds = [kind_of(properties.get(name, {})) for name in required_of(tool.parameters)]
        self._request = turn.request.lower()
        self._needed = kinds.count("number") + kinds.count("integer")
        self._numbers = _numbers(turn, self._needed)
        self._unused = iter(self._numbers)
        self._texts = quotations(turn.request)
        if len(self._texts) < max(kinds.count("string"), 1):
            keywords = stems(f"{tool.name} {tool.description}")
            self._texts += phrases(turn.request, keywords)
        if self._needed:
            self._texts = [text for text in self._texts if not _STARTS_WITH_NUMERAL.match(text)]

    def of_object(self, schema: JsonSchema) -> JsonSchema | None:
        required = required_of(schema)
        kept: dict[str, JsonSchema] = {}
        for name, part in properties_of(schema).items():
            narrowed = self._of_value(part, required=name in required)
            if narrowed is not None:
                kept[name] = narrowed
            elif name in required:
                return None
        return {
            "type": "object",
            "properties": kept,
            "required": list(kept),
            "additionalProperties": False,
        }

    def _of_value(self, schema: JsonSchema, *, required: bool) -> JsonSchema | None:
        match kind_of(schema):
            case "number":
                return choice(self._numbers_for(required=required))
            case "integer":
                return choice([n for n in self._numbers_for(required=required) if n == int(n)])
            case "string":
                return choice([t for t in self._texts if required or _LOOKS_LIKE_A_NAME.match(t)])
            case "enum":
                values = cast("Sequence[object]", schema["enum"])
                said = [value for value in values if str(value).lower() in self._request]
                return choice(said or (values if required else ()))
            case "object" if required and "properties" in schema:
                return self.of_object(schema)
            case "array" if required:
                return self._of_array(schema)
        return schema if required else None

    def _of_array(self, schema: JsonSchema) -> JsonSchema | None:
        items = cast("JsonSchema", schema.get("items", {}))
        if kind_of(items) in ("number", "integer"):
            return choice([self._numbers] if self._numbers else [])
        narrowed = self._of_value(items, required=True)
        return narrowed and {"type": "array", "items": narrowed, "minItems": 1, "maxItems": 8}

    def _numbers_for(self, *, required: bool) -> list[Number]:
        """As many numbers as are needed are used in their order; of more, the model chooses."""
        if len(self._numbers) > self._needed:
            return list(dict.fromkeys(self._numbers))
        return [number for number in [next(self._unused, None)] if required and number is not None]


def _numbers(turn: Turn, needed: int) -> list[Number]:
    """The numbers of the request; the turn before lends what is missing."""
    found = numbers(turn.request, needed)
    missing = needed - len(found)
    return numbers(turn.earlier_text)[-missing:] + found if found and missing > 0 else found
