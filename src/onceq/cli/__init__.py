"""The command line ``onceq``: one command per function, through the client library only."""
