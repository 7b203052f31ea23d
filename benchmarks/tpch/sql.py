"""Runs a query on another engine: `python sql.py spark|sail|duckdb|polars q01`.

`BENCH_TPCH` is the folder with the tables, `BENCH_OUTPUT` an existing folder for the result. The script imports only
the engine, so it also runs in environments that have nothing else.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
_MONEY = "DECIMAL(15, 2)"
#: The columns of each table, in the order of its file.
TABLES = {
    "customer": "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING, "
    f"c_acctbal {_MONEY}, c_mktsegment STRING, c_comment STRING",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT, "
    f"l_quantity {_MONEY}, l_extendedprice {_MONEY}, l_discount {_MONEY}, l_tax {_MONEY}, l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, "
    "l_shipmode STRING, l_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "orders": f"o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice {_MONEY}, o_orderdate DATE, "
    "o_orderpriority STRING, o_clerk STRING, o_shippriority BIGINT, o_comment STRING",
    "part": "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size BIGINT, "
    f"p_container STRING, p_retailprice {_MONEY}, p_comment STRING",
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING, "
    f"s_acctbal {_MONEY}, s_comment STRING",
}


def spark(query: str, output: str) -> None:
    """Spark SQL on all local cores."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    _spark_sql(session, query, output)
    session.stop()


def sail(query: str, output: str) -> None:
    """Sail in this process, through Spark's own client."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer()
    server.start()
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    _spark_sql(session, query, output)
    session.stop()
    server.stop()


def _spark_sql(session: Any, query: str, output: str) -> None:
    for name, schema in _tables(query).items():
        path = f"{os.environ['BENCH_TPCH']}/{name}.csv"
        session.read.options(header="true").schema(schema).csv(path).createOrReplaceTempView(name)
    # Spark trims the texts that it writes by default.
    kept = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
    session.sql(query).write.mode("overwrite").options(header="true", **kept).csv(f"{output}/result")


def duckdb(query: str, output: str) -> None:
    """DuckDB with its own threads."""
    import duckdb

    connection = duckdb.connect()
    for name, schema in _tables(query).items():
        columns = ", ".join(f"'{column}': '{kind}'" for column, kind in _columns(schema))
        path = f"{os.environ['BENCH_TPCH']}/{name}.csv"
        connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_csv('{path}', header = true, columns = {{{columns}}})"
        )
    query = query.replace("LEFT SEMI JOIN", "SEMI JOIN")
    connection.execute(f"COPY ({query}) TO '{output}/result.csv' (HEADER)")


def polars(query: str, output: str) -> None:
    """Polars, lazily."""
    import polars

    kinds = {"BIGINT": polars.Int64, "STRING": polars.String, "DATE": polars.Date, _MONEY: polars.Decimal(15, 2)}
    frames = {
        name: polars.scan_csv(
            f"{os.environ['BENCH_TPCH']}/{name}.csv",
            schema={column: kinds[kind] for column, kind in _columns(schema)},
        )
        for name, schema in _tables(query).items()
    }
    query = query.replace("LEFT SEMI JOIN", "SEMI JOIN")
    polars.SQLContext(frames).execute(query).sink_csv(f"{output}/result.csv")


def _tables(query: str) -> dict[str, str]:
    """The tables that a query names, so that no engine opens others."""
    words = query.replace("(", " ").split()
    named = {after for word, after in itertools.pairwise(words) if word in ("FROM", "JOIN")}
    return {name: schema for name, schema in TABLES.items() if name in named}


def _columns(schema: str) -> list[tuple[str, str]]:
    found = []
    for column in schema.replace("15, 2", "15;2").split(", "):
        name, _, kind = column.partition(" ")
        found.append((name, kind.replace(";", ", ")))
    return found


if __name__ == "__main__":
    engine, number = sys.argv[1:]
    _ENGINES = {"spark": spark, "sail": sail, "duckdb": duckdb, "polars": polars}
    _ENGINES[engine]((FOLDER / f"{number}.sql").read_text("utf-8"), os.environ["BENCH_OUTPUT"])
