"""The version of this package, for whatever is written down with it."""

__version__ = "0.3.0.dev0"
