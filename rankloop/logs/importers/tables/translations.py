"""The words of other languages that columns are called by, in English."""

from __future__ import annotations

import unicodedata

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
