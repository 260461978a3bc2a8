"""Attacks over HTTP."""
import re
import time

from daemon import BEARER, JOB, TOKEN, check, status, wait


def paths_and_heads(site):
    for path in ["/assets/../../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd", "/assets/%252e%252e/etc/passwd",
                 "/assets/..%5c..%5cetc%5cpasswd", "/devices/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/assets/%00"]:
        answer = site.raw(f"GET {path} HTTP/1.1")
        check(f"traversal {path}", 404, "a file" if b"root:" in answer else status(answer))
    answer = site.raw("GET /jobs?from=%0d%0aX-Evil:%201 HTTP/1.1")
    check("header injection in a query", False, b"\nx-evil:" in answer.lower())
    answer = site.raw("GET /login HTTP/1.1", "Referer: http://x/%0d%0aX-Evil: 1")
    check("header injection in a referrer", False, b"\nx-evil:" in answer.lower())
    check("line break in a job's key", 400, site.put(BEARER, path="/api/v1/marks/a%0d%0aX-Evil:%201"))
    check("folded header", (400, "closed"), site.get("/", "X-A: 1\r\n folded"))
    check("NUL in a header", 400, site.get("/", "X-A: \0"))
    check("URL of 100 KB", (414, 431, "closed"), site.get("/" + "x" * 100_000))
    check("head of 1 MB", (431, "closed"), site.get("/", "X-A: " + "x" * 1_000_000))
    check("1000 headers", (431, "closed"), site.get("/", *[f"X-{number}: 1" for number in range(1000)]))
    check("another program's first bytes", (400, "closed"), status(site.send(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" * 9)))


def bodies(site):
    check("body of 1 MB", (400, 413, "closed"), site.put(BEARER, body="x" * 1_000_000))
    check("imported file of 17 MB", (400, 413, "closed"),
          site.put(BEARER, method="POST", path="/api/v1/jobs/import", body="[" * 17_000_000))
    check("JSON nested 30000 times", 400, site.put(BEARER, body="[" * 30_000))
    check("imported file nested 10 million times", 400,
          site.put(BEARER, method="POST", path="/api/v1/jobs/import", body="[" * 10_000_000))
    smuggled = "0\r\n\r\nDELETE /api/v1/jobs/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    both = site.raw("POST /api/v1/jobs/1/accept HTTP/1.1", BEARER, "Content-Type: application/json",
                    f"Content-Length: {len(smuggled)}", "Transfer-Encoding: chunked", body=smuggled)
    check("Content-Length and Transfer-Encoding: answers", (0, 1), both.count(b"HTTP/1.1 "))
    for what, headers in {
        "two lengths": ["Content-Length: 5", "Content-Length: 6"], "negative length": ["Content-Length: -1"],
        "two lengths in one": ["Content-Length: 5, 6"], "unknown coding": ["Transfer-Encoding: xchunked"],
        "coding that is not last": ["Transfer-Encoding: chunked, identity"],
    }.items():
        check(what, (400, "closed"), site.put(BEARER, *headers))
    check("chunk of 2^64 bytes", (400, "closed"), site.put(BEARER, "Transfer-Encoding: chunked", body="fffffffffffffffff\r\n"))


def slow_clients(site):
    for count, most in [(150, 3), (600, 15)]:
        half = []
        for _ in range(count):
            half.append(site.connect())
            half[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")
        began = time.monotonic()
        wait(lambda: site.get("/healthz") == 200)
        took = time.monotonic() - began
        check(f"{count} half-sent heads: /healthz after {took:.1f} s, within {most} s", True, took <= most)
        for client in half:
            client.close()
    head = f"PUT /api/v1/marks/slow HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\nContent-Type: application/json\r\n"
    began = time.monotonic()
    answer = site.send(f"{head}Content-Length: 100\r\n\r\n{{".encode(), patience=60)
    took = time.monotonic() - began
    check(f"body that stalls: {status(answer)} after {took:.0f} s, within 35 s", True, took <= 35)


def access(site):
    own = f"http://127.0.0.1:{site.port}"
    check("foreign Host (DNS rebinding)", 403, site.get("/api/v1/status", "Host: evil.example"))
    check("foreign Host that begins like ours", 403, site.get("/", f"Host: 127.0.0.1.evil.example:{site.port}"))
    check("change without token", (401, 403), site.put())
    check("change without token from our own origin", (401, 403), site.put(f"Origin: {own}"))
    check("wrong token", 401, site.put("Authorization: Bearer 0123456789abcdef0123456789abcdee"))
    check("beginning of the token", 401, site.put(f"Authorization: Bearer {TOKEN[:-1]}"))
    check("token as a password", 401, site.put(f"Authorization: Basic {TOKEN}"))
    check("two Authorizations, one right", 401, site.put(BEARER, "Authorization: Bearer x"))
    check("token in the address", (401, 403), site.put(path=f"/api/v1/marks/attack?token={TOKEN}"))
    check("token, but not JSON", 403, status(site.raw("PUT /api/v1/marks/a HTTP/1.1", BEARER, "Content-Type: text/plain", body=JOB)))
    for header in ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1", "Via: 1.1 proxy"]:
        check(f"change without token, {header}", (401, 403), site.put(header))
    for method in ["DELETE", "PATCH", "TRACE", "CONNECT", "get"]:
        check(f"{method} without token", (400, 401, 403, 404, 405), site.put(method=method, path="/api/v1/jobs/1"))
    check("the other method in a header", (401, 403), site.put("X-HTTP-Method-Override: GET"))
    logged_in = site.raw("POST /login HTTP/1.1", "Content-Type: application/x-www-form-urlencoded", body=f"token={TOKEN}")
    cookie = re.search(rb"set-cookie: ([^;\r]+)", logged_in, re.I)
    cookie = f"Cookie: {cookie[1].decode()}" if cookie else "Cookie: none"
    check("cookie, foreign origin", 403, site.put(cookie, "Origin: http://evil.example"))
    check("cookie without origin", 403, site.put(cookie))
    check("forged cookie", (401, 403), site.put("Cookie: cowbell=" + "0" * 64, f"Origin: {own}"))
    time.sleep(1)
    guesses = [site.put(f"Authorization: Bearer {number:032}") for number in range(300)]
    check("300 guesses of the token: some are turned away", True, guesses.count(429) > 0 and set(guesses) <= {401, 429})
    time.sleep(12)
    check("the right token after that", 201, site.put(BEARER))
    check("the cookie from our own page", 200, site.put(cookie, f"Origin: {own}"))
