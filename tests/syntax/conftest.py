from pathlib import Path

import pytest

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.tk"))


@pytest.fixture(params=CORPUS, ids=lambda path: path.stem)
def spec(request: pytest.FixtureRequest) -> Path:
    return request.param
