"""The member lists, names and versions of the workspace agree."""

from collections import Counter

from workspace import ROOT, Member, members, root_pyproject, split_requirement, where

MEMBERS = members()
SETTINGS = root_pyproject()
MODULES = {module for member in MEMBERS for module in member.all_modules}
PLUGINS = {module for member in MEMBERS if member.is_plugin for module in member.all_modules}


def contract(name: str) -> dict[str, list[str]]:
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    return next(one for one in contracts if one["name"].startswith(name))


def entry_point_faults(member: Member) -> list[str]:
    names = member.pyproject["project"].get("entry-points", {}).get("terret.plugins", {})
    if not member.is_plugin or set(names) == {member.folder.name}:
        return []
    return [f"{member.place}: a plugin has the entry point {member.folder.name}, not {list(names)}"]


def test_every_folder_is_a_dependency_of_the_root_and_a_workspace_source() -> None:
    names = {member.distribution for member in MEMBERS}
    required = {split_requirement(text)[0] for text in SETTINGS["project"]["dependencies"]}
    assert names <= required
    assert set(SETTINGS["tool"]["uv"]["sources"]) == names


def test_every_source_folder_is_on_the_path_of_mypy() -> None:
    paths = SETTINGS["tool"]["mypy"]["mypy_path"]
    listed = {path.removeprefix("$MYPY_CONFIG_FILE_DIR/") for path in paths}
    assert {f"{member.place}/src" for member in MEMBERS} <= listed
    assert [path for path in listed if not (ROOT / path).is_dir()] == []


def test_every_module_is_under_the_import_contracts() -> None:
    loop = "terret_plugin_agent_loop"
    assert set(SETTINGS["tool"]["importlinter"]["root_packages"]) == MODULES
    assert set(contract("Packages never import plugins")["source_modules"]) == MODULES - PLUGINS
    assert set(contract("Packages never import plugins")["forbidden_modules"]) == PLUGINS
    assert set(contract("Plugins do not import each other")["modules"]) == PLUGINS
    assert set(contract("Nothing imports the agent loop")["source_modules"]) == MODULES - {loop}


def test_names_follow_the_layout_rule() -> None:
    faults = []
    for member in MEMBERS:
        project = member.pyproject["project"]
        if project["name"] != member.distribution:
            faults.append(f"{member.place}: the distribution is called {member.distribution}")
        if member.module not in member.all_modules:
            faults.append(f"{member.place}: the import package is called {member.module}")
        typed = {path.parent.name for path in (member.folder / "src").glob("*/py.typed")}
        if typed != set(member.all_modules):
            faults.append(f"{member.place}: src holds {member.all_modules}, each with py.typed")
        faults += entry_point_faults(member)
    assert not faults, "\n".join(faults)


def test_members_share_version_python_licence_and_build_backend() -> None:
    def shared(member: Member) -> tuple[str, ...]:
        project = member.pyproject["project"]
        build = member.pyproject["build-system"]
        return (
            project["version"],
            project["requires-python"],
            project["license"],
            project["readme"],
            *build["requires"],
            build["build-backend"],
            SETTINGS["project"]["version"],
        )

    assert len(set(map(shared, MEMBERS))) == 1


def test_members_pin_each_other_exactly() -> None:
    names = {member.distribution for member in MEMBERS}
    version = SETTINGS["project"]["version"]
    loose = [
        f"{member.place}: {name}{rest}"
        for member in MEMBERS
        for name, rest in member.requirements.items()
        if name in names and rest != f"=={version}"
    ]
    assert not loose, "\n".join(loose)


def test_test_files_carry_the_name_of_their_member_and_are_unique() -> None:
    faults, seen = [], Counter[str]()
    for member in MEMBERS:
        prefix = f"test_{member.folder.name.replace('-', '_')}_"
        for path in member.tests:
            if path.name == "conftest.py":
                continue
            seen[path.name] += 1
            if path.parent.name == "support":  # on pytest's path, so imported by its plain name
                continue
            if not path.name.startswith(prefix):
                faults.append(f"{where(path)}: begins with {prefix}")
    seen.update(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    faults += [f"{name} exists {count} times" for name, count in seen.items() if count > 1]
    assert not faults, "\n".join(faults)
