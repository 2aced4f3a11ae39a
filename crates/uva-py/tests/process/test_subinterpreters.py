"""What importing does in a subinterpreter."""

import pytest
from conftest import run_python_well

INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    # Before Python 3.13.
    import _xxsubinterpreters as interpreters

IMPORT = '''
try:
    import uvatrain
except ImportError as error:
    print("refused" if "uvatrain" in str(error) and "subinterpreters" in str(error) else error, flush=True)
else:
    print("imported", flush=True)
'''
"""


@pytest.mark.parametrize("main_first", [True, False])
def test_a_subinterpreter_is_refused_and_the_main_one_is_not(graph, main_first):
    script = f"""{INTERPRETERS}
if {main_first}:
    import uvatrain
for _ in range(2):
    interpreters.run_string(interpreters.create(), IMPORT)
import uvatrain
with uvatrain.Loader(sys.argv[1], fanouts=(4, 3), batch_size=64) as loader:
    print(sum(1 for batch in loader))
"""
    assert run_python_well(script, graph).split() == ["refused", "refused", "5"]
