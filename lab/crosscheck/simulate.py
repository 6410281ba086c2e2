"""A second simulator of FIFO and Fair, written from their descriptions and not from the code.

    python3 simulate.py MIX.json NODES MAPS REDUCES INTERVAL_NS fifo|fair

MIX.json is a job mix that states the time of each task. The program prints the end of each
job in ns. It models what docs/simulator.md says of a cluster where nothing fails: node i of
n sends its first heartbeat at i/n of the interval; a heartbeat reports the attempts that
have ended, then fills the node's free slots.
"""
import heapq
import json
import math
import sys


def nanos(text):
    """The ns of a time such as 1.25s."""
    whole, _, part = text.removesuffix("s").partition(".")
    return int(whole) * 10**9 + int((part + "0" * 9)[:9])


class Job:
    def __init__(self, index, spec):
        self.index, self.pool = index, spec["pool"]
        self.submit = nanos(spec["submit"])
        self.times = {kind: [nanos(t["time"]) for t in spec.get(kind, [])] for kind in ("maps", "reduces")}
        self.next = {"maps": 0, "reduces": 0}  # tasks are launched in order
        self.running = {"maps": 0, "reduces": 0}
        self.done = {"maps": 0, "reduces": 0}
        # Reduces start when this many maps have ended.
        self.gate = math.ceil(spec["slow-start"] * len(self.times["maps"]) - 1e-9)
        self.waiting = []  # running reduces that wait for the last map
        self.end = None

    def has_task(self, kind):
        return self.next[kind] < len(self.times[kind]) and (kind == "maps" or self.done["maps"] >= self.gate)

    def maps_done(self):
        return self.done["maps"] == len(self.times["maps"])


class Attempt:
    def __init__(self, job, kind, time):
        self.job, self.kind, self.time = job, kind, time
        self.end = None  # not known while a reduce waits for maps


def fifo(jobs, kind):
    """The job that was submitted first."""
    return min(jobs, key=lambda j: (j.submit, j.index))


def fair(jobs, kind):
    """The pool with the fewest running tasks, by name; in it the job with the fewest."""
    def pool_load(name):
        return sum(j.running[kind] for j in alive if j.pool == name)
    pool = min({j.pool for j in jobs}, key=lambda p: (pool_load(p), p))
    return min((j for j in jobs if j.pool == pool), key=lambda j: (j.running[kind], j.submit, j.index))


alive = []


def report(node, now):
    """The heartbeat's reports: attempts of the node that have ended."""
    for a in [a for a in node if a.end is not None and a.end <= now]:
        node.remove(a)
        j = a.job
        j.running[a.kind] -= 1
        j.done[a.kind] += 1
        if a.kind == "maps" and j.maps_done():
            for r in j.waiting:
                r.end = now + r.time
            j.waiting.clear()
        if all(j.done[k] == len(j.times[k]) for k in j.times):
            j.end = now
            alive.remove(j)


def fill(node, slots, now, choose):
    """The heartbeat's answer: tasks for the free slots."""
    for kind, total in slots.items():
        while sum(a.kind == kind for a in node) < total:
            jobs = [j for j in alive if j.has_task(kind)]
            if not jobs:
                break
            j = choose(jobs, kind)
            a = Attempt(j, kind, j.times[kind][j.next[kind]])
            j.next[kind] += 1
            j.running[kind] += 1
            node.append(a)
            if kind == "maps" or j.maps_done():
                a.end = now + a.time
            else:
                j.waiting.append(a)


def simulate(specs, nodes, slots, interval, choose):
    jobs = [Job(i, s) for i, s in enumerate(specs)]
    coming = sorted(jobs, key=lambda j: (j.submit, j.index))
    cluster = [[] for _ in range(nodes)]
    beats = [(interval * i // nodes, i) for i in range(nodes)]
    heapq.heapify(beats)
    while coming or alive:
        now, i = heapq.heappop(beats)
        while coming and coming[0].submit <= now:
            alive.append(coming.pop(0))
        report(cluster[i], now)
        fill(cluster[i], slots, now, choose)
        heapq.heappush(beats, (now + interval, i))
    return [j.end for j in jobs]


def main():
    file, nodes, maps, reduces, interval, policy = sys.argv[1:]
    with open(file) as f:
        specs = json.load(f)["jobs"]
    ends = simulate(specs, int(nodes), {"maps": int(maps), "reduces": int(reduces)}, int(interval), {"fifo": fifo, "fair": fair}[policy])
    json.dump(ends, sys.stdout)


main()
