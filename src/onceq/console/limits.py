"""Limits of the console: what comes from a browser, or from a queue manager, makes it grow no
further. The unit stands in the name; without one it is a count."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 64 * 1024
"""Of a request: forms and JSON objects here have a few short fields."""
HEADER_BYTES_MAX: Final = 16 * 1024
"""Of a request's first lines, its address included."""
FIELD_CHARS_MAX: Final = 1024
"""Of one value in an address, a form or a JSON object; the longest are format names."""
FIELDS_MAX: Final = 32
"""Values in one request."""
CONNECTIONS_MAX: Final = 100
"""Browsers and scripts at a time; a browser has six and one for live numbers."""
SILENT_MAX: Final = 50
"""Of these, connections whose next request is not whole; the oldest goes. The rest is for those who
speak."""
REQUEST_S_MAX: Final = 5.0
"""For a request to come, its body included (seconds): from the connection or its first byte on."""

CODE_S: Final = 3600
"""A sign-in link that nobody has used for so long opens nothing."""
SESSION_S: Final = 12 * 3600
"""A browser signs in again after so long: a working day."""
SESSIONS_MAX: Final = 64
"""Signed-in browsers; the one that has been silent longest goes first."""
ATTEMPT_S: Final = 600
"""For somebody to sign in at the provider, and come back."""
ATTEMPTS_MAX: Final = 4096
"""Sign-ins that are known to be over; the oldest is forgotten first."""
OPENID_BYTES_MAX: Final = 64 * 1024
"""Of the file that says who signs in by OpenID Connect."""
ROLES_MAX: Final = 16
"""Groups in it: the console has a connection for each to each queue manager."""
GROUPS_MAX: Final = 1_000
"""Groups of one person."""
SUBJECT_CHARS_MAX: Final = 255
"""Of what a provider knows somebody by (OpenID Connect Core, 2)."""
NAME_CHARS_MAX: Final = 60
"""Of a person's name."""
TOKEN_CHARS_MAX: Final = 64 * 1024
"""Of an ID token."""
SKEW_S: Final = 60
"""By so much the provider's clock may be another one."""
TOKEN_AGE_S_MAX: Final = 300
"""An ID token is fetched as soon as it is made."""
PROVIDER_S_MAX: Final = 10.0
"""For all that one sign-in asks of the provider."""
PROVIDER_BYTES_MAX: Final = 256 * 1024
"""Of one of its answers."""
PROVIDER_ASKS_MAX: Final = 8
"""Sign-ins that ask the provider at a time."""
PROVIDER_KEPT_S: Final = 3600
"""So long what the provider says of itself, and its keys, are not asked for again."""
PROVIDER_AGAIN_S: Final = 2
"""So long one that does not describe itself is not asked again: whoever knocks may come often."""
KEYS_AGAIN_S: Final = 60
"""Between two times that its keys are asked for because a token names one that is not known."""
NOTICES_MAX: Final = 8
"""Sentences that wait for the next page of one browser."""

CONNECT_S_MAX: Final = 2.0
"""To connect to a queue manager: it is near, or away."""
READ_S_MAX: Final = 5.0
"""For all that one page asks of one queue manager."""
AWAY_S_MAX: Final = 30.0
"""A queue manager that is connected, and answers nothing in time, is slow; after so long it is
away."""
ACT_S_MAX: Final = 60.0
"""A page waits so long for what it has asked to be done; it is done all the same."""
JOB_WAIT_S: Final = 1.0
"""A page waits so long for a job that it has started; then it tells that it goes on."""
FIRST_S_MAX: Final = 1.0
"""The first overview waits so long for numbers that are still on their way."""
SAMPLE_S: Final = 2.0
"""Between two looks at the numbers of a queue manager."""
SAMPLE_SHARE: Final = 0.05
"""Most of the time that is spent looking at a queue manager's numbers: one with very many queues is
looked at less often."""
SAMPLES_MAX: Final = 90
"""Kept of each queue manager, for the small pictures: three minutes, if looks are quick."""

ROWS_MAX: Final = 50
"""Of a table on one page, if nobody asks for another number."""
ROWS_LIMIT: Final = 500
"""Of a table on one page, at most."""
LOOKED_MAX: Final = 5_000
"""Messages that one page looks at to find those that fit a filter; the next page goes on there."""
PAGE_MESSAGES: Final = 500
"""Headers asked for in one request."""
LETTERS_MAX: Final = 20_000
"""Dead letters that are counted by their reasons; of more it is said that there are more."""
SHOWN_BYTES_MAX: Final = 64 * 1024
"""Of a body on a page; the rest is said to be there."""
HEX_BYTES_MAX: Final = 4 * 1024
"""Of a body in hexadecimal digits."""
EVENTS_MAX: Final = 32
"""Pages that get live numbers at a time; the others are read anew by hand."""
