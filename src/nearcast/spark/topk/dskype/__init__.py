"""Top-k subscriptions spread over workers, each with a part of the window: DSkype, section 7."""
