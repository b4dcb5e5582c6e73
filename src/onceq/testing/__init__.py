"""Shipped test support: simulated clocks, networks and disks, whole worlds of queue managers, and
an independent judge. ``simulate.py`` is programme P4; a failing seed is one line to paste.
"""
