"""Everything that can happen to a queue manager, as values handed to ``Manager.step``.

What applications ask stands in ``model/requests``; here is what sessions bring and what the machine
tells. Inputs check nothing and know nothing of the state; the rule for each stands in the room that
it concerns.
"""
