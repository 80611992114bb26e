"""What the model is told: how to act, and which functions there are."""

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from textwrap import indent
from typing import Final

from terret_llm import ToolSchema
from terret_system_prompt import Assembly, Section

INSTRUCTIONS: Final = """\
You act by writing Python. To do something, put one program into your answer, in a fenced block
that begins with ```python. It runs after your answer; you are shown what it printed, and the value
of its last line. Names keep their values from one program to the next. Look at the output before
you go on, and write one program at a time.
When nothing is left to do, answer without such a block. Code that is not to run goes into a block
with another label."""

_TOOLS: Final = "These functions can be called in a program. One that fails raises ToolError.\n\n"

_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
    "array": "list",
}


def with_functions(assembly: Assembly) -> Assembly:
    """Returns the assembly with its tools shown as Python functions in a section of their own."""
    if not assembly.tools:
        return assembly
    text = _TOOLS + "\n\n".join(_function(schema) for schema in assembly.tools)
    # Descriptions are the texts of others, in which nothing is to be filled in.
    section = Section("python-functions", 151, text.replace("{{", "{ {"))
    return replace(assembly, sections=(*assembly.sections, section), tools=())


def function_names(tools: Iterable[ToolSchema]) -> dict[str, ToolSchema]:
    """Returns the tools by the names of their functions."""
    return {function_name(schema.name): schema for schema in tools}


def function_name(tool: str) -> str:
    """Returns the Python name of a tool; what Python means by a name stays what it is."""
    name = re.sub(r"\W", "_", tool)
    taken = keyword.iskeyword(name) or hasattr(builtins, name) or name == "ToolError"
    return f"{name}_" if taken else f"_{name}" if name[:1].isdigit() else name


def parameters(schema: ToolSchema) -> tuple[str, ...]:
    """Returns the parameters of a function in their order: those that are needed come first."""
    properties, required = _properties(schema), _required(schema)
    return (
        *(n for n in properties if n in required),
        *(n for n in properties if n not in required),
    )


def _function(schema: ToolSchema) -> str:
    arguments = ", ".join(_argument(schema, name) for name in parameters(schema))
    head = f"def {function_name(schema.name)}({arguments}):"
    text = "\n".join([schema.description.strip(), *_descriptions(schema)])
    return head + indent(f'\n"""{text}"""', "    ")


def _argument(schema: ToolSchema, name: str) -> str:
    spec = _properties(schema)[name]
    text = f"{name}: {_type(spec)}"
    if name in _required(schema):
        return text
    default = spec.get("default") if isinstance(spec, Mapping) else None
    return f"{text} = {default!r}"


def _descriptions(schema: ToolSchema) -> Iterator[str]:
    for name in parameters(schema):
        spec = _properties(schema)[name]
        description = spec.get("description") if isinstance(spec, Mapping) else None
        if isinstance(description, str):
            yield f"{name}: {description.strip()}"


def _type(spec: object) -> str:
    if not isinstance(spec, Mapping):
        return "object"
    if isinstance(values := spec.get("enum"), list):
        return " | ".join(json.dumps(value) for value in values)
    if isinstance(options := spec.get("anyOf"), list):
        return " | ".join(dict.fromkeys(_type(option) for option in options))
    kind = spec.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    names = [_TYPES.get(str(each), "object") for each in kinds]
    if names == ["list"] and "items" in spec:
        return f"list[{_type(spec['items'])}]"
    return " | ".join(names)


def _properties(schema: ToolSchema) -> Mapping[str, object]:
    properties = schema.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: ToolSchema) -> tuple[object, ...]:
    required = schema.parameters.get("required")
    return tuple(required) if isinstance(required, list | tuple) else ()
