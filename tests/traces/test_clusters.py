"""Readers of cluster job logs on small samples made by hand: every figure below can be counted on fingers."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.traces import read_alibaba, read_helios, read_philly
from meshwright.traces.clusters.json_places import line_and_column, places


def machine(name: str, gpus: int) -> dict[str, Any]:
    return {"ip": name, "gpus": [f"gpu{k}" for k in range(gpus)]}


def attempt(start: str | None, end: str | None, *machines: dict[str, Any]) -> dict[str, Any]:
    return {"start_time": start, "end_time": end, "detail": list(machines)}


def philly_job(name: str, *attempts: dict[str, Any], submitted: str = "2017-10-07 01:00:00", **more: Any) -> Any:
    job = {"status": "Pass", "vc": "v1", "jobid": name, "attempts": list(attempts)}
    return job | {"submitted_time": submitted, "user": "u1"} | more


PHILLY = [
    philly_job(
        "two attempts",
        attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", machine("m1", 2), machine("m2", 2)),  # 60 s of 4
        attempt("2017-10-07 01:10:00", "2017-10-07 02:10:00", machine("m1", 4)),  # 3600 s of 4
        submitted="2017-10-07 01:00:30",
    ),
    philly_job("first", attempt("2017-10-07 01:00:00", "2017-10-07 01:00:10", machine("m1", 1)), status="Failed"),
    philly_job("never ran"),
    philly_job("runs on", attempt("2017-10-07 05:00:00", None, machine("m1", 1))),
    philly_job(
        "a logging error",
        attempt(None, "2017-10-07 05:00:00", machine("m1", 8)),
        attempt("2017-10-07 06:00:00", "2017-10-07 06:00:30", machine("m1", 2)),  # 30 s of 2
        status="Killed", vc="v2", submitted="2017-10-07 02:00:00",
    ),
    philly_job("clocks", attempt("2017-11-05 01:59:00", "2017-11-05 01:10:00", machine("m1", 1))),
    philly_job("when", attempt("2017-10-07 01:00:00", "2017-10-07 01:00:10", machine("m", 1)), submitted="None"),
]  # fmt: skip


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_philly(tmp_path: Path) -> None:
    log = read_philly(written(tmp_path / "cluster_job_log", json.dumps(PHILLY)))
    assert [(j.name, j.user, j.group, j.ended) for j in log.jobs] == [
        ("first", "u1", "v1", "failed"),
        ("two attempts", "u1", "v1", "done"),
        ("a logging error", "u1", "v2", "killed"),
    ]
    assert [(j.submit_s, j.start_s, j.gpus, j.gpu_s) for j in log.jobs] == [
        (0.0, 0.0, 1, 10.0),
        (30.0, 60.0, 4, 4 * 3660.0),
        (3600.0, 18000.0, 2, 60.0),
    ]
    assert log.left_out == {
        "jobs that never ran": 1,
        "jobs that had not ended": 1,
        "jobs without an attempt on GPUs": 1,
        "jobs without a time of submission": 1,
        "attempts without times": 2,
        "attempts that end before they start": 1,
    }
    assert "3 jobs" in str(log)


def test_philly_gzipped(tmp_path: Path) -> None:
    plain = written(tmp_path / "a", json.dumps(PHILLY))
    packed = tmp_path / "b"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_philly(packed).jobs == read_philly(plain).jobs


def test_philly_says_all_that_is_wrong(tmp_path: Path) -> None:
    text = """[
  {"status": "Passed", "vc": "v", "jobid": "a", "attempts": [], "submitted_time": "2017-10-07 01:00:00", "user": "u"},
  {"status": "Pass", "vc": 7, "jobid": "b", "attempts": [
    {"start_time": "yesterday", "end_time": "2017-10-07 01:00:00", "detail": [{"ip": "m", "gpus": 8}]}
  ], "submitted_time": "2017-10-07 01:00:00", "user": "u"},
  {"status": "Pass", "vc": "v", "jobid": "a", "attempts": {}, "submitted_time": 12},
  17
]"""
    file = written(tmp_path / "log", text)
    with pytest.raises(InputError) as caught:
        read_philly(file)
    assert str(caught.value).splitlines() == [
        f"{file}:2:14: job 0: status must be one of Pass, Killed, Failed (got 'Passed')",
        f"{file}:3:28: job 1: vc must be text (got '7')",
        f"{file}:4:20: job 1: start_time must be a time like 2017-10-07 01:12:09 (got 'yesterday')",
        f"{file}:4:79: job 1: expected a machine with a list of gpus (got \"{{'ip': 'm', 'gpus': 8}}\")",
        f"{file}:6:3: job 2: missing 'user' (got 'status, vc, jobid, attempts, submitted_time')",
        f"{file}:6:81: job 2: submitted_time must be a time like 2017-10-07 01:12:09 (got '12')",
        f"{file}:6:59: job 2: attempts must be a list (got '{{}}')",
        f"{file}:6:42: job 2: expected each job once; it is job 0 too (got 'a')",
        f"{file}:7:3: job 3: expected a job: an object (got '17')",
    ]


def test_many_problems_are_counted(tmp_path: Path) -> None:
    file = written(tmp_path / "log", json.dumps([1] * 50))
    with pytest.raises(InputError, match="50 problems in all, the first 20 shown"):
        read_philly(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[\n {]", r":2:3: is no JSON"),
        ("{}", r":1:1: expected a list of jobs \(got dict\)"),
        ("[" * 200_000, r"is no job log: brackets in brackets without end"),
        ("[" + "9" * 5000 + "]", r"is no job log \(Exceeds the limit"),
        ("[]", r"no job that ran on GPUs and ended \(it is empty\)"),
        (json.dumps([philly_job("idle")]), r"no job that ran on GPUs and ended \(1 jobs that never ran\)"),
    ],
)
def test_philly_without_jobs(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_philly(written(tmp_path / "log", text))


def test_no_such_file(tmp_path: Path) -> None:
    for reader in (read_philly, read_helios):
        with pytest.raises(InputError, match="no such file"):
            reader(tmp_path / "nothing")


def test_places_finds_every_value() -> None:
    """Held against a parser that knows nothing of places: the text at each place begins with that very value."""
    value: Any = {'k "1"': [1, [], {}, "a,b:[", {"x": [True, None, -2.5e3]}], "é": {"": [[["deep"]]]}, "last": "]}"}
    for text in (json.dumps(value), json.dumps(value, indent=3), json.dumps(value, ensure_ascii=False)):
        lines = text.split("\n")
        paths = list(_paths(value))
        found = places(text, {p for p, _ in paths})
        for path, inner in paths:
            line, column = found[path]
            rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
            assert json.JSONDecoder().raw_decode(rest)[0] == inner
    assert line_and_column("ab\ncd", 4) == (2, 2)


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> Any:
    yield at, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield from _paths(held, (*at, key))


HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,uA,vc1,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:51,100,10
12,uB,vc2,4,16,1,TIMEOUT,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:45:40,249,0
13,uB,vc2,0,16,1,COMPLETED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:45:40,249,0
14,uB,vc2,8,16,1,CANCELLED,2020-06-09 18:41:31,,2020-06-09 18:45:40,0,249
15,uC,vc2,16,16,2,SUSPENDED,2020-06-09 18:41:31,2020-06-09 18:41:31,None,9,0
16,uC,vc2,16,16,2,CANCELLED,2020-06-09 18:40:31,2020-06-09 18:41:31,2020-06-09 18:41:40,9,0
"""


