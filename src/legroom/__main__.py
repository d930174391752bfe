"""`python -m legroom` is the `legroom` command."""

from legroom.cli import main

main()
