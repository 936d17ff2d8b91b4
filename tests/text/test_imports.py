"""What importing the package costs."""

import subprocess
import sys


def test_large_libraries_are_imported_only_when_needed() -> None:
    code = (
        "import sys; from nearcast.text import DEFAULT, parse_bag, parse_query;"
        "parse_query('ipad sale'); parse_bag('jazz'); DEFAULT.terms('x');"
        "print(sorted({'numba', 'numpy', 'pyarrow', 'Stemmer'} & set(sys.modules)));"
        "parse_query('a OR b'); print('nearcast.text.parser' in sys.modules);"
        "parse_query('NOT (a OR NOT b)'); print('nearcast.text.parser' in sys.modules);"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "False", "True", ""]
