"""The daemon under attack, raw requests to it, and the outcome of each attack."""
import json
import os
import pathlib
import re
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COWBELL = os.environ.get("COWBELL", str(ROOT / "target/release/cowbell"))
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = f"Authorization: Bearer {TOKEN}"
JOB = json.dumps({"name": "attack", "started_at": "2026-01-01T00:00:00Z"})
NOBODY = 65534
# Whether each attack found what it should.
results = []


def check(what, expected, found):
    """Expected is one outcome, or several."""
    outcomes = expected if isinstance(expected, tuple) else (expected,)
    is_right = found in outcomes
    results.append(is_right)
    print(f"{'ok   ' if is_right else 'WRONG'} {what}: expected {' or '.join(map(str, outcomes))}, found {found}", flush=True)


class Site:
    """A daemon with a token and all its sockets in a folder."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        (folder / "cowbell.toml").write_text(
            f'[changes]\ntoken_file = "{token}"\n[hooks]\nsocket = "{folder}/hooks"\n')
        self.control = folder / f"cowbell/control-{self.port}"
        self.log = open(folder / "log", "w+")
        self.process = start(["--config", str(folder / "cowbell.toml"), "--db", str(folder / "db"),
                              "--listen", f"127.0.0.1:{self.port}", "serve"], folder, self.log)
        wait(lambda: self.get("/healthz") == 200)
        wait(self.control.exists)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def get(self, path, *headers):
        return status(self.raw(f"GET {path} HTTP/1.1", *headers))

    def put(self, *headers, body=JOB, path="/api/v1/marks/attack", method="PUT"):
        return status(self.raw(f"{method} {path} HTTP/1.1", "Content-Type: application/json", *headers, body=body))

    def raw(self, line, *headers, body=""):
        """The answer to a request with these lines in its head; empty if the connection was closed without one."""
        lines = [line, *headers, "Connection: close"]
        if not any(header.startswith("Host:") for header in headers):
            lines.append(f"Host: 127.0.0.1:{self.port}")
        if not any(header.startswith(("Content-Length", "Transfer-Encoding")) for header in headers):
            lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body.encode())

    def send(self, data, patience=5):
        return exchange(self.connect, data, patience)

    def rss(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def json(self, path):
        return json.loads(self.raw(f"GET {path} HTTP/1.1").partition(b"\r\n\r\n")[2])


def start(arguments, folder, log):
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.Popen([COWBELL, *arguments], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def wait(condition):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("attack: what was waited for did not happen within 30 s")


def exchange(connect, data, patience=5):
    answer = b""
    try:
        with connect() as client:
            client.settimeout(patience)
            client.sendall(data)
            while part := client.recv(65536):
                answer += part
    except OSError:
        pass
    return answer


def status(answer):
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    return int(found[1]) if found else "closed"


def at(path):
    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(path))
        return client
    return connect


def as_nobody(act):
    """What a function returns in a process of another user."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            found = act()
        except OSError as error:
            found = error.strerror
        os.write(theirs, json.dumps(found).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as found:
        text = found.read()
    os.wait()
    return json.loads(text)
