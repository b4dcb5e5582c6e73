"""What an application asks of its queue manager: one class for each request.

The client makes a request, the codec (``wire/app``) carries it unchanged, the service checks it and
fills in what it knows, and a rule of the core takes it. An application fills the fields that can be
given by position; the keyword-only fields belong to the service and the core and never cross the
wire, so that no application can speak for another one.

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
