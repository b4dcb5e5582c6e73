"""Simulated applications, operators and databases: what they do, and the queues that they use."""
