"""Which features requests may give, and what they may be called."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest
from sqlalchemy import text

from rankloop import open_log
from rankloop.errors import RankloopError
from rankloop.live import Client, RankRequest, Service, ServiceError, Store, open_store, prepare, seal
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.store.database import read
from rankloop.live.store.policies import read_feature_names, register_policy
from rankloop.models import Linear
from rankloop.models.storage import model_to_bytes
from tests.live.conftest import linear, put, serving

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def test_registering_a_policy_does_not_change_what_requests_may_give(store: Store) -> None:
    prepare(store)
    with serving(store, names=("price", "age")) as url, closing(Client(url)) as client:
        unnamed = model_to_bytes(Linear(2, np.array([1.0, 0.5, 0.0])))
        client.send("POST", "/policies?name=unnamed", unnamed)
        assert client.send("GET", "/policies")["features"] == ["price", "age"]
        client.rank("cat", {"x": [1.0, 2.0], "y": [3.0, 4.0]})
        # What is deployed must get its features.
        client.send(
            "POST", "/deployments", {"why": "a test", "shares": [{"policy": "unnamed", "share": 1.0}]}
        )
        assert client.send("GET", "/policies")["features"] == ["price", "age", "1", "2"]
        with pytest.raises(ServiceError, match="2 features, but there are 4"):
            client.rank("cat", {"x": [1.0, 2.0], "y": [3.0, 4.0]})
        client.rank("cat", {"x": {"price": 1.0, "1": 2.0, "2": 0.0}, "y": {"1": 0.0, "2": 1.0}})


@pytest.mark.parametrize("name", ["doc_id", "query_id", "Doc_ID", "", "a\nb"])
def test_names_of_other_columns_are_refused(store: Store, name: str) -> None:
    with pytest.raises(RankloopError, match="rename"):
        Service(store, names=("price", name)).close()
    with store.engine.begin() as connection, pytest.raises(RankloopError, match="rename"):
        register_policy(connection, policy_of(linear(1.0, 2.0, names=("price", name)), "bad"), "test")
    with read(store) as connection:
        assert read_feature_names(connection) == ()


def test_names_that_differ_by_case_alone_are_refused(store: Store) -> None:
    with closing(Service(store, names=("price",)).writer), pytest.raises(RankloopError, match="'Price'"):
        Service(store, names=("Price",))
    # A policy may be registered, and not deployed.
    with pytest.raises(RankloopError, match="same column"):
        put(store, policy_of(linear(1.0, names=("PRICE",)), "loud"))


def test_unusual_names_of_features_can_be_sealed_and_read(store: Store) -> None:
    put(store, LivePolicy("shuffle", "uniform"))
    names = ("position", "clicked", "score", 'a "quoted" name', "größe", "a.b", "select")
    service = Service(store, names=names)
    service.rank(RankRequest("cat", ("x", "y"), ([1.0] * len(names), [2.0] * len(names))))
    service.close()
    seal(store, time.time() + 1)
    log = open_log(store.log)
    assert log.feature_names == names
    assert log.split().features.tolist() == [[1.0] * len(names), [2.0] * len(names)]


def test_features_of_deployed_policies_of_an_earlier_store_are_known(store: Store, location: str) -> None:
    put(store, policy_of(linear(1.0, 2.0, names=("price", "age")), "start"))
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM notebook WHERE name = 'features'"))
        connection.execute(text("DELETE FROM migrations WHERE number > 3"))
    with closing(open_store(location)) as later, read(later) as connection:
        assert read_feature_names(connection) == ("price", "age")
