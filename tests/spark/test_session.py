"""Sessions are configured in one place, and what one lacks is reported."""

import logging
import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nearcast.errors import SetupError
from nearcast.spark import session as sessions
from nearcast.spark.session import (
    CHECKPOINTS,
    LOCAL_CHECKPOINTS,
    SETTINGS,
    check,
    java_options,
    local_session,
    prepare,
)


@pytest.fixture
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_warned", set())


@pytest.fixture
def adaptive(spark: SparkSession) -> SparkSession:
    """A session of the same Spark, with its own settings, one of which costs time."""
    other = spark.newSession()
    prepare(other)
    other.conf.set("spark.sql.adaptive.enabled", "true")
    return other


class Conf(dict[str, str]):
    def getConf(self) -> "Conf":  # noqa: N802 - as Spark calls it
        return self


class Fake:
    """As much of a session as is asked about its settings."""

    def __init__(self, version: str = "4.1.0", **settings: str) -> None:
        wanted = {setting.key: setting.value for setting in SETTINGS}
        self.conf = self.sparkContext = Conf(wanted | settings)
        self.version = version


def test_a_local_session_lacks_nothing(spark: SparkSession) -> None:
    assert check(spark) == []
    assert spark.conf.get(CHECKPOINTS) == LOCAL_CHECKPOINTS
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_local_session_listens_to_this_machine_alone(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"


def test_a_local_session_has_a_jvm_that_starts_soon(spark: SparkSession) -> None:
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    assert options is not None
    assert java_options() in options
    jvm: Any = spark.sparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    assert {bean.getName() for bean in beans} == {"Copy", "MarkSweepCompact"}  # the serial one


def test_own_options_of_the_jvm_come_last_and_may_choose_another_collector() -> None:
    assert java_options("-Dx=y").endswith("-XX:+UseSerialGC -Dx=y")
    chosen = java_options("-XX:+UseG1GC")
    assert chosen.endswith(" -XX:+UseG1GC")
    assert "Serial" not in chosen


def test_a_process_has_one_session(spark: SparkSession) -> None:
    assert local_session().sparkContext is spark.sparkContext


@pytest.mark.usefixtures("unwarned")
def test_a_session_that_lacks_something_is_warned_of_once(
    adaptive: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="nearcast.spark"):
        assert [lack.setting.key for lack in check(adaptive)] == ["spark.sql.adaptive.enabled"]
        check(adaptive)
    assert len(caplog.messages) == 1
    assert "is 'true'; expected 'false'" in caplog.messages[0]


def test_preparing_a_session_sets_what_can_still_be_set(adaptive: SparkSession) -> None:
    assert prepare(adaptive) is adaptive
    assert check(adaptive) == []


def test_checkpoints_are_written_the_quick_way_on_local_files_only(adaptive: SparkSession) -> None:
    for state, expected in (
        ("s3a://bucket/state", None),
        ("hdfs://name/state", None),
        ("/data/state", LOCAL_CHECKPOINTS),
        ("file:///data/state", LOCAL_CHECKPOINTS),
    ):
        adaptive.conf.unset(CHECKPOINTS)
        default = adaptive.conf.get(CHECKPOINTS, None)
        prepare(adaptive, state)
        assert adaptive.conf.get(CHECKPOINTS, None) == (expected or default)


def test_preparing_a_builder_sets_everything() -> None:
    builder: Any = SparkSession.Builder()
    assert prepare(builder) is builder
    assert builder._options == {setting.key: setting.value for setting in SETTINGS}


def test_speculation_is_refused_as_it_would_be_wrong() -> None:
    fake: Any = Fake(**{"spark.speculation": "true"})
    with pytest.raises(SetupError, match="spark.speculation is 'true'; expected 'false'"):
        check(fake)


def test_a_spark_that_is_too_old_is_refused() -> None:
    fake: Any = Fake("4.0.1")
    with pytest.raises(SetupError, match="runs Spark 4.0.1; expected 4.1 or newer"):
        check(fake)
    fake = Fake("4.10.0")
    assert check(fake) == []


def test_a_session_of_spark_connect_is_refused() -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(SetupError, match="Spark Connect"):
        check(remote)
