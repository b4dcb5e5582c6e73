"""Identity of other managers: their lives and copies, whose word counts, and limits for strangers.

The rules of transfer ask here before they trust an acknowledgment or accept a message. Nothing here
ends or transmits a message.
"""
