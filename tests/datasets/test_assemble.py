import pytest

from unisono.datasets.assemble import Reader
from unisono.errors import DataError


def read(tmp_path, data, format="lines", column=0):
    path = tmp_path / "member"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return [line.decode() for line in Reader(path, format, column, "x.sgm from a.tgz")]


def refused(tmp_path, data, format, match):
    with pytest.raises(DataError, match=match) as caught:
        read(tmp_path, data, format, 2 if format == "tsv" else 0)
    assert "x.sgm from a.tgz" in caught.value.where


def test_lines_end_at_line_feeds_only(tmp_path):
    text = "a\u2028b\u0085c\vd\fe\n\r\nf\rg\r\n\n h \nlast"
    assert read(tmp_path, text) == ["a\u2028b\u0085c\vd\fe", "", "f\rg", "", " h ", "last"]
    assert read(tmp_path, "\ufeffone\ntwo\n") == ["one", "two"]
    assert read(tmp_path, "last\r") == ["last\r"]
    assert read(tmp_path, "") == []


def test_bytes_that_are_no_text_are_passed_on(tmp_path):
    (tmp_path / "member").write_bytes(b"caf\xe9\n\x00\n")
    assert list(Reader(tmp_path / "member", "lines", 0, "")) == [b"caf\xe9", b"\x00"]


SGML = """<srcset setid="newstest2014" srclang="any">
<doc docid="a" origlang="en">
<hl>
<seg id="1">Head &amp; line</seg>
</hl>
<p><seg id="2"> two
  lines </seg><seg x='1'
 id="3">&quot;Q&quot; &lt;b&gt; 1 &#60; 2 caf&eacute;</seg></p>
</doc>
<DOC docid="b"><SEG ID="1">AT&T\u2028R&amp;amp;D</SEG><seg id="4"></seg><seg id="5"/></DOC>
<segment>not one</segment>
</srcset>
"""


@pytest.mark.parametrize("format", ["sgml", "xml"])
def test_segments_of_sgml_and_xml(tmp_path, format):
    expected = ["Head & line", "two lines", '"Q" <b> 1 < 2 café', "AT&T\u2028R&amp;D", "", ""]
    assert read(tmp_path, SGML, format) == expected
    assert read(tmp_path, "\ufeff" + SGML.replace("\n", "\r\n"), format) == expected


def test_documents_are_where_they_begin(tmp_path):
    (tmp_path / "a.sgm").write_text(SGML)
    reader = Reader(tmp_path / "a.sgm", "sgml", 0, "")
    assert (len(list(reader)), reader.documents) == (6, [0, 3])


def test_an_entity_can_not_break_a_line_or_name_a_file(tmp_path):
    hostile = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">
    <!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
    <seg id="1">&f; &b; one&#10;two&#x0d;&#0; &#xD800;</seg>"""
    (line,) = read(tmp_path, hostile, "xml")
    assert line == "&f; &b; one two \ufffd \ufffd"


def test_markup_that_is_broken_is_refused(tmp_path):
    refused(tmp_path, "\n\n<seg id=1>never ends", "sgml", "does not end")
    refused(tmp_path, "<seg>a<seg>b</seg>", "xml", "inside another")
    refused(tmp_path, "<seg>a</seg></seg>", "xml", "without a <seg>")
    refused(tmp_path, b"<seg>\n\xff</seg>", "xml", "0xff is not UTF-8")
    refused(tmp_path, f"<seg>{'a' * (2 << 20)}</seg>", "xml", "<seg> of 2,097,152")


def test_hostile_markup_takes_no_longer_than_its_length(tmp_path):
    # Quadratic work on 6 MB would not end within the time a test may take.
    for text in ("<seg" * 1_500_000, "<seg <" * 1_000_000, "&" * 1_000_000):
        assert read(tmp_path, f"{text}\n", "sgml") == []


def test_lines_about_a_talk_go_and_titles_stay(tmp_path):
    tags = (
        "<url>http://ted.com/1</url>\n<keywords>a, b</keywords>\n<speaker>Al Gore</speaker>\n"
        "<talkid>1</talkid>\n<title>Al Gore: Title</title>\n<description>It is.</description>\n"
        '<reviewer href="x">R</reviewer>\n<translator href="x">T</translator>\n'
        " Thank you. \n5 < 6 and <b>bold</b>\n\n<url>2</url>\n<talkid>2</talkid>\nEnd &amp;\n"
    )
    (tmp_path / "t").write_text(tags)
    reader = Reader(tmp_path / "t", "iwslt-tags", 0, "")
    assert list(reader) == [
        *(b"Al Gore: Title", b"It is.", b"Thank you.", b"5 < 6 and <b>bold</b>", b""),
        b"End &amp;",
    ]
    assert reader.documents == [0, 5]


def test_columns_of_a_table(tmp_path):
    assert read(tmp_path, "1\ta\tb c\n2\t\td\r\n", "tsv", 2) == ["a", ""]
    assert read(tmp_path, "1\ta\tb c\n2\t\td\r\n", "tsv", 3) == ["b c", "d"]
    refused(tmp_path, "a\tb\nalone\n", "tsv", "a line of 1 columns; column 2 is needed")
