"""Rows a second of the Spark source, sink and operators: ``make bench-spark``."""
