"""The front door: subscriptions, messages and updates over HTTP."""
