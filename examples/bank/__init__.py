"""Transfers between two PostgreSQL databases and a queue, under kills: ``make bank``."""
