"""Durable data: the log of records, checkpoints, and the door to the file system."""
