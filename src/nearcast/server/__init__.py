"""The HTTP server: subscriptions, messages and updates over HTTP, SSE and WebSocket."""
