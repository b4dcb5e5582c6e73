"""The rules of delivery as plain functions from frame to frame, for feeds of any size."""

from onceq.spark.operators.eod import accepted, eod_filter, order_acknowledgments, rejected
from onceq.spark.operators.expanding import expand_destinations, refused, sent
from onceq.spark.operators.numbering import number
from onceq.spark.operators.settling import acknowledgment_messages, settle, state

__all__ = [
    "accepted",
    "acknowledgment_messages",
    "eod_filter",
    "expand_destinations",
    "number",
    "order_acknowledgments",
    "refused",
    "rejected",
    "sent",
    "settle",
    "state",
]
