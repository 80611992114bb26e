from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from terret_context import Context, plugin
from terret_tools import Tools, tool


@tool(is_concurrency_safe=lambda args: True)
async def add(a: float, b: float) -> str:
    """Add two numbers."""
    return f"{a + b:.15g}"


@tool(is_concurrency_safe=lambda args: True)
def now(zone: str = "UTC") -> str:
    """Tell the current date and time.

    Args:
        zone: A city or an IANA name, such as Tokyo or Europe/Berlin.
    """
    ending = f"/{zone.replace(' ', '_')}"
    names = [name for name in sorted(available_timezones()) if f"/{name}".endswith(ending)]
    if not names:
        raise ValueError(f"no time zone is called {zone}")
    return datetime.now(ZoneInfo(names[0])).isoformat(timespec="seconds")


@plugin(inject=(Tools,))
def tools_demo(ctx: Context) -> None:
    """Registers both tools for every agent."""
    ctx[Tools].register(add)
    ctx[Tools].register(now)
