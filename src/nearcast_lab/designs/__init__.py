"""Designs that are measured beside those of the product."""
