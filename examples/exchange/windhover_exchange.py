"""Reads images of `windhover exchange`: topics in shared memory. Standard library only, Python 3.11 or later.

    from windhover_exchange import Image

    with Image.open("exchange.toml", "plant", "setpoint") as image:
        sample = image.latest()                       # a copy: sample.values["force"], sample.quality, sample.age_ns
        image.fields["force"]                         # a view of the mapping, without a copy
        image.read(lambda fields: fields["force"][0]) # from a whole sample, without a copy of the others

    python3 windhover_exchange.py FILE NODE TOPIC     # prints the latest sample as JSON

Nothing is written to an image. Its layout is at the head of crates/exchange-io/src/image.rs. The values in a view change while the
writer writes: `read` calls its function again until the sample stayed as it was.
"""

import json
import mmap
import os
import platform
import stat
import struct
import sys
import time
import tomllib
from collections import namedtuple

QUALITIES = ("GOOD", "STALE", "BAD", "SUBSTITUTED")
MARK, HOLD, ZERO, DEFAULT = range(4)

_MAGIC = int.from_bytes(b"WHIMAGE\0", "little")
_VERSION = 1
_AT_CHECKSUM, _AT_PID, _AT_HEARTBEAT, _AT_WRITTEN, _AT_SLOTS = 10, 11, 16, 24, 64
_SAMPLE_WORDS = 8
_MAX_DATA_BYTES, _MAX_HISTORY = 1384, 65536
_DEAD_NS = 500_000_000
_ATTEMPTS = 1000
_FORMATS = {
    "bool": "?", "u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q",
    "f32": "f", "f64": "d",
}

Field = namedtuple("Field", "name type count unit offset default")
Sample = namedtuple(
    "Sample", "values data quality age_ns sequence epoch cycle scheduled_ns sent_ns stored_ns writer_alive"
)


class ImageError(Exception):
    """The image is absent, damaged, another user's or of another layout, or this machine cannot read it."""


class Busy(Exception):
    """The writer was interrupted, or died, within a write."""


