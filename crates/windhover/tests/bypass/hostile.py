"""A hostile peer of a redis server: ADDRESS PORT DEVICE MAC SECONDS. Holds a connection that asks and checks answers, and
sends frames that nobody should send, of one kind after the other. Says for each kind what it sent and how many answers were right."""
import random
import socket
import struct
import sys
import time

address, port, device, mac, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5])
chance = random.Random(7)
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((device, 0))
own_mac = raw.getsockname()[4]
server_mac = bytes.fromhex(mac.replace(":", ""))
server = socket.inet_aton(address)
held = socket.create_connection((address, port))
held.settimeout(10)
own, own_port = socket.inet_aton(held.getsockname()[0]), held.getsockname()[1]
lines = held.makefile("rb")


def ask(number):
    value = b"%d" % chance.getrandbits(60)
    held.sendall(b"SET key%d %s\r\nGET key%d\r\n" % (number % 50, value, number % 50))
    return [lines.readline() for _ in range(3)] == [b"+OK\r\n", b"$%d\r\n" % len(value), value + b"\r\n"]


def total(data):
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


def ip(source, protocol, payload):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), chance.getrandbits(16), 0x4000, 64, protocol, 0, source, server)
    return server_mac + own_mac + b"\x08\0" + head[:10] + struct.pack("!H", total(head)) + head[12:] + payload


def tcp(source, from_port, flags, options=b"", data=b"", sequence=None, acknowledgment=None):
    number = lambda value: chance.getrandbits(32) if value is None else value
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack("!HHIIBBHHH", from_port, port, number(sequence), number(acknowledgment), offset, flags, chance.getrandbits(16), 0, chance.getrandbits(16)) + options + data
    check = total(source + server + struct.pack("!HH", 6, len(head)) + head)
    return ip(source, 6, head[:16] + struct.pack("!H", check) + head[18:])


def garbage():
    return server_mac + own_mac + chance.randbytes(chance.randrange(2, 1400))


def malformed():
    frame = bytearray(tcp(own, chance.choice([own_port, chance.getrandbits(16)]), chance.getrandbits(8), chance.randbytes(4 * chance.randrange(10)), chance.randbytes(chance.randrange(100))))
    for _ in range(chance.randrange(1, 6)):
        frame[chance.randrange(14, len(frame))] = chance.getrandbits(8)
    return bytes(frame[: chance.randrange(15, len(frame) + 1)])


def syn():
    source = own[:3] + bytes([chance.randrange(1, 255)]) if chance.random() < 0.5 else chance.randbytes(4)
    return tcp(source, chance.getrandbits(16), 2, b"\x02\x04\x05\xb4\x04\x02\x01\x01")


def guessed_acknowledgment():
    return tcp(own[:3] + bytes([chance.randrange(1, 255)]), chance.getrandbits(16), 0x10, data=chance.randbytes(chance.randrange(20)))


def into_the_connection():
    return tcp(own, own_port, chance.choice([0x04, 0x14, 0x02, 0x12, 0x11, 0x10, 0x18, 0x38]), data=chance.randbytes(chance.choice([0, 1, 1000])))


def datagram():
    body = chance.randbytes(chance.randrange(100))
    return ip(own, 17, struct.pack("!HHHH", chance.getrandbits(16), port, 8 + len(body), 0) + body)


for kind in (garbage, malformed, syn, guessed_acknowledgment, into_the_connection, datagram):
    sent = asked = right = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            try:
                raw.send(kind())
                sent += 1
            except OSError:
                pass
        asked += 1
        right += ask(asked)
    print(f"{kind.__name__}: {sent} frames, {right} of {asked} answers right")
