"""What proves onceq, apart from the product: ``python -m proof`` lists its programmes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""The checkout."""
