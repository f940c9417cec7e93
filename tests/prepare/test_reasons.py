from unisono.prepare.first_pass.drops import Drops


def test_drops_keep_a_few_clipped_examples():
    drops = Drops()
    for number in range(5):
        drops.add("empty", f"{number}" * 500, "")
    summary = drops.summary()["empty"]
    assert summary.count == 5
    assert summary.examples == [(f"{number}" * 200, "") for number in range(3)]


def test_drops_of_parts_add_up_to_those_of_the_whole():
    pairs = [("empty", "a"), ("too long", "b"), ("empty", "c"), ("empty", "d"), ("empty", "e")]
    whole, parts = Drops(), Drops()
    for reason, text in pairs:
        whole.add(reason, text, "")
    for start in range(0, len(pairs), 2):
        part = Drops()
        for reason, text in pairs[start : start + 2]:
            part.add(reason, text, "")
        parts.add_all(part.summary())
    assert parts.summary() == whole.summary()


def test_the_order_of_reasons_does_not_depend_on_what_came_first():
    drops = Drops()
    for reason in ("something new", "length ratio", "empty", "invalid UTF-8"):
        drops.add(reason, "", "")
    assert list(drops.summary()) == ["invalid UTF-8", "empty", "length ratio", "something new"]
