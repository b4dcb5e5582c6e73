"""TLS with certificates that prove the identity of the other end: identities in certificates,
and how two queue managers come to trust each other (``invitations.py``)."""
