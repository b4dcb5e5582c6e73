"""What an application asks of its queue manager: one class for each request.

The client makes a request, the codec (``wire/app``) carries it as it is, the service checks it and
fills in what it knows, and a rule of the core takes it. The fields that can be given by position
are those that an application says; the keyword-only ones are the service's and the core's and
never cross the wire, so that no application can speak for another one.

Upholds: I24 (no value from outside makes the core fail: ``check`` refuses it before).
"""

# A class that is new in one of these modules is there for all, and its code is known (KINDS).
from onceq.model.requests.messages import *
from onceq.model.requests.operations import *
from onceq.model.requests.queues import *
from onceq.model.requests.request import COUNT as COUNT
from onceq.model.requests.request import KINDS as KINDS
from onceq.model.requests.request import Request as Request
from onceq.model.requests.transactions import *
from onceq.model.requests.xa import *
