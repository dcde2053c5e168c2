"""What both benchmark programs share: the table's rows, and a free port."""

import socket

rows = []


def row(what, ours, peer="–", ratio="–", goal=""):
    rows.append((what, ours, peer, ratio, goal))
    print(f"{what}: {ours} | {peer} | {ratio} | {goal}", flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
