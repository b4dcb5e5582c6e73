"""The nouns of message queuing: immutable, validated, without behaviour."""
