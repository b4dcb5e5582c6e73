"""The one byte form of a message: at rest, on the wire and between the parts."""
