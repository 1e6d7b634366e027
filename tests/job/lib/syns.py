# SPDX-License-Identifier: GPL-2.0-only
"""Prints every TCP connection attempt on the cluster's network: source port destination port.

Counts on the wire what is begun anew, which no look at the sockets afterwards can. Runs on the host, in the
cluster's network namespace.
"""

import ctypes
import socket
import struct

ETH_P_ALL = 3
SO_ATTACH_FILTER = 26

# IPv4, TCP, SYN without ACK; the kernel drops all other frames.
PROGRAM = [
    (0x28, 0, 0, 12), (0x15, 0, 8, 0x800), (0x30, 0, 0, 23), (0x15, 0, 6, 6),
    (0xb1, 0, 0, 14), (0x50, 0, 0, 27), (0x54, 0, 0, 0x12), (0x15, 0, 2, 0x02),
    (0x06, 0, 0, 96), (0x06, 0, 0, 0), (0x06, 0, 0, 0),
]


def main():
    code = b"".join(struct.pack("HBBI", *one) for one in PROGRAM)
    buffer = ctypes.create_string_buffer(code)
    filter_ = struct.pack("HL", len(PROGRAM), ctypes.addressof(buffer))
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sniffer.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
    seen = set()  # a frame appears at every port of the bridge; an attempt may be repeated
    while True:
        frame = sniffer.recv(96)
        length = (frame[14] & 15) * 4
        tcp = frame[14 + length:]
        one = (socket.inet_ntoa(frame[26:30]), *struct.unpack("!H", tcp[:2]),
               socket.inet_ntoa(frame[30:34]), *struct.unpack("!H", tcp[2:4]), tcp[4:8])
        if one not in seen:
            seen.add(one)
            print(*one[:4], flush=True)


main()
