"""Queues as a source of Apache Spark, in Python only (product D10)."""
