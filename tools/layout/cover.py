"""Runs a program and writes down which of its functions run, by a breakpoint at each that is hit once.

    cover.py OUT PROGRAM [ARGS...]

Linux on x86-64. What the program starts runs on its own.
"""

import ctypes
import os
import signal
import subprocess
import sys

TRACEME, CONT, GETREGS, SETREGS, DETACH, SETOPTIONS = 0, 7, 12, 13, 17, 0x4200
FORK, VFORK, CLONE, EXEC, EXITKILL = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 20
EXEC_EVENT = 4
WALL = 0x40000000
BREAK = b"\xcc"
RIP = 16

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(what, pid, data=None):
    return libc.ptrace(what, pid, None, data)


def functions(program):
    """Returns where Rust functions are in the file's memory, by their names."""
    found = {}
    for line in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tT" and words[2].startswith(("_ZN", "_R")):
            found.setdefault(int(words[0], 16), words[2])
    return found


def start(program, args):
    pid = os.fork()
    if pid == 0:
        ptrace(TRACEME, 0)
        os.execv(program, [program, *args])
    os.waitpid(pid, 0)
    ptrace(SETOPTIONS, pid, FORK | VFORK | CLONE | EXEC | EXITKILL)
    return pid


def main(out, program, args):
    program = os.path.realpath(program)
    known = functions(program)
    first = start(program, args)
    with open(f"/proc/{first}/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
    bytes_at = {}
    with open(f"/proc/{first}/mem", "r+b", buffering=0) as memory:
        for offset in known:
            memory.seek(base + offset)
            bytes_at[base + offset] = memory.read(1)
            memory.seek(base + offset)
            memory.write(BREAK)
    hit = set()
    registers = (ctypes.c_uint64 * 27)()
    ptrace(CONT, first)
    while True:
        pid, status = os.waitpid(-1, WALL)
        if not os.WIFSTOPPED(status):
            if pid == first:
                break
            continue
        event, sent = status >> 16, os.WSTOPSIG(status)
        if event == EXEC_EVENT:
            ptrace(DETACH, pid)
            continue
        if sent == signal.SIGTRAP and event == 0:
            ptrace(GETREGS, pid, ctypes.addressof(registers))
            at = registers[RIP] - 1
            if at in bytes_at:
                hit.add(known[at - base])
                with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
                    memory.seek(at)
                    memory.write(bytes_at[at])
                registers[RIP] = at
                ptrace(SETREGS, pid, ctypes.addressof(registers))
                sent = 0
        # Threads and processes begin with a stop.
        ptrace(CONT, pid, 0 if event or sent == signal.SIGSTOP else sent)
    with open(out, "w") as file:
        file.write("\n".join(sorted(hit)) + "\n")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
