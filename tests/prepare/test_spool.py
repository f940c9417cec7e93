from unisono.prepare.spool import write_spool

SOURCE = [f"s{number}" for number in range(7)]
TARGET = [f"t{number} ä\u2028x" for number in range(7)]


def test_pairs_come_back(tmp_path):
    text = write_spool(tmp_path / "chunk", SOURCE, TARGET)
    assert text.pairs == 7
    assert text.read() == (SOURCE, TARGET)


def test_nothing_comes_back_as_nothing(tmp_path):
    assert write_spool(tmp_path / "chunk", [], []).read() == ([], [])
