from collections.abc import Iterator

import pytest
from lsp_editor import Editor


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One server for the tests of a module; each opens buffers of its own."""
    started = Editor(tmp_path_factory.mktemp("specs"))
    yield started
    assert started.messages == []
    assert started.stop() == 0
