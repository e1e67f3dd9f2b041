"""What the product's own commands have in common."""

from argparse import RawDescriptionHelpFormatter
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser


class ProductCommand(BaseCommand):
    """Its ``--help`` keeps the lines of the examples, its ``--version`` is the product's."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Keep the lines as they are written."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def get_version(self) -> str:
        """The product's, not the framework's."""
        return str(settings.VERSION)
