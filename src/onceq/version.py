"""The version of this package, also for files that record it."""

__version__ = "0.3.0.dev0"
