"""The number of examples for properties that run whole pipelines: fewer than for other properties."""

from __future__ import annotations

from hypothesis import settings

FEW = settings(max_examples=max(settings().max_examples // 10, 4))
VERY_FEW = settings(max_examples=max(settings().max_examples // 40, 4))
