from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop.data import load_split, svmlight
from rankloop.errors import DataError
from rankloop.types import Split

Write = Callable[[str, str], Path]

FILE = """\
# a comment on its own line
2 qid:10 1:0.5 2:1.5 #docid = GX008-86-4444840 inc = 1 prob = 0.08

0 qid:10 2:-3e-2 #docid = GX037-06-11625428 inc = 0.0031586555555558 prob = 0.0897452
1 qid:9 1:7 #docid = GX044-30-4142998 inc = 1 prob = 0.9
"""


def test_every_part_of_a_line_is_kept(write: Write) -> None:
    split = load_split(write("a.txt", FILE))
    assert split.features.tolist() == np.float32([[0.5, 1.5], [0, -0.03], [7, 0]]).tolist()
    assert split.labels.tolist() == [2, 0, 1]
    assert split.offsets.tolist() == [0, 2, 3]
    assert split.query_ids.tolist() == ["10", "9"]
    assert split.doc_ids is not None
    assert split.doc_ids.tolist() == ["GX008-86-4444840", "GX037-06-11625428", "GX044-30-4142998"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_unix_and_windows_line_ends(write: Write, ending: str) -> None:
    path = write("a.txt", "")
    path.write_bytes(FILE.replace("\n", ending).encode())
    assert load_split(path).labels.tolist() == [2, 0, 1]


def test_gzip_is_detected_by_content(write: Write) -> None:
    path = write("a.txt", "")
    path.write_bytes(gzip.compress(FILE.encode()))
    assert load_split(path).query_ids.tolist() == ["10", "9"]


def test_the_first_word_of_a_comment_is_the_document_id(write: Write) -> None:
    split = load_split(write("a.txt", "3 qid:1 1:1 # 1A rambo\n2 qid:1 1:1 # 1B rambo\n1 qid:1 1:1\n"))
    assert split.doc_ids is not None
    assert split.doc_ids.tolist() == ["1A", "1B", ""]


def test_query_ids_can_be_any_word(write: Write) -> None:
    assert load_split(write("a.txt", "0 qid:a_1 1:1\n1 qid:a_2 1:1\n")).query_ids.tolist() == ["a_1", "a_2"]


def test_documents_without_features_are_zeros(write: Write) -> None:
    split = load_split(write("a.txt", "0 qid:1\n1 qid:1 2:1\n0 qid:2\n"))
    assert split.features.tolist() == [[0, 0], [0, 1], [0, 0]]


def test_values_are_clipped_to_the_range_of_float32(write: Write) -> None:
    split = load_split(write("a.txt", "0 qid:1 1:1.79769313486e+308 2:-1e39\n1 qid:1 1:1 2:2\n"))
    largest = np.finfo(np.float32).max
    assert split.features.tolist() == [[largest, -largest], [1, 2]]


def test_blocks_are_joined_at_lines(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i % 5} qid:{i // 7} 1:{i} 3:{i * 0.5} # doc{i}\n" for i in range(100)]
    text = "".join(lines[:50]) + "# nothing but remarks\n\n" * 20 + "".join(lines[50:])
    path = write("a.txt", text)
    whole = load_split(path, cache=False)
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 64)
    blocks = load_split(path, cache=False)
    assert whole.n_documents == 100
    np.testing.assert_array_equal(blocks.features, whole.features)
    np.testing.assert_array_equal(blocks.doc_ids, whole.doc_ids)
    np.testing.assert_array_equal(blocks.offsets, whole.offsets)


SECOND_LINE = {
    "a label that is no number": ("good qid:1 1:1", "label 'good' is not a number"),
    "a label that is not finite": ("nan qid:1 1:1", "label 'nan' is not a number"),
    "a negative label": ("-1 qid:1 1:1", "label -1 is negative; expected a grade of 0 or more"),
    "no qid": ("1 1:1 2:2", "there is no qid; expected '<label> qid:<query>"),
    "an empty qid": ("1 qid: 1:1", "there is no qid"),
    "nothing but a label": ("1", "there is no qid"),
    "a feature that is no number": ("1 qid:1 1:0.5 2:o.5", "feature 2 is 'o.5'; expected a finite number"),
    "a number only to Python": ("1 qid:1 1:1_000 2:1", "feature 1 is '1_000'"),
    "a feature without a value": ("1 qid:1 1:0.5 2:", "feature 2 is ''"),
    "a feature without an index": ("1 qid:1 0.5 2:1", "'0.5' is not a feature; expected <index>:<value>"),
    "a negative index": ("1 qid:1 -1:0.5", "'-1:0.5' is not a feature"),
    "index 0": ("1 qid:1 0:1 1:1", "feature index 0; expected 1 to 65536"),
    "an index too high": ("1 qid:1 1:1 99999:1", "feature index 99999"),
    "an index of many digits": (f"1 qid:1 1:1 {'9' * 5000}:1", "feature index 99999999999999999999;"),
    "indices that fall": ("1 qid:1 2:1 1:1", "feature index 1 after 2; expected each index once"),
    "an index twice": ("1 qid:1 1:1 1:2", "feature index 1 after 1"),
    "a feature that is NaN": ("1 qid:1 1:nan", "feature 1 is 'nan'; expected a finite number"),
    "an infinite feature": ("1 qid:1 1:1 2:-inf", "feature 2 is '-inf'"),
    "two qids": ("1 qid:1 qid:2 1:1", "'qid:2' is not a feature"),
    "a zero byte": ("1 qid:1 1:1\0 2:1", "there is a NUL byte"),
}


@pytest.mark.parametrize("what", SECOND_LINE)
def test_errors_name_the_line(write: Write, what: str) -> None:
    line, message = SECOND_LINE[what]
    path = write("bad.txt", f"0 qid:1 1:1 2:1\n{line}\n0 qid:3 1:1 2:1\n")
    with pytest.raises(DataError) as error:
        load_split(path)
    assert f"{path}, line 2: " in str(error.value)
    assert message in str(error.value)


def test_errors_name_the_line_in_a_later_block(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 32)
    good = "".join(f"0 qid:{i} 1:1\n\n" for i in range(20))
    with pytest.raises(DataError, match=r"line 41: feature 1 is 'x'"):
        load_split(write("bad.txt", good + "0 qid:20 1:x\n0 qid:21 1:1\n"))


def test_a_query_that_is_not_contiguous(write: Write) -> None:
    path = write("bad.txt", "0 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n")
    with pytest.raises(DataError, match=r"line 3: query '1' appears again .*first line is 1"):
        load_split(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a remark\n"])
def test_a_file_without_documents(write: Write, text: str) -> None:
    with pytest.raises(DataError, match=r"the file has no documents; expected"):
        load_split(write("empty.txt", text))


def test_a_file_without_features(write: Write) -> None:
    with pytest.raises(DataError, match="no line has a feature"):
        load_split(write("a.txt", "0 qid:1\n1 qid:1\n"))


DENSE = "1 qid:1 1:0.5 2:0.25 3:0.75\n0 qid:1 1:0.5 2:0.25 3:0.75\n2 qid:2 1:0.5 2:0.25 3:0.75"
LETOR = "".join(f"1 qid:1 {i + 1}:0.5 #docid = D{i} inc = 1 prob = 0.5\n" for i in range(4))[:-1]


@pytest.mark.parametrize("text", [DENSE, LETOR, "1 qid:1 1:1 2:2", "1 qid:1 2:1\n0 qid:1 1:1\n1 qid:2 1:2"])
def test_a_complete_last_line_needs_no_newline(write: Write, text: str) -> None:
    whole = load_split(write("a.txt", text + "\n"))
    split = load_split(write("b.txt", text))
    np.testing.assert_array_equal(split.features, whole.features)
    assert split.query_ids.tolist() == whole.query_ids.tolist()


@pytest.mark.parametrize(
    "cut", [f"2 qid:2 {rest}" for rest in ("", "1:0.5 2:0.25 3:", "1:0.5 2:0.25", "1:0.5 2")]
)
def test_a_truncated_last_line_of_a_dense_file(write: Write, cut: str) -> None:
    with pytest.raises(DataError, match=r"line 3: .*truncated"):
        load_split(write("cut.txt", DENSE.rsplit("\n", 1)[0] + "\n" + cut))


@pytest.mark.parametrize("keep", [" #docid = D3 inc = 1", " #docid", " "])
def test_a_truncated_comment(write: Write, keep: str) -> None:
    text = LETOR[: LETOR.rindex(" #docid")] + keep
    with pytest.raises(DataError, match=r"line 4: .*truncated: it lacks the comment"):
        load_split(write("cut.txt", text))


def test_a_truncated_compressed_file(write: Write) -> None:
    path = write("cut.txt.gz", "")
    path.write_bytes(gzip.compress(DENSE.encode() * 1)[:-12])
    with pytest.raises(DataError, match="damaged or ends early"):
        load_split(path)


def test_query_sizes_from_a_second_file(write: Write) -> None:
    path = write("rank.train", "1 1:1\n0 2:1\n2 1:3\n")
    write("rank.train.query", "2\n1\n")
    split = load_split(path)
    assert split.offsets.tolist() == [0, 2, 3]
    assert split.query_ids.tolist() == ["0", "1"]
    assert split.labels.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("2\n0\n1\n", r"\.query, line 2: an empty query"),
        ("2\n-1\n2\n", r"\.query, line 2: '-1' is not a number of documents"),
        ("2\none\n", r"\.query, line 2: 'one' is not"),
        ("2\n2\n", r"the 2 query sizes add up to 4, expected 3"),
        ("", r"the 0 query sizes add up to 0, expected 3"),
    ],
)
def test_bad_query_sizes(write: Write, sizes: str, message: str) -> None:
    path = write("rank.train", "1 1:1\n0 2:1\n2 1:3\n")
    write("rank.train.query", sizes)
    with pytest.raises(DataError, match=message):
        load_split(path)


