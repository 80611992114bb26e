"""The command line of Terret, and the distribution that brings its default plugins."""

__all__: list[str] = []
