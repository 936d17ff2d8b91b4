"""Skype (VLDB J.): top-k as the paper does it, to compare the core with."""

from nearcast.topk.skype.skype import DISSEMINATIONS, REEVALUATIONS, Skype

__all__ = ["DISSEMINATIONS", "REEVALUATIONS", "Skype"]