def test_query_sizes_and_qids_must_agree(write: Write) -> None:
    path = write("rank.train", "1 qid:1 1:1\n0 qid:1 2:1\n2 qid:2 1:3\n")
    sizes = write("rank.train.query", "2\n1\n")
    assert load_split(path).query_ids.tolist() == ["1", "2"]
    sizes.write_text("1\n2\n")
    with pytest.raises(DataError, match="the query sizes disagree with the qids"):
        load_split(path)


def test_a_qid_on_some_lines_only(write: Write) -> None:
    path = write("rank.train", "1 1:1\n0 qid:1 2:1\n")
    write("rank.train.query", "2\n")
    with pytest.raises(DataError, match="line 2: there is a qid, but none on the first line"):
        load_split(path)


def test_padding_to_more_features(write: Write) -> None:
    path = write("a.txt", "1 qid:1 2:1\n")
    assert load_split(path, n_features=4).features.tolist() == [[0, 1, 0, 0]]
    with pytest.raises(DataError, match="feature index 2 occurs, expected at most 1"):
        load_split(path, n_features=1)


def test_a_path_that_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a file"):
        load_split(tmp_path)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    shape = (sum(sizes), draw(st.integers(1, 4)))
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
    features = draw(arrays(np.float32, shape, elements=finite))
    features[0, -1] = 1.0  # the width of a file is its highest index
    labels = draw(arrays(np.float64, shape[0], elements=st.floats(0, 1e300)))
    ids = draw(st.lists(st.integers(0, 99), min_size=len(sizes), max_size=len(sizes), unique=True))
    named = draw(st.booleans())
    return Split.build(
        features, labels, sizes, query_ids=ids, doc_ids=[f"D-{i}" for i in range(shape[0])] if named else None
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(split=splits(), zipped=st.booleans(), final_newline=st.booleans())
def test_a_written_split_is_read_back(
    split: Split, zipped: bool, final_newline: bool, as_text: Callable[[Split], str], tmp_path: Path
) -> None:
    text = as_text(split).encode()
    if not final_newline and split.n_documents <= svmlight.MIN_COMPLETE_LINES:
        text = text.rstrip(b"\n")
    path = tmp_path / "any.txt"
    path.write_bytes(gzip.compress(text) if zipped else text)
    for _ in range(2):  # parsed, then from the cache
        again = load_split(path)
        np.testing.assert_array_equal(again.features, split.features)
        np.testing.assert_array_equal(again.labels, split.labels)
        np.testing.assert_array_equal(again.offsets, split.offsets)
        np.testing.assert_array_equal(again.query_ids, split.query_ids)
        if split.doc_ids is None:
            assert again.doc_ids is None
        else:
            np.testing.assert_array_equal(again.doc_ids, split.doc_ids)


@pytest.mark.parametrize("text", ["0 qid:1 1:2\n0 qid:1\0 1:2\n", "0 qid:1 1:2 # docid = a\0\n"])
def test_ids_that_would_lose_their_last_characters_are_refused(write: Write, text: str) -> None:
    # NumPy cuts NULs off the ends of texts: two queries became one, and the error did not name the file.
    with pytest.raises(DataError, match=r"a\.txt, line \d: there is a NUL byte"):
        load_split(write("a.txt", text))
