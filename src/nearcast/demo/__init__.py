"""The demo: a city's worth of made-up people, deals and incidents on the live map."""
