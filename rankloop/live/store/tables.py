"""The tables of a store, for SQLite and PostgreSQL alike.

    policies      what can be deployed; never changed
    deployments   which policies are live with which share: append-only, the last one counts
    problems      a query with its candidates and their features; stored once, whoever ranks it
    scorings      what a policy makes of a problem; stored once
    logged_problems   what the log calls a problem, and which parts have it
    logged_scorings   which part has the scores that a policy gave to a problem
    query_names   how many problems of a query have a name in the log
    impressions   what was shown: problem, policy, seed and rules, from which every propensity follows
    events        clicks and other actions on impressions
    tallies       how often events were repeated, early, late or unknown
    parts         the parts of the log that were sealed
    diary         what the learner did and found, and when: append-only
    notebook      the learner's state, by name
    leases        which process seals, and which learns
    keys          hashes of the keys that clients authenticate with

Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

# SQLite numbers rows by itself only if the type is exactly INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")
Seconds = Float(53)

METADATA = MetaData()

policies = Table(
    "policies",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("details", Text, nullable=False),
    Column("created_at", Seconds, nullable=False),
    Column("created_by", Text, nullable=False),
)

deployments = Table(
    "deployments",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("shares", Text, nullable=False),
    Column("created_at", Seconds, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("numbers", Text, nullable=False),
)

problems = Table(
    "problems",
    METADATA,
    Column("id", LargeBinary, primary_key=True),
    Column("query", Text, nullable=False),
    Column("documents", LargeBinary, nullable=False),
    Column("feature_names", Text, nullable=False),
    Column("features", LargeBinary, nullable=False),
)

scorings = Table(
    "scorings",
    METADATA,
    Column("problem", LargeBinary, primary_key=True),
    Column("policy", Integer, primary_key=True),
    Column("scores", LargeBinary, nullable=False),
)

# What the log knows: a few bytes per problem, which stay when the problem itself is forgotten.
logged_problems = Table(
    "logged_problems",
    METADATA,
    Column("problem", LargeBinary, primary_key=True),
    Column("query_id", Text, nullable=False, unique=True),
    # The part with its features, and the last part in which it was shown.
    Column("part", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    sqlite_with_rowid=False,
)

logged_scorings = Table(
    "logged_scorings",
    METADATA,
    Column("problem", LargeBinary, primary_key=True),
    Column("policy", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, nullable=False),
    sqlite_with_rowid=False,
)

query_names = Table(
    "query_names",
    METADATA,
    Column("query", Text, primary_key=True),
    Column("problems", BigInteger, nullable=False),
    # The last part in which one of its problems was shown.
    Column("last", Integer, nullable=False),
    sqlite_with_rowid=False,
)

impressions = Table(
    "impressions",
    METADATA,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("time", Seconds, nullable=False),
    Column("problem", LargeBinary, nullable=False),
    Column("policy", Integer, nullable=False),
    Column("deployment", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    # Numbers of the problem's documents in the order in which they were drawn, without pinned ones.
    Column("drawn", LargeBinary, nullable=False),
    Column("rules", Text),
    Column("context", Text),
    Column("part", Integer),
    Index(
        "impressions_unsealed",
        "number",
        sqlite_where=text("part IS NULL"),
        postgresql_where=text("part IS NULL"),
    ),
    # Small, since it forgets what is sealed: whether a problem is still to be sealed.
    Index(
        "impressions_unsealed_problem",
        "problem",
        sqlite_where=text("part IS NULL"),
        postgresql_where=text("part IS NULL"),
    ),
    Index("impressions_part", "part"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("impression", Number, nullable=False, index=True),
    Column("document", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("value", Float(53)),
    Column("time", Seconds),
    Column("received_at", Seconds, nullable=False),
)

tallies = Table(
    "tallies",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

parts = Table(
    "parts",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("impressions", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("clicks", BigInteger, nullable=False),
    Column("first_time", Seconds),
    Column("last_time", Seconds),
    Column("created_at", Seconds, nullable=False),
)

diary = Table(
    "diary",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("created_at", Seconds, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("numbers", Text, nullable=False),
)

notebook = Table(
    "notebook",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("content", Text, nullable=False),
)

leases = Table(
    "leases",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", Seconds, nullable=False),
)

keys = Table(
    "keys",
    METADATA,
    Column("hash", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("scopes", Text, nullable=False),
    Column("created_at", Seconds, nullable=False),
)