def test_helios(tmp_path: Path) -> None:
    log = read_helios(written(tmp_path / "cluster_log.csv", HELIOS))
    assert [(j.name, j.user, j.group, j.ended, j.submit_s, j.start_s, j.gpus, j.gpu_s) for j in log.jobs] == [
        ("16", "uC", "vc2", "killed", 0.0, 60.0, 16, 144.0),
        ("11", "uA", "vc1", "done", 30.0, 40.0, 1, 100.0),
        ("12", "uB", "vc2", "failed", 60.0, 60.0, 4, 996.0),
    ]
    assert log.left_out == {"jobs without GPUs": 1, "jobs that never ran": 1, "jobs that had not ended": 1}


def test_helios_without_its_vc(tmp_path: Path) -> None:
    """The column is missing from some copies."""
    rows = [line.split(",") for line in HELIOS.splitlines()]
    text = "\n".join(",".join(c for k, c in enumerate(row) if k != 2) for row in rows)
    log = read_helios(written(tmp_path / "log.csv", text))
    assert {j.group for j in log.jobs} == {""}
    assert [j.gpu_s for j in log.jobs] == [144.0, 100.0, 996.0]


def test_helios_says_all_that_is_wrong(tmp_path: Path) -> None:
    text = HELIOS.replace("COMPLETED,2020-06-09 18:41:01", "DONE,06/09/2020").replace("12,uB,vc2,4", "11,,vc2,-4")
    text = text.replace("16,uC,vc2,16", "16,uC,vc2,1.5") + "17,uD\n"
    file = written(tmp_path / "log.csv", text)
    with pytest.raises(InputError) as caught:
        read_helios(file)
    assert str(caught.value).splitlines() == [
        f"{file}:2: column 'state' must be one of COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL (got 'DONE')",
        f"{file}:2: column 'submit_time' must be a time like 2020-06-09 18:41:01 (got '06/09/2020')",
        f"{file}:3: column 'job_id' appears twice (got '11')",
        f"{file}:3: column 'user' is empty (got '')",
        f"{file}:3: column 'gpu_num' must be a whole number >= 0 (got '-4')",
        f"{file}:7: column 'gpu_num' must be a whole number >= 0 (got '1.5')",
        f"{file}:8: expected 12 columns (got '2 columns')",
    ]


