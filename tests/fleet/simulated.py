"""Serves /metrics of many simulated hosts: `simulated.py PORT HOSTS`. The seventh took no tick for an hour."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, HOSTS = map(int, sys.argv[1:])
ALERTS = {
    8: [("snapshot_fill", "critical")],
    9: [("snapshot_age", "warning")],
    11: [("snapshot_fill", "critical"), ("snapshot_invalid", "critical")],
}


def lines():
    now = time.time()
    for number in range(1, HOSTS + 1):
        own = f'instance="sim{number}:2692"'
        volume = own + ',vg="vg0"'
        tick = now - 3600 if number == 7 else now
        yield f"cowbell_last_tick_timestamp_seconds{{{own}}} {tick}"
        yield f'cowbell_host_info{{{own},host="sim{number}",version="0.1.0"}} 1'
        for lv, kind, fill in [("data_snapshot", "snapshot", 0.3), ("log_snapshot", "snapshot", 0.2), ("pool", "thin_pool", 0.5)]:
            yield f'cowbell_volume_fill_ratio{{{volume},lv="{lv}",kind="{kind}"}} {fill}'
        yield f'cowbell_backup_last_good_timestamp_seconds{{{volume},lv="data"}} {now - 7 * 3600}'
        for rule, severity in ALERTS.get(number, []):
            yield f'cowbell_alert{{{own},rule="{rule}",severity="{severity}",volume="vg0/data_snapshot"}} 1'


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(("\n".join(lines()) + "\n").encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Metrics).serve_forever()
