"""Databases and other managers that commit together with a queue manager (section 11, D9)."""
