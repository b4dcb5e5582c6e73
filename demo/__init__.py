"""The main job on real input: 336,776 departures through five queue managers, once and in order.

``python -m demo`` runs it; ``docs/tutorial/flights.md`` tells what happens.
"""
