"""SRMP: messages between queue managers over HTTP (MC-MQSRM)."""
