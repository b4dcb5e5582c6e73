"""Who is at the other end, proven by certificates: TLS, identities in certificates, and how two
queue managers come to trust each other (``invites.py``)."""
