"""What a member imports it declares, what it declares it imports, and its README says why."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

from workspace import Member, imported_modules, members, normalise, parse, where

MEMBERS = members()
OWN = {module: member.distribution for member in MEMBERS for module in member.all_modules}

COMES_WITH = {"pydantic_core": "pydantic"}  # pydantic requires exactly one version of it
MOUNTED_BY_NAME = {
    "terret": "the composition root brings the plugins, which are mounted by name",
}
LOADED_BY_OTHERS = {
    ("terret-plugin-agent-folders", "terret-plugin-step-limit"): "mounted by name for `maxTurns`",
    ("terret-testing", "trio"): "anyio imports the backend that a test asks for",
    ("terret-plugin-tools-demo", "tzdata"): "zoneinfo reads it where the system has no database",
}


def distribution_of(module: str, installed: dict[str, set[str]]) -> set[str]:
    if module in OWN:
        return {OWN[module]}
    return installed.get(module, {module})


def installed_modules() -> dict[str, set[str]]:
    found = {
        module: {normalise(name) for name in names}
        for module, names in packages_distributions().items()
    }
    return found | {module: {name} for module, name in COMES_WITH.items()}


def foreign_imports(member: Member) -> Iterator[tuple[str, str]]:
    for path in member.sources:
        for line, dotted in imported_modules(parse(path)):
            module = dotted.partition(".")[0]
            if module not in {*sys.stdlib_module_names, *member.all_modules}:
                yield where(path, line), module


def private_part(dotted: str) -> str | None:
    return next((part for part in dotted.split(".") if re.match(r"_[a-z]", part)), None)


def test_every_import_is_declared() -> None:
    installed = installed_modules()
    undeclared = [
        f"{place}: {module} is not a dependency of {member.distribution}"
        for member in MEMBERS
        for place, module in foreign_imports(member)
        if not distribution_of(module, installed) & set(member.requirements)
    ]
    assert not undeclared, "\n".join(undeclared)


def test_every_dependency_is_imported_or_has_a_reason() -> None:
    installed = installed_modules()
    unused = []
    for member in MEMBERS:
        used = {
            name
            for _, module in foreign_imports(member)
            for name in distribution_of(module, installed)
        }
        for name in set(member.requirements) - used:
            mounted = member.distribution in MOUNTED_BY_NAME and name in OWN.values()
            if not mounted and (member.distribution, name) not in LOADED_BY_OTHERS:
                unused.append(f"{member.place}: {name} is declared and never imported")
    assert not unused, "\n".join(sorted(unused))


def test_no_private_module_of_another_distribution_is_imported() -> None:
    private = [
        f"{where(path, line)}: {dotted}"
        for member in MEMBERS
        for path in member.sources + member.tests
        for line, dotted in imported_modules(parse(path))
        if dotted.partition(".")[0] in OWN.keys() - {*member.all_modules} and private_part(dotted)
    ]
    assert not private, "\n".join(private)


def test_the_readme_of_a_member_says_what_each_foreign_dependency_is_for() -> None:
    unsaid = [
        f"{member.place}/README.md: a sentence that says what `{name}` is for"
        for member in MEMBERS
        for name in member.requirements
        if name not in OWN.values()
        and f"`{name}`" not in (member.folder / "README.md").read_text("utf-8").lower()
    ]
    assert not unsaid, "\n".join(unsaid)
