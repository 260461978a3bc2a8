#!/usr/bin/env python3
"""Writes the licence texts and notices of all crates in the program.

    licences.py TARGET >FILE

Each text comes once, below the crates that have it. A crate without a file of its own is listed with the name of its
licence.
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense", "authors")


def linked(target):
    """The packages in the program, without those that only build it or its tests."""
    line = ["cargo", "tree", "-q", "--locked", "-e", "normal", "--target", target, "--prefix", "none", "--format", "{p}"]
    shown = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return {tuple(row.split()[:2]) for row in shown.splitlines() if row.strip()}


def metadata():
    line = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(line, check=True, capture_output=True).stdout)["packages"]


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = [file for file in sorted(folder.rglob("*")) if file.name.lower().startswith(NAMES) and file.is_file()]
    return [file.read_text(errors="replace").strip() for file in files if file.suffix in ("", ".txt", ".md")]


def main():
    wanted = linked(sys.argv[1])
    crates_of, without = {}, []
    for package in sorted(metadata(), key=lambda package: (package["name"], package["version"])):
        name = f"{package['name']} {package['version']}"
        if (package["name"], f"v{package['version']}") not in wanted or package["source"] is None:
            continue
        found = texts(package)
        for text in found:
            crates_of.setdefault(text, []).append(name)
        if not found:
            without.append(f"{name}: {package['license']}")
    print("The licences of the crates in cowbell. Its own is in `copyright`.")
    if without:
        print("\nWithout a text of their own:\n\n" + "\n".join(without))
    for text, crates in crates_of.items():
        print("\n" + "=" * 78 + "\n" + ", ".join(dict.fromkeys(crates)) + "\n" + "=" * 78 + "\n\n" + text)


main()
