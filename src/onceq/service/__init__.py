"""Wiring: the only package that knows everybody."""
