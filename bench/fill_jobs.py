#!/usr/bin/env python3
"""Copies the one finished job of a stopped daemon's state N times, under other names and times.
Usage: fill_jobs.py STATE_DB N"""

import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
count = int(sys.argv[2])
names = [row[1] for row in db.execute("pragma table_info(job)")]
number, *rest = db.execute(f"select {', '.join(names)} from job where live = 0 order by number limit 1").fetchone()
job = dict(zip(names, (number, *rest)))
(state,) = db.execute("select state from job_state where number = ?", (number,)).fetchone()
spec = db.execute("select instance_count, warning, node, document from job_spec where number = ?", (number,)).fetchone()
statuses = ("Completed", "Completed", "Failed", "Stopped")
with db:
    for i in range(1, count + 1):
        name = f"filled-{i:06d}"
        row = job | {"number": number + i, "id": f"j-filled{i}", "name": name, "name_key": name, "arn": job["arn"].rsplit("/", 1)[0] + "/" + name,
                     "status": statuses[i % 4], "secondary": statuses[i % 4], "created": job["created"] + i * 1000,
                     "modified": job["modified"] + i * 1000, "ended": job["ended"] + i * 1000, "idempotency": ""}
        db.execute(f"insert into job ({', '.join(row)}) values ({', '.join('?' * len(row))})", tuple(row.values()))
        db.execute("insert into job_state values (?, ?)", (number + i, state))
        db.execute("insert into job_spec values (?, ?, ?, ?, ?)", (number + i, *spec))
