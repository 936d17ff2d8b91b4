"""The page about Spark names every setting and every metric."""

from pathlib import Path

from nearcast.spark.reports.metrics import all_metrics
from nearcast.spark.session import CHECKPOINTS, SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "spark.md").read_text()


def test_every_setting_is_on_the_page_with_its_value() -> None:
    for setting in SETTINGS:
        assert f"| `{setting.key}` | `{setting.value}` |" in PAGE
    assert f"| `{CHECKPOINTS}` |" in PAGE


def test_every_metric_is_on_the_page() -> None:
    for metric in all_metrics():
        assert f"`{metric.name}`" in PAGE or f"`{metric.name}{{" in PAGE, metric.name
