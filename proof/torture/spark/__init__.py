"""Spark queries and landings that are killed: ``make spark-kill``, ``make spark-land``."""
