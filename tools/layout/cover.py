"""Run by gdb: writes down which functions of a program run, by a breakpoint at each that is hit once.

COVER_OUT names the file; it is written when the program has ended.
"""

import os
import subprocess

import gdb

for setting in ["pagination off", "confirm off", "startup-with-shell off", "print thread-events off",
                "detach-on-fork on", "follow-fork-mode parent", "debuginfod enabled off"]:
    gdb.execute("set " + setting)
gdb.execute("handle SIGCHLD SIGPIPE SIGTERM SIGHUP nostop noprint pass", to_string=True)
gdb.execute("starti", to_string=True)

program = gdb.current_progspace().filename
with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
    base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))

hit = set()


class Once(gdb.Breakpoint):
    def __init__(self, address, name):
        super().__init__(f"*{address:#x}", gdb.BP_BREAKPOINT, internal=True)
        self.silent = True
        self.symbol = name

    def stop(self):
        hit.add(self.symbol)
        self.enabled = False
        return False


known = set()
for line in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines():
    words = line.split()
    if len(words) == 3 and words[1] in "tT" and words[2].startswith(("_ZN", "_R")) and words[0] not in known:
        known.add(words[0])
        Once(base + int(words[0], 16), words[2])
try:
    gdb.execute("continue", to_string=True)
except gdb.error as error:
    # A thread that ends with the program may confuse it.
    print(error)
with open(os.environ["COVER_OUT"], "w") as out:
    out.write("\n".join(sorted(hit)) + "\n")
