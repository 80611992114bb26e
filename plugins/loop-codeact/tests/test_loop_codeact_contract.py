from types import MappingProxyType

from terret_llm import GenerateOptions
from terret_testing import Call, Part, Reply, Say
from terret_testing.loop_contract import Dialect, LoopContract


class Programs(Dialect):
    """A model that writes a program for its calls."""

    plans_calls = False

    def phrased(self, reply: Reply) -> Reply:
        calls = [part for part in reply.parts if isinstance(part, Call)]
        if not calls:
            return reply
        parts: list[Part] = [part for part in reply.parts if not isinstance(part, Call)]
        parts.append(Say((program(calls),)))
        return Reply(tuple(parts), reply.finish, reply.usage)

    def is_routine(self, line: str) -> bool:
        return line.startswith("plugin loop-codeact: ") or "```python" in line

    def offered(self, request: GenerateOptions) -> tuple[str, ...]:
        lines = (request.system or "").splitlines()
        return tuple(
            line.removeprefix("def ").partition("(")[0] for line in lines if line[:4] == "def "
        )


def program(calls: list[Call]) -> str:
    """The program that makes these calls one after the other, whatever one of them gives."""
    lines = ["", "```python", "import json"]
    for each in calls:
        lines += [
            "try:",
            f"    print({each.name}(**json.loads({each.arguments!r})))",
            "except ToolError as error:",
            "    print(error)",
        ]
    return "\n".join([*lines, "```"])


class TestLoopCodeAct(LoopContract):
    """The loop of programs keeps the contract of loops."""

    loop = "loop-codeact"
    dialect = Programs()
    not_applicable = MappingProxyType(
        {"L-128": "the arguments of a call are values of Python, never text that may be no JSON"}
    )
