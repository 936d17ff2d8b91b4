"""The papers' figures, measured again, each claim beside its result."""