def test_helios_with_columns_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":1: missing columns 'gpu_num', 'state'"):
        read_helios(written(tmp_path / "log.csv", "job_id,user,submit_time,start_time,duration\n"))


JOBS = """j1,i1,u1,Terminated,1000.0,2000.0
j2,i2,u2,Failed,1100.0,1500.0
j3,i3,u2,Terminated,1200.0,1500.0
j4,i4,u2,Running,1300.0,
j5,i5,u2,Terminated,1400.0,1500.0
"""
TASKS = """j1,ps,1.0,Terminated,1010.0,2000.0,600.0,29.3,,MISC
j1,worker,3.0,Terminated,1020.0,1920.0,600.0,29.3,50.0,T4
j2,tensorflow,2.0,Failed,1150.0,1250.0,600.0,29.3,100.0,P100
j3,tensorflow,2.0,Terminated,1250.0,1350.0,600.0,29.3,0.0,P100
j4,tensorflow,2.0,Running,1350.0,,600.0,29.3,100.0,P100
j5,tensorflow,2.0,Terminated,,,600.0,29.3,100.0,P100
j9,tensorflow,2.0,Terminated,1250.0,1350.0,600.0,29.3,100.0,P100
"""
INSTANCES = """j1,ps,n0,w0,i1,Terminated,1010.0,2000.0,m
j1,worker,n1,w1,i1,Terminated,1020.0,1120.0,m
j1,worker,n2,w2,i1,Terminated,1030.0,1230.0,m
j1,worker,n3,w3,i1,Terminated,,,m
j2,tensorflow,n4,w4,i2,Failed,1150.0,1250.0,m
"""


def test_alibaba(tmp_path: Path) -> None:
    jobs, tasks = written(tmp_path / "jobs.csv", JOBS), written(tmp_path / "tasks.csv", TASKS)
    log = read_alibaba(jobs, tasks)
    # half a GPU for each of three workers is two GPUs asked for and one and a half had, for 900 s
    assert [(j.name, j.user, j.ended, j.submit_s, j.start_s, j.gpus, j.gpu_s) for j in log.jobs] == [
        ("j1", "u1", "done", 0.0, 20.0, 2, 1350.0),
        ("j2", "u2", "failed", 100.0, 150.0, 2, 200.0),
    ]
    assert log.left_out == {
        "tasks of unknown jobs": 1, "jobs without GPUs": 1, "jobs that had not ended": 1, "jobs without times": 1,
    }  # fmt: skip


def test_alibaba_with_instances_and_headers(tmp_path: Path) -> None:
    jobs = written(tmp_path / "jobs.csv", "job_name,inst_id,user,status,start_time,end_time\n" + JOBS)
    tasks = written(tmp_path / "tasks.csv", TASKS)
    instances = written(tmp_path / "instances.csv", INSTANCES)
    log = read_alibaba(jobs, tasks, instances)
    # (100 + 200) s of half a GPU; the third worker has no times, and of j2's two there is one
    assert [(j.name, j.gpus, j.gpu_s) for j in log.jobs] == [("j1", 2, 150.0), ("j2", 2, 100.0)]
    assert log.left_out["instances without times"] == 1
    assert log.left_out["instances without GPUs"] == 1


def test_the_first_row_of_a_table_without_header_may_have_a_cell_twice(tmp_path: Path) -> None:
    jobs = written(tmp_path / "jobs.csv", "j1,i1,u1,Terminated,1000.0,1000.0\n")
    tasks = written(tmp_path / "tasks.csv", "j1,t,1.0,Terminated,1000.0,1060.0,100.0,29.3,100.0,T4\n")
    assert [(j.gpus, j.gpu_s) for j in read_alibaba(jobs, tasks).jobs] == [(1, 60.0)]
    written(tmp_path / "jobs.csv", "job_name,inst_id,user,status,start_time,start_time\n")
    with pytest.raises(InputError, match=r"jobs.csv:1: column 'start_time' appears twice"):
        read_alibaba(jobs, tasks)


