"""Attacks on the Unix sockets: of commands, of hooks, and of the reader."""
import json
import os
import pathlib
import random
import socket
import time

from daemon import JOB, as_nobody, at, check, exchange, start, status, wait

IS_ROOT = os.geteuid() == 0
# The parts of a reading; nothing else may leave the reader.
READING = {"at", "uptime_us", "took_us", "texts", "hooks"}


def ask(site, method, path, body=JOB):
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return status(exchange(at(site.control), f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()))


def control_socket(site):
    job = site.json("/api/v1/jobs")[0]["id"]
    ended = json.dumps({**json.loads(JOB), "ended_at": "2026-01-01T00:00:01Z", "succeeded": True})
    for what, method, path, body in [
        ("deletes a job", "DELETE", f"/api/v1/jobs/{job}", "{}"), ("ends another's job", "PUT", "/api/v1/marks/attack", ended),
        ("starts a mark", "PUT", "/api/v1/marks/other", JOB), ("imports a job", "POST", "/api/v1/jobs/import", "{}"),
        ("notes", "POST", f"/api/v1/jobs/{job}/notes", '{"text": "x"}'), ("accepts", "POST", f"/api/v1/jobs/{job}/accept", "{}"),
        ("certifies", "PUT", f"/api/v1/jobs/{job}/certificate", "{}"), ("deletes by //", "DELETE", f"//api/v1/jobs/{job}", "{}"),
    ]:
        check(f"an ordinary user {what}", (403, 404) if "//" in path else 403, as_nobody(lambda: ask(site, method, path, body)))
    forged = json.dumps({**json.loads(JOB), "kind": "command", "process": 1})
    check("an ordinary user names another's process", 403, as_nobody(lambda: ask(site, "PUT", "/api/v1/marks/x", forged)))
    mine = lambda: ask(site, "PUT", "/api/v1/marks/attack", json.dumps({**json.loads(forged), "process": os.getpid()}))
    check("an ordinary user records its own job under another's key", 201, as_nobody(mine))
    check("jobs then", 2, len(site.json("/api/v1/jobs")))
    check("the first one runs on", None, site.json(f"/api/v1/jobs/{job}")["ended_at"])
    check("an ordinary user at the hooks' socket", "Permission denied", as_nobody(lambda: datagram(site, b"x")))


def datagram(site, text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(str(site.folder / "hooks"))
        client.setblocking(False)
        try:
            client.send(text)
        except BlockingIOError:
            return "queue full"


def hooks(site):
    chance = random.Random(1)
    for _ in range(3000):
        datagram(site, chance.randbytes(chance.randrange(1, 2000)))
        datagram(site, b"mylvmbackup 4711 " + chance.randbytes(20))
    taken = site.json("/api/v1/status")["ticks"]["taken"]
    time.sleep(3)
    status = site.json("/api/v1/status")
    check("6000 rubbish datagrams: ticks go on", True, status["ticks"]["taken"] > taken)
    check("6000 rubbish datagrams: jobs", 2 if IS_ROOT else 1, len(site.json("/api/v1/jobs")))


def lines_of(path, data, seconds):
    """What the reader sends to a client that sends this."""
    answer, until = b"", time.monotonic() + seconds
    with at(path)() as client:
        client.settimeout(0.5)
        try:
            client.sendall(data)
        except OSError:
            pass  # It was refused, and may have been told why.
        while time.monotonic() < until:
            try:
                if not (part := client.recv(1 << 20)):
                    break
                answer += part
            except TimeoutError:
                pass
            except OSError:
                break
    return [line for line in answer.split(b"\n") if line]


def is_reading(line):
    value = json.loads(line)
    return value.get("format") == "cowbell recording" or set(value) <= READING


def reader(folder):
    path = folder / "reader"
    process = start(["reader", "--socket", str(path)], folder, open(folder / "reader.log", "w"))
    wait(path.exists)
    time.sleep(1)
    for what, data in {
        "a path": b"/etc/shadow\n", "a command": b'{"open": "/etc/shadow"}\n', "HTTP": b"GET / HTTP/1.1\r\n\r\n",
        "negative PIDs": b"-1 -2\n", "65 PIDs": b"1 " * 65 + b"\n", "a long line": b"1" * 5_000_000,
        "no text": os.urandom(500) + b"\n", "a great PID": b"4294967296\n",
    }.items():
        found = lines_of(path, data, 4)
        check(f"the reader's client sends {what}: only readings come, and the connection ends", True,
              len(found) < 4 and all(map(is_reading, found)))
    every = b"".join(b" ".join(b"%d" % (first + pid) for pid in range(60)) + b"\n" for first in range(1, 60_000, 60))
    found = lines_of(path, every, 6)
    check(f"a client asks for 60000 PIDs and takes all: {len(found)} lines, only readings", True,
          len(found) > 3 and all(map(is_reading, found)))
    secret = pathlib.Path("/etc/shadow").read_bytes().split(b"\n")[0] if IS_ROOT else b"root:*"
    check("no line of /etc/shadow or of the environment among them", False,
          any(text in line for line in found for text in [secret, b"XDG_RUNTIME_DIR"]))
    if IS_ROOT:
        os.chmod(path, 0o666)
        refused = as_nobody(lambda: b"".join(lines_of(path, b"1\n", 3)).decode())
        check("an ordinary user at the reader's socket is refused", True, "is not root and not in group" in refused)
    check("the reader still runs", None, process.poll())
    process.kill()
