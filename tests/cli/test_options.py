"""Options that several verbs share."""

import click
import pytest
from click.testing import CliRunner

from unisono.cli.check import check
from unisono.cli.options import Number


@click.command()
@click.option("--price", type=Number(0))
def shop(price):
    click.echo(f"{price:g}")


@pytest.mark.parametrize("price", ["0", "2.50", "1e3"])
def test_numbers_are_read(price):
    result = CliRunner().invoke(shop, ["--price", price])
    assert (result.exit_code, float(result.output)) == (0, float(price))


@pytest.mark.parametrize("price", ["-0.01", "nan", "inf", "-inf", "much"])
def test_what_is_no_number_within_the_limits_is_refused(price):
    assert CliRunner().invoke(shop, ["--price", price]).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [["--seconds", "0"], ["--seconds", "-5"], ["--seconds", "nan"], ["--seconds", "inf"]]
    + [["--price", "-3"], ["--price", "nan"]],
)
def test_check_refuses_them_before_it_measures(arguments):
    result = CliRunner().invoke(check, ["nowhere.toml", *arguments])
    assert result.exit_code == 2
    assert arguments[0] in result.output
