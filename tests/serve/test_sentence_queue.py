"""Which sentences a worker takes: turns, shares, batches."""

from unisono.serve.sentence_queue import (
    BATCH_CHARACTERS,
    BATCH_SENTENCES,
    SentenceJob,
    SentenceQueue,
)


def queue_of(*jobs):
    queue = SentenceQueue()
    for job in jobs:
        queue.add(job)
    return queue


def job(count, model=0, best=1, length=5):
    return SentenceJob(model, best, ["x" * length] * count)


def counted(taken):
    jobs = [one for one, _ in taken]
    return {one: jobs.count(one) for one in jobs}


def test_a_long_text_does_not_keep_a_short_one_waiting():
    long, short = job(1000), job(1)
    queue = queue_of(long, short)
    assert counted(queue.take()) == {long: BATCH_SENTENCES - 1, short: 1}
    assert len(queue) == 1000 - BATCH_SENTENCES + 1


def test_who_was_passed_over_comes_next_whatever_its_length():
    long, short = job(1000), job(1, length=300)
    queue = queue_of(long, short)
    assert counted(queue.take()) == {long: BATCH_SENTENCES}
    assert short in counted(queue.take())


def test_a_batch_has_sentences_of_about_the_same_length():
    texts = [["x" * 5 * n for n in range(1, 21)] for _ in range(BATCH_SENTENCES // 2)]
    queue = queue_of(*(SentenceJob(0, 1, sentences) for sentences in texts))
    while taken := queue.take():
        assert len(taken) == BATCH_SENTENCES
        lengths = [len(one.sentences[place]) for one, place in taken]
        assert max(lengths) - min(lengths) <= 10


def test_requests_that_wait_together_are_taken_together_once_each():
    jobs = [job(1) for _ in range(20)]
    taken = queue_of(*jobs).take()
    assert counted(taken) == dict.fromkeys(jobs, 1)


def test_no_more_are_taken_than_there_is_room_for():
    queue = queue_of(*(job(1) for _ in range(20)))
    assert [len(queue.take(most)) for most in (7, 1, 20)] == [7, 1, 12]
    assert queue.take(5) == []


def test_a_batch_is_for_one_model_and_one_number_of_alternatives():
    jobs = [job(2), job(2, model=1), job(2, best=3)]
    queue = queue_of(*jobs)
    assert [counted(queue.take()) for _ in jobs] == [{one: 2} for one in jobs]


def test_every_sentence_is_taken_exactly_once_whatever_the_sizes():
    jobs = [job(count, model=count % 3) for count in (7, 100, 33, 1, 64)]
    queue, seen = queue_of(*jobs), []
    while taken := queue.take(13):
        assert 1 <= len(taken) <= 13
        seen += taken
    assert sorted((id(one), place) for one, place in seen) == sorted(
        (id(one), place) for one in jobs for place in range(len(one.sentences))
    )


def test_a_batch_of_long_sentences_is_short_and_never_empty():
    queue = queue_of(job(3, length=BATCH_CHARACTERS // 2), job(1, length=3 * BATCH_CHARACTERS))
    assert [len(queue.take()) for _ in range(3)] == [2, 1, 1]


def test_who_has_gone_is_not_taken():
    gone, there = job(5), job(2)
    queue = queue_of(gone, there)
    queue.remove(gone)
    queue.remove(gone)
    assert counted(queue.take()) == {there: 2}
