"""The queue manager as a pure state machine: no clock, no randomness, no I/O.

``core/manager.py`` hands each input to its rule. The rules are in rooms, from the ground up; a
module imports from its own room and from rooms below, which a check enforces:

=============  ====================================================================================
``inputs``     everything that can happen to a queue manager, as values
``decision``   what a step decides: records first, only then actions
``state``      what is durable: tables that records alone change, records and checkpoints as bytes
``step``       one step at work: the state, what is running, the change under construction
``names``      from names to queues, and names as packets have them
``peers``      identity of other managers, whose word counts, and what they learn besides messages
``ending``     how a message ends: dead letters, journals, acknowledgments, trace reports
``delays``     messages that are not to be received before a time, and their release
``send``       a send: checked, resolved, turned into packets
``receive``    taking messages out of queues, looking at them, moving them between subqueues
``transaction``  units of work, branches of XA transactions, groups of branches
``transfer``   exactly-once delivery: outgoing queues, sessions, arrival, doubts
``management`` what operators see and do
``manager``    the table of rules, and what follows from a restart
=============  ====================================================================================
"""
