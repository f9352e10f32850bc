"""functions.py ROOT [NAMES]: every public function of dit.h has a row in docs/languages.md, and what that row names is there, and
calls it: in dit.py, and in dit.cs, whose public members test.exe names has written to NAMES."""
import re
import sys

import dit

root, names = sys.argv[1], sys.argv[2:]


def read(path):
    with open(f"{root}/{path}", encoding="utf-8") as file:
        return file.read()


def has(name):
    """True where dit.py has it: Model.info is given by Model's annotations."""
    at = dit
    for part in name.split("."):
        if part in getattr(at, "__annotations__", {}):
            return True
        at = getattr(at, part, None)
    return at is not None


public = re.findall(r"^DIT_API [^;(]*?\b(dit_\w+)\(", read("src/dit_api.h"), re.M)
rows = [[re.findall(r"`([\w.]+)`", re.sub(r"\(.*?\)", "", cell)) for cell in line.split("|")[1:4]] for line in read("docs/languages.md").splitlines() if line.startswith("| `dit_")]
members = set(open(names[0], encoding="utf-8").read().split()) if names else None
calls, bad = {"dit.py": read("examples/python/dit.py"), "dit.cs": read("examples/csharp/dit.cs")}, []
calls["dit.py"] = set(re.findall(r"_lib\.(dit_\w+)", calls["dit.py"])) | set(re.findall(r"library\.(dit_version)\(", calls["dit.py"]))
calls["dit.cs"] = set(re.findall(r"extern \w+ (dit_\w+)\(", calls["dit.cs"])) & set(re.findall(r"Native\.(dit_\w+)", calls["dit.cs"]))
if len(public) < 50 or (members is not None and len(members) < 100):
    bad.append(f"{len(public)} functions and {members and len(members)} members: too few")
if [row[0][0] for row in rows] != public:
    found = [row[0][0] for row in rows]
    bad.append(f"docs/languages.md lacks {[name for name in public if name not in found]}, has {[name for name in found if name not in public]}, or another order")
for (function,), in_python, in_csharp in rows:
    if not in_python or not in_csharp:
        bad.append(f"{function}: docs/languages.md names nothing")
    bad += [f"{name} does not call {function}" for name, code in calls.items() if function not in code]
    bad += [f"{function}: dit.py has no {name}" for name in in_python if not has(name)]
    if members is not None:
        bad += [f"{function}: dit.cs has no {name}" for name in in_csharp if name not in members]
print("\n".join(bad) or f"{len(public)} functions")
sys.exit(bool(bad))
