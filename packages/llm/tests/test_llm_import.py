"""What a program pays for that only imports the vocabulary of models."""

import json
import subprocess
import sys


def modules_after(code: str) -> set[str]:
    """The top-level modules of a new process that ran some code."""
    show = "import sys, json; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    command = [sys.executable, "-c", f"{code}; {show}"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(json.loads(listed))


def test_the_import_brings_no_library_that_only_adapters_or_configurations_need() -> None:
    heavy = {"httpx2", "pydantic", "pydantic_core", "packaging", "structlog", "ssl"}
    assert modules_after("import terret_llm") & heavy == set()


def test_a_configuration_brings_pydantic() -> None:
    assert "pydantic" in modules_after("from terret_context import Config")
