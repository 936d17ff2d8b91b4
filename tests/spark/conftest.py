"""One session of Spark for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from nearcast.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("local[2]", "nearcast tests", **{"spark.sql.shuffle.partitions": 2})
    yield session
    session.stop()
