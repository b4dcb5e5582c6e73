"""Databases and other managers that commit together with a queue manager (XTX-12)."""
