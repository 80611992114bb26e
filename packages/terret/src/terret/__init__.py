"""The command line of Terret, and the distribution that brings its default plugins."""

from importlib.metadata import version

__version__ = version("terret")

__all__ = ["__version__"]
