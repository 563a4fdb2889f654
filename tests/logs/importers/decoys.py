"""Tables as shops, news, hotels, advertisers, apps and others write them, each with a column that misleads.

What was searched, shown and clicked is the same in all of them; names, languages, values and the misleading
columns differ. A table is described by the names of its columns, one word for each in a line:

    what is in the column = its name

so that a new table is one line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

BEGIN = 1_718_000_000
QUERIES = ["red shoes", "usb cable", "garden chair", "tea", "running jacket", "lamp", "phone case", "desk",
           "coffee mill", "bike lock", "yoga mat", "rain boots"]  # fmt: skip
GROUPS = ["wear", "tech", "home", "home", "wear", "home", "tech", "home", "home", "sport", "sport", "wear"]


@dataclass(frozen=True)
class Shown:
    """A document that was shown, and everything that is known when it is."""

    search: int
    place: int
    query: int
    document: int
    user: int
    session: int
    time: int
    clicked: bool
    bought: bool
    retrieved: int
    page_rows: int
    variant: int
    row: int
    noise: int


def world(seed: int = 3, searches: int = 160, size: int = 6) -> list[Shown]:
    """Searches of users, in the order of time."""
    rng = np.random.default_rng(seed)
    rows: list[Shown] = []
    time = BEGIN
    users = rng.integers(0, 40, searches)
    for search in range(searches):
        time += int(rng.integers(40, 900))
        query, user = int(rng.integers(0, len(QUERIES))), int(users[search])
        pool = np.arange(14)
        merit = np.where(pool % 4 == 0, 1.5, 0.0) + rng.gumbel(size=14)
        retrieved = np.argsort(-merit)
        order = retrieved[np.argsort(np.arange(14) + 3 * rng.normal(size=14))][:size]
        variant = int(rng.integers(0, 2))
        for place, document in enumerate(order):
            chance = (0.5 if document % 4 == 0 else 0.2) / (1 + 0.5 * place)
            clicked = bool(rng.random() < chance)
            rows.append(
                Shown(
                    search, place, query, 20 * query + int(document), user, user * 10 + search // 40, time,
                    clicked, clicked and bool(rng.random() < 0.3),
                    int(np.flatnonzero(retrieved == document)[0]), size, variant, len(rows),
                    int(rng.integers(0, 1 << 30)),
                )
            )  # fmt: skip
    return rows


def _hash(kind: str, value: int, length: int = 10) -> str:
    return hashlib.sha256(f"{kind}{value}".encode()).hexdigest()[:length]


def _of_document(document: int, kind: str, size: int) -> int:
    return int(hashlib.sha256(f"{kind}{document}".encode()).hexdigest(), 16) % size


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


# What may be in a column, by a word.
CONTENT: dict[str, Callable[[Shown], Any]] = {
    # what rankloop needs
    "search": lambda s: _hash("s", s.search),
    "searchno": lambda s: 700_000 + 3 * s.search,
    "text": lambda s: QUERIES[s.query],
    "queryno": lambda s: 31 + 7 * s.query,
    "iso": lambda s: _iso(s.time),
    "epoch": lambda s: s.time,
    "millis": lambda s: 1000 * s.time + s.search % 1000,
    "rank1": lambda s: s.place + 1,
    "rank0": lambda s: s.place,
    "doc": lambda s: f"P-{s.document:05d}",
    "docno": lambda s: 90_210 + 13 * s.document,
    "url": lambda s: f"https://shop.example/{_hash('u', s.document, 6)}",
    "click": lambda s: int(s.clicked),
    "clicktf": lambda s: "true" if s.clicked else "false",
    "clickyn": lambda s: "yes" if s.clicked else "no",
    # what misleads: clicks
    "pastclicks": lambda s: _of_document(s.document, "clicks", 60),
    "anyclicked": lambda s: int(_of_document(s.document, "any", 3) == 0),
    "userclicks": lambda s: (s.user * 7) % 23,
    "clickedbefore": lambda s: int(s.noise % 9 == 0),
    "bought": lambda s: int(s.bought),
    "basket": lambda s: int(s.clicked and s.noise % 3 == 0),
    "seen": lambda s: int(s.place < 3 or s.clicked or s.noise % 2 == 0),
    "promoted": lambda s: int(_of_document(s.document, "promo", 5) == 0),
    "topspot": lambda s: int(s.place == 0),
    "ctr": lambda s: _of_document(s.document, "ctr", 1000) / 1000,
    "mobile": lambda s: int(s.user % 3 == 0),
    # positions
    "retrieved1": lambda s: s.retrieved + 1,
    "retrieved0": lambda s: s.retrieved,
    "popularity": lambda s: 1 + s.document % 20,
    "salesrank": lambda s: 1 + _of_document(s.document, "sales", 5000),
    "rowno": lambda s: s.row,
    "withads": lambda s: s.place + 1 + (s.place >= 2),
    "size": lambda s: s.page_rows,
    "stock": lambda s: _of_document(s.document, "stock", 40),
    # ids of searches
    "session": lambda s: f"sess-{_hash('v', s.session)}",
    "user": lambda s: f"u{s.user}",
    "rowid": lambda s: _hash("r", s.row, 16),
    "batch": lambda s: f"b{s.search // 20}",
    # queries
    "group": lambda s: GROUPS[s.query],
    "country": lambda s: ["de", "fr", "at"][s.user % 3],
    "normalised": lambda s: QUERIES[s.query].upper(),
    "length": lambda s: len(QUERIES[s.query]),
    # documents
    "brand": lambda s: f"brand{_of_document(s.document, 'brand', 4)}",
    "title": lambda s: f"Thing no. {s.document}, new",
    "image": lambda s: f"img/{_hash('i', s.document)}.png",
    "parent": lambda s: f"F{s.document // 3}",
    "price": lambda s: round(5 + _of_document(s.document, "price", 9000) / 100, 2),
    "cents": lambda s: 500 + _of_document(s.document, "price", 9000),
    # times
    "created": lambda s: _iso(1_600_000_000 + _of_document(s.document, "created", 90_000_000)),
    "createdepoch": lambda s: 1_600_000_000 + _of_document(s.document, "created", 90_000_000),
    "signup": lambda s: _iso(1_500_000_000 + 1_000_000 * s.user),
    "loaded": lambda s: _iso(BEGIN + 400_000 + 50 * (s.search // 20)),
    "day": lambda s: _iso(s.time)[:10],
    "clicktime": lambda s: _iso(s.time + 9) if s.clicked else "",
    "boughttime": lambda s: _iso(s.time + 900) if s.bought else "",
    # policies and others
    "arm": lambda s: f"ranker-{'ab'[s.variant]}",
    "phone": lambda s: ["Pixel 8", "iPhone 15", "Galaxy S24"][s.user % 3],
    "colour": lambda s: ["red", "blue", "green"][s.document % 3],
    "version": lambda s: f"7.{s.user % 4}",
    "score": lambda s: round(3 - 0.2 * s.retrieved + s.noise % 7 / 100, 3),
    "index": lambda s: s.row,
}

# What the fields are read from, if a table has it: the last of a line wins over the others.
TRUTH = {
    "impression_id": ("search", "searchno"),
    "query_id": ("text", "queryno"),
    "timestamp": ("iso", "epoch", "millis"),
    "position": ("rank1", "rank0"),
    "doc_id": ("doc", "docno", "url"),
    "clicked": ("click", "clicktf", "clickyn", "clicktime"),
    "policy_id": ("arm",),
}

# name of the table: its columns, as content=name
DECOYS = """
shop past clicks:      search=request_id text=query iso=ts rank1=position doc=sku pastclicks=clicks click=label
shop rank of retrieval: search=request_id text=query iso=ts retrieved1=rank rank1=slot doc=sku click=clicked
shop two queries:      search=query_id text=keywords iso=event_ts rank1=position doc=product_id click=clicked
shop created:          search=search_id text=query created=created_at iso=event_ts rank1=position doc=item_id click=clicked
shop sessions:         session=session_id size=page text=query epoch=time rank1=position doc=doc_id click=clicked
shop pandas index:     index=Unnamed:0 search=search_id text=query iso=timestamp rank1=position doc=sku price=price click=clicked
news recommended:      search=slate_id user=reader_id epoch=served_at rank0=slot docno=article_id created=published_at click=opened
news label:            search=pageview_id text=topic iso=time rank1=pos doc=story anyclicked=trending click=y
news impressions past: search=view_uuid text=section_query millis=epoch_ms rank1=module_position docno=nid pastclicks=click_count click=is_click
hotel expedia:         searchno=srch_id iso=date_time queryno=srch_destination_id docno=prop_id rank1=position ctr=prop_hist_ctr click=click_bool bought=booking_bool
hotel stars:           searchno=SearchNumber text=Destination iso=SearchedOn rank1=ListingOrder docno=HotelCode stock=RoomsLeft click=ClickedThrough
hotel best rank:       searchno=sid text=city_query popularity=popularity_rank rank1=display_rank docno=hotel_id iso=at click=clk
ads slots:             search=auction_id text=keyword millis=ts withads=page_position rank1=ad_rank docno=creative_id click=is_click
ads topspot:           search=auction_id text=search_term epoch=event_time rank1=slot docno=ad_id topspot=is_top click=click
ads viewable:          search=bid_request_id text=kw millis=t rank0=slot docno=creative seen=viewable click=clicked
ads campaign:          search=request_id group=keyword text=search_query iso=ts rank1=position docno=ad_id click=clicked
apps installs:         search=query_uuid text=term iso=logged_at rank1=rank doc=package clicktf=tapped bought=installed
apps version:          search=impression_id text=query iso=timestamp version=model_version rank1=position doc=app_id click=clicked
apps phone:            search=impression_id text=query iso=timestamp phone=model rank1=position doc=app_id click=clicked
jobs applied:          search=search_uuid text=what group=where iso=posted rank1=ordinal docno=job_id click=viewed_detail bought=applied
jobs posted:           search=search_id text=q created=date epoch=search_time rank1=position docno=job_number click=clicked
jobs user clicks:      search=search_id text=q userclicks=user_clicks epoch=search_time rank1=position docno=job_id click=click
video watch:           search=shelf_id user=profile millis=client_ts rank0=index docno=video_id anyclicked=is_original click=played
video seen before:     search=page_id text=search_text millis=ts rank0=tile docno=title_id clickedbefore=clicked_before click=selected
video category:        search=page_id group=genre text=search_text millis=ts rank0=row_position docno=asset_id click=clicked
maps places:           search=lookup_id text=input iso=when rank1=listed_at docno=place_id stock=distance_rank click=chosen
maps country:          search=lookup_id text=query country=country iso=when rank1=rank docno=poi click=clicked
german:                searchno=Anfragenummer text=Suchbegriff iso=Zeitpunkt rank1=Position docno=Artikelnummer created=angelegt_am click=geklickt
german past:           searchno=Anfrage text=Suchbegriff iso=Zeit rank1=Rang docno=Artikel pastclicks=Klicks click=angeklickt
french:                searchno=id_requete text=requete iso=horodatage rank1=rang docno=id_produit promoted=en_promo click=clic
spanish:               searchno=id_busqueda text=consulta iso=fecha rank1=posicion docno=id_producto clickyn=clic bought=comprado
italian:               searchno=id_ricerca text=ricerca iso=data rank1=posizione docno=id_prodotto seen=visto click=cliccato
dutch:                 searchno=zoek_id text=zoekterm iso=tijdstip retrieved1=volgorde rank1=positie docno=product_id click=geklikt
portuguese:            searchno=id_pesquisa text=termo iso=hora rank1=posicao doc=produto promoted=destaque click=clicado
abbreviated:           searchno=rq text=qt epoch=tm rank1=ps docno=pid click=ck
abbreviated past:      searchno=rqid text=qtxt epoch=tms rank1=pos docno=pid pastclicks=clks click=clk
camel:                 search=requestId text=searchTerm millis=eventTime rank1=resultRank retrieved1=engineRank docno=productId click=wasClicked
screaming:             search=REQUEST_UUID text=QUERY_STRING iso=CREATED_TS rank1=DISPLAY_POS doc=ITEM_CODE click=CLICK_FLG basket=CART_FLG
dotted:                search=ctx.request text=ctx.query iso=ctx.time rank1=hit.position doc=hit.id score=hit.score click=hit.clicked
letters:               search=a text=b iso=c rank1=d doc=e click=f
letters two marks:     search=a text=b iso=c rank1=d doc=e seen=f click=g
letters two ranks:     search=a text=b iso=c rank1=d retrieved1=e doc=f click=g
numbers of columns:    searchno=col1 queryno=col2 epoch=col3 rank1=col4 docno=col5 click=col6 promoted=col7
columns and group:     search=v1 text=v2 group=v3 iso=v4 rank0=v5 docno=v6 clicktf=v7
two texts:             search=request_id text=query normalised=normalized_query iso=ts rank1=position doc=sku click=clicked
query and number:      search=request_id text=query queryno=query_id iso=ts rank1=position doc=sku click=clicked
two times:             search=request_id text=query iso=ts loaded=ingested_at rank1=position doc=sku click=clicked
time of sign-up:       search=request_id text=query signup=user_created iso=request_time rank1=position doc=sku click=clicked
day and time:          search=request_id text=query day=date iso=time rank1=position doc=sku click=clicked
created as timestamp:  search=request_id text=query created=timestamp iso=served rank1=position doc=sku click=clicked
numbers as times:      search=request_id text=query createdepoch=ts millis=logged_ms rank1=position doc=sku click=clicked
time of the click:     search=request_id text=query iso=ts rank1=position doc=sku clicktime=clicked_at
times of two actions:  search=request_id text=query iso=ts rank1=position doc=sku boughttime=ordered_at clicktime=clicked_at
parent and variant:    search=request_id text=query iso=ts rank1=position parent=product_id doc=variant_id click=clicked
url and id:            search=request_id text=query iso=ts rank1=position docno=doc_id url=url title=title click=clicked
brand id:              search=request_id text=query iso=ts rank1=position brand=item docno=listing_id click=clicked
row id:                rowid=impression_id search=request_id text=query iso=ts rank1=position doc=sku click=clicked
row id as id:          rowid=id search=request_id text=query iso=ts rank1=position doc=sku click=clicked
batch:                 batch=request_id search=search_key text=query iso=ts rank1=position doc=sku click=clicked
rank of sales:         search=request_id text=query iso=ts salesrank=rank rank1=shelf doc=sku click=clicked
popularity as rank:    search=request_id text=query iso=ts popularity=rank rank1=slot doc=sku click=clicked
row number:            search=request_id text=query iso=ts rowno=index rank1=position doc=sku click=clicked
two arms:              search=request_id text=query iso=ts arm=ranker phone=model rank1=position doc=sku click=clicked
variant of product:    search=request_id text=query iso=ts colour=variant rank1=position doc=sku click=clicked
basket:                search=request_id text=query iso=ts rank1=position doc=sku basket=added click=clicked
promoted only:         search=request_id text=query iso=ts rank1=position doc=sku promoted=clicks click=response
any clicked:           search=request_id text=query iso=ts rank1=position doc=sku anyclicked=has_clicks click=hit
clicked before:        search=request_id text=query iso=ts rank1=position doc=sku clickedbefore=clicked click=label
mobile:                search=request_id text=query iso=ts rank1=position doc=sku mobile=tap_device click=tap
retrieved from zero:   search=request_id text=query iso=ts retrieved0=position rank0=placement doc=sku click=clicked
length of query:       search=request_id length=query text=phrase iso=ts rank1=position doc=sku click=clicked
group called query:    search=request_id group=query text=user_input iso=ts rank1=position doc=sku click=clicked
country called q:      search=request_id country=q text=typed iso=ts rank1=position doc=sku click=clicked
cents and stock:       search=request_id text=query iso=ts rank1=position cents=price stock=items doc=article click=clicked
id without its name:   search=edition_view group=section iso=viewed_at rank1=position docno=headline_id ctr=prior_ctr click=click
two ids by name:       search=query_session text=query_terms iso=when rank1=hit_rank docno=record_id title=title click=clicked
times with spaces:     search=ticket text=subject iso=opened created=article_updated rank1=suggestion_no docno=kb_article click=clicked
image id:              search=request_id text=query iso=ts rank1=position image=image_id doc=sku click=clicked
"""  # noqa: E501


@dataclass(frozen=True)
class Decoy:
    """A table with a misleading column, and what its fields really are."""

    name: str
    columns: dict[str, str]

    @property
    def header(self) -> list[str]:
        return list(self.columns.values())

    def rows(self, rows: list[Shown]) -> list[list[Any]]:
        return [[CONTENT[what](row) for what in self.columns] for row in rows]

    def truths(self, field: str) -> list[str]:
        """The names of the columns that a field may be read from."""
        return [self.columns[what] for what in TRUTH.get(field, ()) if what in self.columns]


def decoys() -> list[Decoy]:
    """All tables."""
    tables = []
    for line in DECOYS.strip().splitlines():
        name, _, columns = line.partition(":")
        pairs = dict(pair.split("=") for pair in columns.replace("Unnamed:0", "Unnamed_0").split())
        tables.append(Decoy(name.strip(), pairs))
    return tables