def test_a_task_that_appears_twice_counts_once(tmp_path: Path) -> None:
    jobs, tasks = written(tmp_path / "jobs.csv", JOBS), written(tmp_path / "tasks.csv", TASKS + TASKS)
    log, once = read_alibaba(jobs, tasks), read_alibaba(jobs, written(tmp_path / "once.csv", TASKS))
    assert log.jobs == once.jobs
    # with GPUs, of known jobs: j1's worker, j2's, j4's, j5's
    assert log.left_out["tasks that appear twice"] == 4


def test_numbers_that_no_cluster_has_are_refused(tmp_path: Path) -> None:
    """Their products would be infinite."""
    file = written(tmp_path / "log.csv", HELIOS.replace("vc2,4,16", "vc2,1e300,16").replace(",100,10", ",1e308,10"))
    with pytest.raises(InputError) as caught:
        read_helios(file)
    assert str(caught.value).splitlines() == [
        f"{file}:2: column 'duration' must be no more than 1e+12 (got '1e308')",
        f"{file}:3: column 'gpu_num' must be no more than 1e+12 (got '1e300')",
    ]
    jobs = written(tmp_path / "jobs.csv", JOBS)
    with pytest.raises(InputError, match="column 'plan_gpu' must be no more than"):
        read_alibaba(jobs, written(tmp_path / "tasks.csv", TASKS.replace("29.3,50.0", "29.3,1e308")))


def test_alibaba_says_all_that_is_wrong_in_all_tables(tmp_path: Path) -> None:
    jobs = written(tmp_path / "jobs.csv", JOBS + "j5,i5,u2,Over,soon,1500.0\n")
    tasks = written(tmp_path / "tasks.csv", TASKS + "j5,t,1.5,Terminated,1000.0,900.0,1,1,100.0,T4\n")
    with pytest.raises(InputError) as caught:
        read_alibaba(jobs, tasks)
    states = "Terminated, Failed, Running, Waiting, Interrupted"
    assert str(caught.value).splitlines() == [
        f"{jobs}:6: column 'job_name' appears twice (got 'j5')",
        f"{jobs}:6: column 'status' must be one of {states} (got 'Over')",
        f"{jobs}:6: column 'start_time' must be a finite number >= 0 (got 'soon')",
        f"{tasks}:8: column 'inst_num' must be a whole number >= 0 (got '1.5')",
        f"{tasks}:8: column 'end_time' is before start_time 1000 (got '900.0')",
    ]


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.lists(st.integers(), max_size=2), st.just("2017-10-07T01:12:09+00:00"), st.just("0001-01-01 00:00:00"),
    st.just("9999-12-31 23:59:59"), st.just("2017-10-07"),
)  # fmt: skip


@settings(
    max_examples=examples(50, anew=150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_named(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever stands in a job log, it is read or blamed with line and column: no other exception."""
    log = json.loads(json.dumps(PHILLY))
    paths = [p for p, _ in _paths(log) if p]
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3)):
        holder: Any = log
        try:
            for step in path[:-1]:
                holder = holder[step]
            if data.draw(st.booleans()):
                holder[path[-1]] = data.draw(ODD)
            else:
                del holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    file = written(tmp_path / "log", json.dumps(log, indent=data.draw(st.sampled_from([None, 1]))))
    try:
        read = read_philly(file)
    except InputError as error:
        if not all(line.startswith((f"{file}:", "… ")) for line in str(error).splitlines()):
            raise
    else:
        assert all(j.gpu_s > 0 and j.gpus > 0 for j in read.jobs)


@settings(
    max_examples=examples(50, anew=150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_cell_anywhere_is_read_or_named(tmp_path: Path, data: st.DataObject) -> None:
    odd = st.one_of(st.text(max_size=6), st.sampled_from(["nan", "inf", "-1", "1e400", "1.5", '"', "", "0", " 7 "]))
    texts: list[str] = []
    for table in (HELIOS, JOBS, TASKS, INSTANCES):
        rows = [line.split(",") for line in table.splitlines()]
        for _ in range(data.draw(st.integers(0, 2))):
            row = data.draw(st.sampled_from(rows))
            row[data.draw(st.integers(0, len(row) - 1))] = data.draw(odd)
        texts.append("\n".join(",".join(row) for row in rows))
    names = ("helios", "jobs", "tasks", "instances")
    files = [written(tmp_path / name, text) for name, text in zip(names, texts, strict=True)]
    for read in (lambda: read_helios(files[0]), lambda: read_alibaba(*files[1:]), lambda: read_alibaba(*files[1:3])):
        try:
            log = read()
        except InputError as error:
            said = str(error)
            if not any(str(file) in said for file in files):
                raise
        else:
            assert all(math.isfinite(j.gpu_s) and j.gpu_s > 0 and j.gpus > 0 for j in log.jobs)
            assert all(math.isfinite(j.submit_s) and math.isfinite(j.start_s) for j in log.jobs)
