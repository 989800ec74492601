"""Runs a program under a terminal and records what it writes.

Reads a JSON object from stdin: argv, env, cwd, cols, rows, limit (seconds) and script, a list of {expect, send}.
Keys are sent once the expected text has appeared in what the program wrote since the keys before. Writes a JSON object
to stdout: chunks, the output in base64, cut where keys were sent; and error, null unless something went wrong.
"""

import base64
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

CONTROLS = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"
    rb"|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|\x1b[ -/]+[0-~]"
    rb"|\x1b[0-~]"
    rb"|[\x00-\x1f]"
)
BLOCK = 65536


class Stopped(Exception):
    """The program did not do what the script expects."""


def main():
    order = json.load(sys.stdin)
    child, terminal = start(order)
    chunks = [b""]
    error = None
    try:
        play(order, terminal, chunks)
    except Stopped as stopped:
        error = str(stopped)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    os.close(terminal)
    os.waitpid(child, 0)
    json.dump({"chunks": [base64.b64encode(chunk).decode() for chunk in chunks], "error": error}, sys.stdout)


def start(order):
    child, terminal = pty.fork()
    if child == 0:
        # The terminal must have its size before the program asks for it.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", order["rows"], order["cols"], 0, 0))
        os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    return child, terminal


def play(order, terminal, chunks):
    deadline = time.monotonic() + order["limit"]
    for step in order["script"]:
        while step["expect"] not in plain(chunks[-1]):
            block = read(terminal, deadline)
            if not block:
                raise Stopped(f"ended or took too long: expected {step['expect']!r} in {plain(chunks[-1])!r}")
            chunks[-1] += block
        os.write(terminal, step["send"].encode())
        chunks.append(b"")
    while block := read(terminal, deadline):
        chunks[-1] += block
    if time.monotonic() >= deadline:
        raise Stopped(f"took too long: expected its end after {plain(chunks[-1])!r}")


def read(terminal, deadline):
    """Returns what the program wrote; nothing if it has ended or the time is up."""
    ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
    if not ready:
        return b""
    try:
        return os.read(terminal, BLOCK)
    except OSError:
        # How Linux tells that the other end is closed.
        return b""


def plain(output):
    return CONTROLS.sub(b"", output).decode(errors="ignore")


main()
