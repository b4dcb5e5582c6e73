"""Who another manager is: its lives and copies, whose word counts, and what strangers may cost.

The rules of transfer ask here before they believe an acknowledgment or take a message. Nothing
here ends or transmits a message.
"""
