"""`python -m nearcast` is the `nearcast` command."""

from nearcast.cli.main import run

run()
