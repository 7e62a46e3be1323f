"""The group that all commands join."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="grain-cli", prog_name="grain", message="%(prog)s %(version)s")
def main() -> None:
    """Grain: a resource-aware scheduler for parallel external computing on clusters."""
