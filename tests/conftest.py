"""How Hypothesis works in every test."""

from hypothesis import settings

settings.register_profile("nearcast", deadline=None)  # a busy machine is no defect
settings.load_profile("nearcast")
