"""Text: the analyser, the query language, and the numbering of terms."""

from nearcast.text.analyser import DEFAULT, ENGLISH_STOP_WORDS, Analyser
from nearcast.text.dnf import MOST_CONJUNCTS, Conjunct
from nearcast.text.expression import And, Expression, Not, Or, Term
from nearcast.text.query import Query, parse_bag, parse_expression, parse_query
from nearcast.text.vocabulary import Vocabulary, idf_of

__all__ = [
    "DEFAULT",
    "ENGLISH_STOP_WORDS",
    "MOST_CONJUNCTS",
    "Analyser",
    "And",
    "Conjunct",
    "Expression",
    "Not",
    "Or",
    "Query",
    "Term",
    "Vocabulary",
    "idf_of",
    "parse_bag",
    "parse_expression",
    "parse_query",
]
