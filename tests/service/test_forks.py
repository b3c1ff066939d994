"""Clients that were used before a fork: every process has connections of its own."""

import asyncio
import gc
import multiprocessing
import os
import pickle
import ssl
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import psutil
import pytest

from algorithms.registry import load_model
from service.jobs.worker.tls import make_certificates
from sibling import AsyncClient, Client, CommonPCA, RemoteEstimator, ServiceError
from sibling.client import datasets, resumable

FORK = multiprocessing.get_context("fork")
N_CHILDREN = 4
ROWS = np.random.default_rng(5).standard_normal((100, 5))
PARTS = np.array_split(np.arange(len(ROWS)), N_CHILDREN)
TASK = "north"

#: What children do: a fork has it, where an argument would be pickled, without any connection.
WORK = []


def work(part):
    return WORK[-1](part)


def in_pool(parts):
    with FORK.Pool(len(parts)) as pool:
        return pool.map_async(work, parts, chunksize=1).get(120)


def in_processes(parts):
    results = FORK.Queue()
    processes = [
        FORK.Process(target=lambda i=i, part=part: results.put((i, work(part))))
        for i, part in enumerate(parts)
    ]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=120) for _ in parts)
    for process in processes:
        process.join()
    return [found[i] for i in range(len(parts))]


def in_executor(parts):
    with ProcessPoolExecutor(len(parts), mp_context=FORK) as executor:
        return list(executor.map(work, parts, timeout=120))


def in_forks(parts):
    children = [fork(part) for part in parts]
    return [finish(*child) for child in children]


def fork(part):
    """Start a child that writes its result to a pipe; return its id and the pipe."""
    results, its_results = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with os.fdopen(its_results, "wb") as file:
                pickle.dump(work(part), file)
            code = 0
        finally:
            os._exit(code)  # pytest must not go on in the child
    os.close(its_results)
    return pid, results


def finish(pid, results):
    with os.fdopen(results, "rb") as file:
        found = file.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pickle.loads(found)


WAYS = [in_pool, in_processes, in_executor, in_forks]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def run(way, function, parts):
    """Return the results of a function in children, one for each part."""
    WORK.append(function)
    try:
        return way(parts)
    finally:
        WORK.pop()


@contextmanager
def calls_in_a_thread(call):
    """Call until the end of the block, so that locks are held at forks."""
    has_ended = threading.Event()

    def call_until_the_end():
        while not has_ended.is_set():
            call()

    thread = threading.Thread(target=call_until_the_end)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@pytest.fixture
def expected(model, tmp_path):
    """The right answers for single rows, computed without the service."""
    offline = load_model(model.download(tmp_path / "model.safetensors"))
    return np.concatenate([offline.transform(row[None], task=TASK) for row in ROWS])


def count_answers(way, model, expected, n_runs):
    """Call with one row at a time, before, in and after forks; return the answers and the wrong."""
    together = FORK.Barrier(N_CHILDREN)

    def answer(part):
        together.wait(120)
        return np.concatenate([model.transform(ROWS[[i]], task=TASK) for i in part])

    def answer_first():
        np.testing.assert_array_equal(model.transform(ROWS[:1], task=TASK), expected[:1])

    n_answers = n_wrong = 0
    with calls_in_a_thread(answer_first):
        for _ in range(n_runs):
            answer_first()
            answers = np.concatenate(run(way, answer, PARTS))
            answer_first()
            n_answers += len(answers)
            n_wrong += int((answers != expected).any(axis=1).sum())
    return n_answers, n_wrong


@each_way
@pytest.mark.quick(2)
def test_children_get_their_own_answers(model, expected, way):
    assert count_answers(way, model, expected, 1) == (len(ROWS), 0)


@pytest.mark.slow
@each_way
def test_no_answer_of_thousands_is_wrong_after_many_forks(model, expected, way):
    assert count_answers(way, model, expected, 10) == (10 * len(ROWS), 0)


