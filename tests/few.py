"""How many examples a property gets that runs whole pipelines: a part of what the others get."""

from __future__ import annotations

from hypothesis import settings

FEW = settings(max_examples=max(settings().max_examples // 10, 4))
VERY_FEW = settings(max_examples=max(settings().max_examples // 40, 4))
