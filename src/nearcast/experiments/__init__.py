"""The papers' figures, measured again."""
