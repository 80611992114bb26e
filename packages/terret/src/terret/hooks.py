"""The preset that this distribution brings."""

from pathlib import Path

from terret_loader.hooks import hookimpl


@hookimpl
def terret_presets() -> dict[str, Path]:
    """Gives `service`: agents in folders, on the command line and over HTTP."""
    return {"service": Path(__file__).with_name("service.yml")}
