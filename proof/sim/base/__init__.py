"""Simulated computers: time, chance, disks, clocks, a network, and what managers recover to.

``kernel`` stands below everything; nothing here knows what is sent, or judges it.
"""
