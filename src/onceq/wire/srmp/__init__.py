"""SRMP: messages between queue managers over HTTP (product D1; MC-MQSRM)."""
