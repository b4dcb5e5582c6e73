"""Bytes of the protocols to and from values. Pure: no sockets, no clocks."""
