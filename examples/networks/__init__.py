"""A queue manager's whole path on Spark, between two networks: ``make networks``."""
