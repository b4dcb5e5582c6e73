"""The console: queue managers in a browser. A process of its own, and a client like every other.

What reads and what acts stands once, in a table of operations (``table``), and is there in two
forms: as pages that read without a script (``pages``), and as an HTTP interface with JSON that
``curl`` can use (``api``). Each operation speaks to one queue manager through ``managers``, which
has a limit of time for everything: one that is away is shown as away and keeps nobody waiting.
``guard`` stands before all of it: who has not signed in sees a page that says how to, and nothing
else.

Upholds: nothing here is believed about a queue manager that it has not said itself, and nothing is
done to one but by its own requests, under the rights of the account that started the console.
"""
