#!/usr/bin/env python3
"""Makes an OCI image of one static program, as a layout on disk. The same program gives the same bytes.

    oci.py PROGRAM VERSION ARCHITECTURE FOLDER
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import time

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# What there is besides the program: path, mode, content; `None` for a folder. All belongs to root, whom a container has
# without its usual capabilities.
FILES = [
    ("etc", 0o755, None),
    ("etc/cowbell", 0o755, None),
    ("etc/passwd", 0o644, "root:x:0:0:root:/root:/sbin/nologin\n"),
    ("run", 0o755, None),
    ("run/cowbell", 0o755, None),
    ("tmp", 0o1777, None),
    ("usr", 0o755, None),
    ("usr/bin", 0o755, None),
    ("var", 0o755, None),
    ("var/lib", 0o755, None),
    ("var/lib/cowbell", 0o700, None),
]


def layer(program, at):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, mode, content in [*FILES, ("usr/bin/cowbell", 0o755, program)]:
            entry = tarfile.TarInfo(path)
            entry.mode, entry.mtime = mode, at
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                data = content.encode() if isinstance(content, str) else content
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def main():
    program, version, architecture, folder = sys.argv[1:]
    at = int(os.environ["SOURCE_DATE_EPOCH"])
    blobs = pathlib.Path(folder, "blobs", "sha256")
    blobs.mkdir(parents=True)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    tar = layer(pathlib.Path(program).read_bytes(), at)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    config = {
        "architecture": ARCHITECTURES[architecture],
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/cowbell"],
            "Cmd": ["serve"],
            "Env": ["COWBELL_DB=/var/lib/cowbell/cowbell.db", "COWBELL_ROOT=/host"],
            "Volumes": {"/var/lib/cowbell": {}},
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.title": "cowbell"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
        "history": [{"created": created, "created_by": "systemd/package/build oci"}],
    }
    compact = {"separators": (",", ":"), "sort_keys": True}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config, **compact).encode(), "config.v1+json"),
        "layers": [blob(gzip.compress(tar, mtime=0), "layer.v1.tar+gzip")],
    }
    described = blob(json.dumps(manifest, **compact).encode(), "manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    pathlib.Path(folder, "index.json").write_text(json.dumps(index, **compact))
    pathlib.Path(folder, "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


main()
