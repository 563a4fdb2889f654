"""The words by which columns and events are recognised, in six languages, and families of columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rankloop.logs.importers.tables.lists import RANGE

# The plural of an abbreviation: URLs, IDs.
_PLURAL = re.compile(r"([A-Z]{2,})s(?![a-z])")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def normalised(name: str) -> str:
    """A name in one spelling.

    >>> [normalised(name) for name in ("searchRequestID", "Date-Time", "payload.userQuery", "docIDs")]
    ['search_request_id', 'date_time', 'user_query', 'doc_ids']
    """
    plain = name if name.isascii() else without_accents(name)
    last = _PLURAL.sub(lambda found: found[1].capitalize() + "s", plain.rpartition(".")[2])
    return "_".join(part.lower() for part in _PARTS.findall(last))


# Endings that say how a value is stored, not what it is.
_STORED = re.compile(r"(_(hash|hashed|md_5|sha_1|sha_256|anon|anonymized|anonymised))+$")


def spellings(name: str) -> tuple[str, ...]:
    """The spellings by which a column may be recognised.

    >>> spellings("query.text"), spellings("session_id_hash"), spellings("Suchbegriff")
    (('text', 'query_text'), ('session_id_hash', 'session_id'), ('suchbegriff', 'search_term'))
    """
    steps = list(filter(None, map(normalised, name.split("."))))
    found = [normalised(name), "_".join(steps[-2:]), "_".join(steps)]
    found += [_STORED.sub("", one) for one in found]
    return tuple(dict.fromkeys([*found, *map(in_english, found)]))


def _with_ids(*nouns: str) -> tuple[str, ...]:
    """Nouns as the names of ids, the most explicit first."""
    endings = ("_id", "_uuid", "_key", "id", "_code", "_number", "")
    return tuple(noun + ending for noun in nouns for ending in endings)


# In the order of preference.
IMPRESSION = _with_ids(
    "impression", "imp", "serp", "search_request", "search", "srch", "request", "req", "ranking", "slate",
    "result_list", "list", "page_view", "pageview", "query_instance", "query_log", "display",
    "recommendation", "recommendation_list",
)  # fmt: skip
SESSION = _with_ids("session", "sess", "visit", "search_session", "ga_session", "domain_session")
USER = _with_ids(
    "user", "visitor", "client", "customer", "anon", "anonymous", "cookie", "member", "user_pseudo",
    "domain_user", "device", "distinct", "profile",
)  # fmt: skip
# What tells the searches of a session apart, apart from their text and time.
NUMBER = (
    "query_num", "query_number", "query_no", "query_seq", "interaction_num", "interaction", "turn", "step",
    "search_num", "search_number", "page", "page_num", "page_number",
)  # fmt: skip
QUERY = (
    "query_id", "query", "user_query", "search_query", "query_text", "search_term", "search_terms",
    "searchterm", "search_text", "search_phrase", "search_phrases", "searchphrase", "search_keyword",
    "search_keywords", "raw_query", "keyword", "keywords", "term", "terms", "phrase", "q", "qid", "topic_id",
    "topic", "queryid", "search_string", "search",
)  # fmt: skip
DOCUMENTS = (
    "doc", "document", "item", "product", "prop", "property", "hotel", "listing", "sku", "asin", "article",
    "url", "video", "movie", "song", "track", "book", "ad", "offer", "job", "recipe", "page", "content",
    "result", "hit", "object", "entity", "news", "series", "note", "post", "creative", "restaurant",
)  # fmt: skip
DOCUMENT = (*_with_ids(*DOCUMENTS), "docno", "id")
LISTS = (
    *(
        noun + ending
        for noun in DOCUMENTS
        for ending in ("s", "_ids", "s_ids", "ids", "_list", "s_shown", "_id_list")
    ),
    "serp", "ranking", "ranked_list", "ranklist", "slate", "candidates", "shown", "displayed", "list",
    "impressions", "impression_list", "docs", "product_skus",
)  # fmt: skip
POSITION = (
    "position", "rank", "pos", "display_position", "display_rank", "rank_position", "result_rank",
    "result_position", "item_position", "item_rank", "list_position", "doc_rank", "ordinal", "slot", "place",
    "index", "idx", "display_order", "result_order", "shown_order", "serp_position", "serp_rank",
)  # fmt: skip
CLICKED = (
    "clicked", "click", "is_clicked", "is_click", "was_clicked", "has_click", "click_bool", "click_flag",
    "clicks", "click_count", "clicks_count", "num_clicks", "n_clicks", "iscl", "user_click",
)  # fmt: skip
# The id of a click, empty where there was none.
CLICK_ID = _with_ids("click", "click_event", "clicked")[:-1]
# The time of a click, empty where there was none.
CLICK_TIME = (
    "click_time", "clicked_at", "click_timestamp", "click_ts", "click_date", "clicked_time", "time_of_click",
    "click_datetime", "clicked_timestamp", "click_at",
)  # fmt: skip
TIME = (
    "timestamp", "time", "ts", "date_time", "datetime", "event_time", "event_timestamp", "time_stamp",
    "search_time", "search_timestamp", "query_time", "query_timestamp", "request_time", "server_time",
    "shown_at", "created_at", "logged_at", "created", "occurred_at", "event_date", "date", "day",
    "start_time", "starttime", "timestamp_ms", "time_ms", "unix_time", "epoch", "epoch_ms",
)  # fmt: skip
# The page, or the first position on it.
PAGE = (
    "page", "page_number", "page_num", "page_no", "page_index", "serp_page", "result_page", "offset", "start",
    "start_index", "start_row", "start_rank", "first_result", "from", "result_offset", "page_offset", "skip",
)  # fmt: skip
# Counts of a table that has been added up.
COUNTS = (
    "impressions", "impression", "impression_count", "impressions_count", "num_impressions", "n_impressions",
    "views", "view_count", "displays", "display_count", "shows", "times_shown", "shown_count",
)  # fmt: skip
POLICY = (
    "policy_id", "policy", "ranker_id", "ranker", "ranker_version", "ranking_model", "ranking_policy",
    "ranking_algorithm", "algorithm", "algo", "model_version", "model_id", "model", "variant", "bucket",
    "ab_group", "test_group", "experiment_group", "experiment_variant", "arm",
)  # fmt: skip
RANDOMISED = (
    "random_bool", "randomised", "randomized", "is_randomised", "is_randomized", "is_random", "random",
    "random_flag", "shuffled", "is_shuffled", "exploration", "is_exploration",
)  # fmt: skip
EVENT = (
    "event", "event_type", "event_name", "action", "action_name", "action_type", "activity",
    "interaction_type", "type", "kind", "behavior", "behaviour", "type_of_record", "record_type",
)  # fmt: skip
# What happened after the display; never a feature.
OUTCOMES = (
    "click", "clicked", "clicks", "booking", "booked", "purchase", "purchased", "order", "ordered", "cart",
    "conversion", "converted", "dwell", "revenue", "bought", "sale", "sales", "label", "reward", "clk",
    "liked", "shared", "watched", "viewed", "seen",
)  # fmt: skip

# Names that no list has, by their words: the last resort, and only with values of the right kind.
LIKE_POSITION = re.compile(r"(^|_)(pos|position|rank|slot|ordinal|list_index)(_|$)")
UNLIKE_POSITION = re.compile(
    r"click|page_rank|score|avg|average|mean|count|total|max|type|new|old|sales|seller|price|popular|original"
    r"|initial|previous|retriev"
)
LIKE_TIME = re.compile(r"(^|_)(time|timestamp|tstamp|ts|date|datetime|at|epoch|when)(_|$)|time$|date$")
UNLIKE_TIME = re.compile(r"click|duration|passed|delta|spent|window|birth|updated|modified|end|dwell|frame")
LIKE_QUERY = re.compile(
    r"(^|_)(query|search|searched)_?(text|string|terms?|phrases?|keywords?|tokens?|words?|query|raw|clean)"
    r"|^search_?string|(^|_)(search_?term|keywords?|user_query)(_|$)"
)
UNLIKE_QUERY = re.compile(r"count|length|time|date|vector|embedding|num|duration|type")
LIKE_DOCUMENT = re.compile(
    rf"(^|_)({'|'.join(DOCUMENTS)})s?(_\w+)?_(id|ids|no|nr|number|code|key|uuid|sku|skus|asin|url|urls)$"
)
UNLIKE_DOCUMENT = re.compile(r"click|categor|type|brand|country|location|destination|site|price|parent|page_")
LIKE_CLICK = re.compile(r"(^|_)(is_?|was_?|has_?|did_?)?click(s|ed)?(_|$)")
UNLIKE_CLICK = re.compile(r"time|date|rank|pos|order|url|id$|rate|ctr|history|prior|past|avg|before")
LIKE_ID = re.compile(r"(^|_)(\w*id|uuid|guid|key|hash)$")

# German, French, Spanish, Italian, Portuguese and Dutch, without accents.
_WORDS = {
    "query": "suchanfrage suchabfrage requete requetes consulta interrogazione zoekopdracht zoekvraag",
    "search_term": "suchbegriff suchwort suchtext suchphrase suchstring suchausdruck stichwort zoekterm "
    "termebusqueda",
    "keyword": "schlagwort palabra motcle",
    "term": "termino terme termine termo",
    "search": "suche suchvorgang recherche busqueda ricerca busca pesquisa zoeken",
    "request": "anfrage abfrage solicitud demande richiesta aanvraag",
    "position": "posicion posizione posicao positie stelle",
    "rank": "rang platz platzierung rango",
    "product": "produkt produit producto prodotto produto",
    "article": "artikel articulo articolo artigo",
    "article_number": "artikelnummer artikelnr",
    "product_number": "produktnummer produktnr",
    "document": "dokument documento",
    "result": "ergebnis treffer resultat resultado risultato resultaat",
    "hotel": "unterkunft",
    "offer": "angebot offre oferta offerta",
    "clicked": "geklickt angeklickt clique cliquee clicado pulsado cliccato geklikt clicou",
    "click": "klick clic klik",
    "clicks": "klicks clics",
    "timestamp": "zeitpunkt zeitstempel horodatage tijdstip",
    "time": "zeit uhrzeit heure hora ora tijd",
    "date": "datum fecha",
    "session": "sitzung sesion sessione sessao sessie",
    "user": "nutzer benutzer utilisateur usuario utente gebruiker",
    "customer": "kunde cliente klant",
    "page": "seite pagina",
    "variant": "variante",
    "number": "nummer numero",
}
ENGLISH = {word: english for english, words in _WORDS.items() for word in words.split()}


def without_accents(text: str) -> str:
    """Text in plain letters, where there are any.

    >>> without_accents("Requête à Straße")
    'Requete a Strasse'
    """
    decomposed = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def in_english(name: str) -> str:
    """A normalised name in English; as it is if none of its words is known in another language.

    >>> in_english("id_producto"), in_english("suchbegriff"), in_english("search_id")
    ('product_id', 'search_term', 'search_id')
    """
    words = name.split("_")
    if not any(word in ENGLISH for word in words):
        return name
    translated = [ENGLISH.get(word, word) for word in words if word not in ("de", "du", "del", "di", "do")]
    # These languages put the noun last: the id of the product.
    if translated[0] in ("id", "number") and len(translated) > 1:
        translated = [*translated[1:], translated[0]]
    return "_".join(translated)


_NUMBERED = re.compile(r"(.*\D)(\d+)$")
# Two columns with numbers are hardly a list of results.
LEAST = 3


def find_family(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The range of columns whose common name is one of these; None if there is none.

    >>> find_family(["query", "doc_1", "doc_2", "doc_3"], ["doc", "item"])
    'doc_1..doc_3'
    """
    numbers: dict[str, list[int]] = {}
    for column in columns:
        if match := _NUMBERED.match(column):
            numbers.setdefault(match[1], []).append(int(match[2]))
    for stem, found in numbers.items():
        together = sorted(found) == list(range(min(found), max(found) + 1))
        if len(found) >= LEAST and together and normalised(stem) in names:
            return f"{stem}{min(found)}{RANGE}{stem}{max(found)}"
    return None
