"""`python -m cardwise` is `cardwise`."""

from cardwise.cli.main import main

main(prog_name="cardwise")
