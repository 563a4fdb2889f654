"""Metrics of the service, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# Ranks below are counted together.
RANKS = 20
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Instruments:
    """Counters and histograms of one server.

    Example:
        >>> instruments = Instruments()
        >>> instruments.fallbacks.labels("timeout").inc()
        >>> 'rankloop_fallbacks_total{reason="timeout"} 1.0' in instruments.text()
        True
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "rankloop_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "rankloop_request_seconds", "Duration of requests.", ["path"], buckets=SECONDS, registry=registry
        )
        self.impressions = Counter(
            "rankloop_impressions", "Impressions by policy.", ["policy"], registry=registry
        )
        self.displays = Counter("rankloop_displays", "Documents shown, by rank.", ["rank"], registry=registry)
        self.clicks = Counter("rankloop_clicks", "Accepted clicks, by rank.", ["rank"], registry=registry)
        self.events = Counter(
            "rankloop_events", "Events: accepted, or what was wrong with them.", ["kind"], registry=registry
        )
        self.fallbacks = Counter(
            "rankloop_fallbacks",
            "Impressions for which the policy failed.",
            ["reason"],
            registry=registry,
        )
        self.share = Gauge(
            "rankloop_share", "Share of the traffic, by policy.", ["policy"], registry=registry
        )
        self.waiting = Gauge("rankloop_waiting_writes", "Writes that wait for a commit.", registry=registry)
        self._displays = [self.displays.labels(rank_label(rank)) for rank in range(1, RANKS + 2)]

    def count_displays(self, positions: int) -> None:
        """Count an impression with this many positions."""
        for counter in self._displays[: min(positions, RANKS)]:
            counter.inc()
        if positions > RANKS:
            self._displays[-1].inc(positions - RANKS)

    def text(self) -> str:
        """All metrics in the format of Prometheus."""
        return generate_latest(self._registry).decode()


def rank_label(rank: int) -> str:
    """The label of a rank; ranks that are far down share one.

    >>> rank_label(3), rank_label(70)
    ('3', '>20')
    """
    return str(rank) if rank <= RANKS else f">{RANKS}"
