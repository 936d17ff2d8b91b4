"""Text: the analyser, the query language, and the numbering of terms."""

from nearcast.text.analyser import DEFAULT, ENGLISH_STOP_WORDS, Analyser
from nearcast.text.dnf import MOST_CONJUNCTS, Conjunct
from nearcast.text.expression import And, Condition, Expression, Not, Or, Term
from nearcast.text.operands import (
    NO_CONTENT,
    Content,
    Equals,
    Everything,
    Exists,
    Operand,
    Phrase,
    Prefix,
    Within,
    fold,
)
from nearcast.text.query import EVERYTHING, Query, hints, parse_bag, parse_expression, parse_query
from nearcast.text.vocabulary import Vocabulary, idf_of

__all__ = [
    "DEFAULT",
    "ENGLISH_STOP_WORDS",
    "EVERYTHING",
    "MOST_CONJUNCTS",
    "NO_CONTENT",
    "Analyser",
    "And",
    "Condition",
    "Conjunct",
    "Content",
    "Equals",
    "Everything",
    "Exists",
    "Expression",
    "Not",
    "Operand",
    "Or",
    "Phrase",
    "Prefix",
    "Query",
    "Term",
    "Vocabulary",
    "Within",
    "fold",
    "hints",
    "idf_of",
    "parse_bag",
    "parse_expression",
    "parse_query",
]