@pytest.mark.slow
@each_way
def test_children_of_an_async_client_get_their_own_answers(service, model, expected, way):
    async def use():
        async with AsyncClient(service.url) as remote:
            shared = await remote.model(model.name, model.version)

            async def answer(part):
                return np.concatenate([await shared.transform(ROWS[[i]], task=TASK) for i in part])

            before = await answer(PARTS[0])
            answers = run(way, lambda part: asyncio.run(answer(part)), PARTS)
            return before, np.concatenate([*answers, await answer(PARTS[0])])

    before, answers = asyncio.run(use())
    np.testing.assert_array_equal(before, expected[PARTS[0]])
    np.testing.assert_array_equal(answers, np.concatenate([expected, expected[PARTS[0]]]))


@pytest.mark.slow
def test_children_use_all_objects_of_their_parent(client, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "MIN_BYTES", 1)  # uploads in parts
    monkeypatch.setattr(resumable, "PART_BYTES", 500)
    monkeypatch.setattr("sibling.client.http._RETRIES", 0)  # which would hide a fault
    tasks = np.repeat(["a", "b"], len(ROWS) // 2)
    remote = RemoteEstimator(CommonPCA(k=2), client=client, model="forked")
    remote.fit(ROWS, tasks=tasks)
    fitted = remote.model_
    job = client.jobs[fitted.info["lineage"]["job_id"]]
    listed = iter(client.models)
    next(listed)
    files = [tmp_path / f"{i}.npz" for i in range(N_CHILDREN)]
    for i, file in enumerate(files):
        np.savez(file, **{"a/X": ROWS + i + os.getpid()})

    def use(file):
        uploaded = client.upload(file, name=file.stem)
        downloaded = fitted.download(file.with_suffix(".safetensors")).read_bytes()
        kinds = [event["kind"] for event in job.events()]
        rows = remote.transform(ROWS, tasks=tasks).tobytes()
        return uploaded.name, downloaded, kinds, job.refresh().state, rows, list(listed)

    found = run(in_forks, use, files)
    common = use(files[0])[1:]
    assert found == [(file.stem, *common) for file in files]


@pytest.fixture
def tls_service(start_service, tmp_path, monkeypatch):
    make_certificates(tmp_path)
    trusted = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    trusted.check_hostname = False
    for kind in (httpx.Client, httpx.AsyncClient):
        monkeypatch.setattr(kind, "__init__", partial_init(kind.__init__, trusted))
    return start_service(
        SIBLING_TLS_CERT_FILE=tmp_path / "cert.pem", SIBLING_TLS_KEY_FILE=tmp_path / "key.pem"
    )


def partial_init(create, trusted):
    return lambda self, **options: create(self, verify=trusted, **options)


def connections(url):
    """Return the local ports of the open connections of this process to a server."""
    port = httpx.URL(url).port
    return {
        one.laddr.port
        for one in psutil.Process().net_connections("tcp")
        if one.raddr and one.raddr.port == port and one.status == psutil.CONN_ESTABLISHED
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_child_opens_connections_and_leaves_those_of_its_parent(service, tls_service, kind):
    async def result(found):
        return found if kind is Client else await found

    async def use_in_child(url, clients, inherited):
        await result(clients[0].server())
        n_own = len(connections(url) - inherited)
        await result(clients[0].close())
        clients.clear()
        gc.collect()
        return n_own

    async def use(url):
        others = connections(url)
        clients = [kind(url)]
        await result(clients[0].server())
        own = connections(url) - others
        child = lambda _: asyncio.run(use_in_child(url, clients, own | others))  # noqa: E731
        assert run(in_forks, child, [None]) == [1]
        await result(clients[0].server())
        assert connections(url) - others == own  # the service has not closed it
        await result(clients[0].close())

    for url in (service.url, tls_service.url):
        asyncio.run(use(url))


@each_way
def test_an_error_of_a_child_reaches_its_parent_whole(client, way):
    def raised(name):
        with pytest.raises(ServiceError) as caught:
            client.model(name)
        return caught.value

    names = ["none-1", "none-2"]
    for name, error in zip(names, run(way, raised, names), strict=True):
        assert (type(error), error.status, error.code) == (ServiceError, 404, "not-found")
        assert (str(error), vars(error)) == (str(raised(name)), vars(raised(name)))
