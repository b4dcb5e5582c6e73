"""MS-MQQB, the protocol between queue managers over TCP 1801."""