def topic_fields(file, topic):
    """The fields of a topic of exchange.toml, with their offsets."""
    with open(file, "rb") as opened:
        topics = tomllib.load(opened).get("topic", [])
    found = next((each for each in topics if each.get("name") == topic), None)
    if found is None:
        raise ImageError(f"{file}: it has no topic '{topic}'")
    fields, end = [], 0
    for field in found["field"]:
        if field["type"] not in _FORMATS:
            raise ImageError(f"{file}: field '{field['name']}' has the unknown type '{field['type']}'")
        size = struct.calcsize(_FORMATS[field["type"]])
        count = field.get("count", 1)
        offset = field.get("offset", -(-end // size) * size)
        fields.append(
            Field(field["name"], field["type"], count, field.get("unit", ""), offset, field.get("default", 0.0))
        )
        end = offset + size * count
    return fields


def layout_hash(fields):
    """The 64-bit hash by which writer and reader know that they have the same fields."""
    lines = (f"{f.name} {f.type} {f.count} {f.unit} {f.offset}\n" for f in sorted(fields, key=lambda f: f.offset))
    return _fnv1a("".join(lines).encode())


def _fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


class Image:
    """An image, mapped read-only. With `fields` its data are typed; without, they are bytes."""

    @classmethod
    def open(cls, file, node, topic):
        """The image of `topic` at `node`, whose fields are those of `file` (exchange.toml)."""
        return cls(f"/dev/shm/windhover.{node}.{topic}", topic_fields(file, topic))

    def __init__(self, path, fields=None):
        if sys.byteorder != "little" or platform.machine() not in ("x86_64", "AMD64"):
            raise ImageError("Python has no memory barriers, which this machine needs: use the C library")
        self.path = path
        self._views = []
        self._map = _map(path)
        try:
            self._words = self._view(memoryview(self._map).cast("Q"))
            self._check(fields)
        except BaseException:
            self.close()
            raise

    def _view(self, view):
        self._views.append(view)
        return view

    def _check(self, fields):
        words, count = self._words, len(self._words)
        if words[0] != _MAGIC:
            raise ImageError(f"{self.path}: it has no magic number")
        if words[1] != _VERSION:
            raise ImageError(f"{self.path}: it has another version")
        if words[_AT_CHECKSUM] != _fnv1a(bytes(self._map[:80])):
            raise ImageError(f"{self.path}: its header has a wrong checksum")
        (_, _, self.layout, self.data_bytes, self.history, self.topic_id, self.period_ns, self.deadline_ns,
         self.stale_ns, self.on_stale) = words[:10]
        if self.data_bytes > _MAX_DATA_BYTES or self.history > _MAX_HISTORY or self.on_stale > DEFAULT:
            raise ImageError(f"{self.path}: its header has values out of range")
        # Whole cache lines of 8 words.
        self._slot_words = -(-(_SAMPLE_WORDS + -(-self.data_bytes // 8)) // 8) * 8
        expected = _AT_SLOTS + self._slot_words * (self.history + 1)
        if count != expected:
            raise ImageError(f"{self.path}: it has {count * 8} bytes where its header says {expected * 8}")
        if fields is not None and layout_hash(fields) != self.layout:
            raise ImageError(f"{self.path}: it has another layout than the topic: both ends need the same file")
        self._fields = fields or []
        self.data = self._view(self._data_of(_AT_SLOTS))
        self.fields = {name: self._view(view) for name, view in self._typed(self.data).items()}

    def _data_of(self, slot):
        start = (slot + _SAMPLE_WORDS) * 8
        return memoryview(self._map)[start:start + self.data_bytes]

    def _typed(self, data):
        """A view of each field in data, without a copy."""
        sizes = ((f, struct.calcsize(_FORMATS[f.type]) * f.count) for f in self._fields)
        return {f.name: data[f.offset:f.offset + size].cast(_FORMATS[f.type]) for f, size in sizes}

    @property
    def array(self):
        """The data of the latest sample as a NumPy record: a view of the mapping, without a copy. It needs NumPy."""
        import numpy

        formats = [("<" + _FORMATS[f.type], (f.count,)) for f in self._fields]
        names, offsets = [f.name for f in self._fields], [f.offset for f in self._fields]
        dtype = numpy.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.data_bytes})
        return numpy.frombuffer(self.data, dtype)[0]

    @property
    def written(self):
        """Samples written so far."""
        return self._words[_AT_WRITTEN]

    @property
    def writer_pid(self):
        """The process of the latest writer."""
        return self._words[_AT_PID]

    def _read(self, slot, function):
        """(the head of the slot, what the function returned) of one sample; nothing where the slot has none."""
        words = self._words
        for _ in range(_ATTEMPTS):
            before = words[slot]
            if before % 2 == 1:
                continue
            head = words[slot + 1:slot + _SAMPLE_WORDS].tolist()
            result = function() if head[0] else None
            if words[slot] == before:
                return (head, result) if head[0] else None
        raise Busy(f"{self.path}: the sample is locked, or written faster than it is read")

    def read(self, function):
        """What `function(fields)` returns of the latest sample, called again where the sample changed meanwhile; None without one.

        The views of the fields must not leave the function.
        """
        found = self._read(_AT_SLOTS, lambda: function(self.fields))
        return found and found[1]

    def latest(self):
        """A copy of the latest sample, with its quality by the topic's on_stale. While its slot is locked, the one before it."""
        try:
            found = self._read(_AT_SLOTS, lambda: bytes(self.data))
        except Busy:
            found = self._before()
            if found is None:
                raise
        now_ns = time.monotonic_ns()
        head, data = found or ([0] * (_SAMPLE_WORDS - 1), bytes(self.data_bytes))
        published, sequence, epoch, cycle, scheduled_ns, sent_ns, stored_ns = head
        age_ns = max(0, now_ns - stored_ns) if found else None
        quality, data = self._judge(published, age_ns, data)
        values = {name: view.tolist() for name, view in self._typed(memoryview(data)).items()}
        alive = now_ns - self._words[_AT_HEARTBEAT] <= _DEAD_NS
        return Sample(values, data, quality, age_ns, sequence, epoch, cycle, scheduled_ns, sent_ns, stored_ns, alive)

    def _before(self):
        """The sample of the ring that was written last."""
        written = self.written
        if self.history == 0 or written == 0:
            return None
        slot = _AT_SLOTS + self._slot_words * ((written - 1) % self.history + 1)
        data = self._data_of(slot)
        try:
            return self._read(slot, lambda: bytes(data))
        except Busy:
            return None
        finally:
            data.release()

    def _judge(self, published, age_ns, data):
        if age_ns is not None and age_ns <= self.stale_ns:
            return QUALITIES[(published - 1) & 3], data
        if self.on_stale == ZERO:
            return "SUBSTITUTED", bytes(self.data_bytes)
        if self.on_stale == DEFAULT:
            # Without the topic's fields their defaults are not known.
            return ("SUBSTITUTED", self._defaults()) if self._fields else ("BAD", bytes(self.data_bytes))
        if age_ns is None:
            return "BAD", bytes(self.data_bytes)
        return ("STALE" if self.on_stale == MARK else "SUBSTITUTED"), data

    def _defaults(self):
        data = bytearray(self.data_bytes)
        for field in self._fields:
            struct.pack_into(f"<{field.count}{_FORMATS[field.type]}", data, field.offset, *self._default(field))
        return bytes(data)

    @staticmethod
    def _default(field):
        if field.type in ("f32", "f64"):
            return [float(field.default)] * field.count
        if field.type == "bool":
            return [field.default != 0] * field.count
        bits, is_signed = int(field.type[1:]), field.type[0] == "i"
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
        value = 0 if field.default != field.default else field.default  # NaN
        return [int(min(max(value, low), high))] * field.count

    def wait(self, timeout_s, since=None):
        """Waits until more samples than `since` (now, unless given) were written, and says whether they were. Looks each 200 us."""
        since = self.written if since is None else since
        end = time.monotonic() + timeout_s
        while self.written == since:
            if time.monotonic() >= end:
                return False
            time.sleep(0.0002)
        return True

    def close(self):
        """Unmaps the image. Where NumPy arrays still view it, it is unmapped with the last of them."""
        while self._views:
            self._views.pop().release()
        try:
            self._map.close()
        except BufferError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _map(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as cause:
        raise ImageError(f"{path}: it cannot be opened: {cause.strerror}") from cause
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.geteuid():
            raise ImageError(f"{path}: it belongs to user {facts.st_uid}, not to this process's user")
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < _AT_SLOTS * 8 or facts.st_size % 8:
            raise ImageError(f"{path}: it is no image: too short, or no file")
        return mmap.mmap(descriptor, facts.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


def main(arguments):
    if len(arguments) != 3:
        print("usage: windhover_exchange.py FILE NODE TOPIC", file=sys.stderr)
        return 2
    try:
        with Image.open(*arguments) as image:
            sample = image.latest()._asdict()
    except (ImageError, Busy, OSError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    del sample["data"]
    print(json.dumps(sample))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
