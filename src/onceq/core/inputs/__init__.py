"""Everything that can happen to a queue manager, as values handed to ``Manager.step``.

Inputs are made by the service from requests of applications and from what sessions bring. They
check nothing and know nothing of the state; the rule for each stands in the room that it concerns.
"""
