"""What suites check of every trace."""
import collections
import json

from harness import require


def read(path):
    with open(path) as f:
        return json.load(f)


def well_formed(trace):
    """Events by phase; every bar in order on its row, every row and process named. Messages of
    a group begin and end together."""
    phases = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        phases[event["ph"]].append(event)
    require(set(phases) <= {"X", "M", "s", "f"}, f"phases {sorted(phases)}")
    named = {(e["pid"], e["tid"]) for e in phases["M"] if e["name"] == "thread_name"}
    ranks = {e["pid"] for e in phases["M"] if e["name"] == "process_name"}
    end, last = collections.defaultdict(float), {}
    for event in phases["X"]:
        row = (event["pid"], event["tid"])
        require(row in named and event["pid"] in ranks, f"a bar on {row}, which has no name")
        require(event["dur"] >= 0 and event["ts"] >= 0, f"a bar at {event['ts']} for {event['dur']}")
        bar = (event["ts"], event["dur"])
        together = event["cat"] in ("send", "recv") and last.get(row) == bar
        require(event["ts"] >= end[row] - 1e-3 or together, f"bars of {row} overlap at {event['ts']}")
        end[row], last[row] = event["ts"] + event["dur"], bar
    return phases
