"""Daemons at work among peers, members and neighbours that lie: ``make liar``."""
