"""The description of the live service: what it has, and what it leaves out."""

from __future__ import annotations

from rankloop.live.http.app import ROUTES
from rankloop.live.http.openapi import OPERATIONS, describe

# What people see and press in a browser.
FOR_PEOPLE = {"page", "page_rollback", "page_deploy", "page_learner"}


def test_the_description_has_every_route_for_programs_and_no_other() -> None:
    left_out = {
        (method, path)
        for method, path, handler in ROUTES
        if handler.__name__ in FOR_PEOPLE or path == "/openapi.json"
    }
    served = {(method, path) for method, path, _ in ROUTES} - left_out
    assert len(left_out) == len(FOR_PEOPLE) + 1
    assert {(one.method.upper(), one.path) for one in OPERATIONS} == served
    paths = describe()["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == served
