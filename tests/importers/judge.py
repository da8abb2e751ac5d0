#!/usr/bin/env python3
"""Another parser of nginx's configurations judges the reports: judge.py TOLLGATE

nginx-crossplane reads the files of tests/import/nginx. The report of `tollgate import nginx --json` must
have each directive that it finds, with its line. What is in a block that is not taken one by one,
such as a map, is left out.
"""

import json
import pathlib
import subprocess
import sys

import crossplane

sys.dont_write_bytecode = True
FILES = pathlib.Path(__file__).resolve().parents[1] / "import" / "nginx"
CLOSED = {"events", "if", "limit_except", "stream", "mail", "types", "map", "geo", "split_clients"}


def directives(block):
    for it in block:
        # Comments, and includes, which are replaced by what they name.
        if it["directive"] in ("#", "include"):
            continue
        yield it["directive"], it["line"]
        is_pattern = it["directive"] == "location" and it["args"][0].startswith("~")
        if "block" in it and it["directive"] not in CLOSED and not is_pattern:
            yield from directives(it["block"])


def main():
    count, problems = 0, []
    for path in sorted(FILES.glob("*.conf")):
        parsed = crossplane.parse(str(path), single=True, check_ctx=False, check_args=False)
        ran = subprocess.run([sys.argv[1], "import", "nginx", "--json", str(path)], capture_output=True, text=True)
        if parsed["status"] != "ok":
            if ran.returncode != 2 or "nothing is imported" not in ran.stderr:
                problems.append(f"{path.name}: crossplane cannot read it, and Tollgate can")
            continue
        report = json.loads(ran.stdout)
        told = {(it["name"], it["line"]) for it in report["constructs"]}
        for found in directives(parsed["config"][0]["parsed"]):
            count += 1
            if found not in told:
                problems.append(f"{path.name}:{found[1]}: {found[0]} is not in the report")
    for problem in problems:
        print(f"tests/importers: {problem}", file=sys.stderr)
    print(f"nginx-crossplane: {count} directives are in the reports")
    sys.exit(1 if problems or count < 100 else 0)


main()
