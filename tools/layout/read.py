"""Reads a sidecar's terminal over its WebSocket until so many bytes have come; says so when the first has.

    read.py URL BYTES
"""

import socket
import sys
from urllib.parse import urlsplit

url = urlsplit(sys.argv[1])
left = int(sys.argv[2])
with socket.create_connection((url.hostname, url.port), timeout=30) as stream:
    stream.sendall(
        f"GET /ws?mode=raw HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    while left > 0:
        read = stream.recv(65536)
        if not read:
            sys.exit("the sidecar closed the connection")
        left -= len(read)
        print(len(read), flush=True)
