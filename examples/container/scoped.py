"""What is registered through a scope is seen by that scope, and ends with it."""

import anyio

from terret_context import Container, NamedLayers, scope_of


async def main() -> None:
    notes = NamedLayers[str]("note")
    async with Container() as root:
        agent = root.scope(object())
        notes.add(root, "style", "full sentences")
        notes.add(agent, "style", "one line")
        print(notes.get("style"))
        print(notes.get("style", scope_of(agent)))
        key = scope_of(agent)
        await agent.fiber.dispose()
        print(notes.get("style", key))


if __name__ == "__main__":
    anyio.run(main)
