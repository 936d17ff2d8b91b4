"""Planning who gets what: which worker holds which subscriptions and sees which messages."""
