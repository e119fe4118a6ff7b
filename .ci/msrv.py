"""Checks that no dependency of a published crate needs a newer Rust than the workspace declares."""
import json
import subprocess
import sys

metadata = json.loads(
    subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--all-features"], check=True, capture_output=True
    ).stdout
)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
members = set(metadata["workspace_members"])


def version(text):
    return tuple(int(part) for part in (text.split(".") + ["0", "0"])[:3])


published = [i for i in members if packages[i]["publish"] != []]
bad = []
for root in published:
    promised = version(packages[root]["rust_version"])
    todo, seen = [root], set()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        wanted = packages[current]["rust_version"]
        if wanted and version(wanted) > promised:
            bad.append(f"{packages[root]['name']}: {packages[current]['name']} {packages[current]['version']} wants Rust {wanted}")
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                todo.append(dependency["pkg"])
for line in sorted(set(bad)):
    print(line)
print(f"{len(published)} published crates checked")
sys.exit(1 if bad else 0)
