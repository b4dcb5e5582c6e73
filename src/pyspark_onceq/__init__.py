"""Registers the data source format "onceq" with PySpark."""
