"""Elements of fewer than eight bits, to and from one byte each.

`bits` is 4, 2 or 1; `high_first` is 1 where the first element of a byte lies in its high bits; `signed` is 1 where an
element's highest bit is extended to its byte. On the way to packed elements, higher bits of a byte are dropped.
"""

from __future__ import annotations

from strided.kernels import lanes
from strided.kernels.compile import BYTES, NUMBER, WRITABLE, kernel, part, shared
from strided.kernels.tiles import ARGUMENTS, no_patch, spill_run, walk

# --- words that rows share ------------------------------------------------------------------------------------------


@part
def _fields(s, how):
    shift, mask, sign = how
    return lanes.narrow(lanes.fields8(s, shift), mask, sign)


@part
def _shift(member, pitch, options):
    bits, flip, sign = options
    return member * bits ^ flip, (1 << bits) - 1, sign


@shared
def _braid(s, how):
    pitch, bits, flip = how
    words = lanes.zero()
    mask = (1 << bits) - 1
    for shift in range(0, 32, bits):
        words = lanes.add_field(words, s, mask, shift ^ flip)
        s += pitch
    return words


@shared
def _spill(room, s, count, how):
    pitch, bits, flip = how
    place = room
    for _ in range(0, 32, bits):
        lanes.move(place, s, count)
        place += 64
        s += pitch
    return room, (64, bits, flip)


@part
def _apart(member, pitch, options):
    bits, flip = options
    return pitch, bits, flip


@part
def _patch(fetch, spill, place, step, how, bounds, room, member):
    """Write one row of words, with the bits of their other rows as they are."""
    t, s, count = place
    _, bits, flip = how
    mask = (1 << bits) - 1 << (member * bits ^ flip)
    while count > 0:
        present = min(64, count)
        inside = bounds[0] <= s <= bounds[1]
        words = fetch(s, how) if inside else fetch(spill(room + 1024, s, present * step >> 6, how)[0], how)
        lanes.move(room, t, present)
        lanes.store(room, lanes.choose(lanes.load(room), words, mask))
        lanes.move(t, room, present)
        t += 64
        s += step
        count -= 64


@kernel(*ARGUMENTS, NUMBER, NUMBER, NUMBER)
def unzip_bits(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch, bits, signed, high_first):
    """Take rows of elements out of words that 32 / `bits` of them share, into bytes; tables as in `tiles`."""
    tables = outer, rows, pieces, row_cuts, piece_cuts
    options = bits, (8 - bits) * high_first, signed << bits - 1
    walk(_fields, spill_run, _shift, no_patch, (4, 1, 1), source, target, tables, streaming, scratch, options)


@kernel(*ARGUMENTS, NUMBER, NUMBER)
def zip_bits(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch, bits, high_first):
    """Put rows of bytes into words that 32 / `bits` of them share; tables as in `tiles`.

    Rows that are alone keep the bits of others by reading and writing whole bytes: threads may not share their words.
    """
    tables = outer, rows, pieces, row_cuts, piece_cuts
    options = bits, (8 - bits) * high_first
    walk(_braid, _spill, _apart, _patch, (1, 4, 32 // bits), source, target, tables, streaming, scratch, options)


# --- elements side by side ------------------------------------------------------------------------------------------


@shared
def _spread(s, shift, bits, flip):
    if bits == 4:
        return lanes.spread4(s, shift, flip)
    if bits == 2:
        return lanes.spread2(s, shift, flip)
    return lanes.spread1(s, shift, flip)


@shared
def _gather(s, bits, flip):
    if bits == 4:
        return lanes.gather4(s, flip)
    if bits == 2:
        return lanes.gather2(s, flip)
    return lanes.gather1(s, flip)


@kernel(BYTES, WRITABLE, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, WRITABLE)
def unpack(source, target, source_element, target_start, count, bits, signed, high_first, streaming, scratch):
    """Copy `count` packed elements, the first of which is number `source_element` of the source, to bytes."""
    room = lanes.address(scratch)
    t = lanes.address(target) + target_start
    bit = source_element * bits
    mask, sign = (1 << bits) - 1, signed << bits - 1
    while count > 0:
        made = min(count, 64 - (t & 63))
        s = lanes.address(source) + (bit >> 3)
        if (bit >> 3) + 8 * bits + 1 > source.size:
            lanes.move(room, s, source.size - (bit >> 3))
            s = room
        line = lanes.narrow(_spread(s, bit & 7, bits, high_first), mask, sign)
        if made == 64:
            lanes.put(t, line, streaming)
        else:
            lanes.store(room + 1024, line)
            lanes.move(t, room + 1024, made)
        t += made
        bit += made * bits
        count -= made
    if streaming:
        lanes.fence()


@part
def _put_field(target, element, value, bits, high_first):
    place = lanes.address(target) + (element * bits >> 3)
    shift = element * bits & 7 ^ (8 - bits) * high_first
    mask = (1 << bits) - 1 << shift
    lanes.put_byte(place, lanes.byte(place) & ~mask | value << shift & mask)


@kernel(BYTES, WRITABLE, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, WRITABLE)
def pack(source, target, source_start, target_element, count, bits, high_first, streaming, scratch):
    """Copy `count` bytes to packed elements, the first of which is number `target_element` of the target.

    Elements outside that share a byte with the first or the last one keep their bits.
    """
    room = lanes.address(scratch)
    s = lanes.address(source) + source_start
    each = 8 // bits
    while count > 0 and (target_element % each or count < each):
        _put_field(target, target_element, lanes.byte(s), bits, high_first)
        target_element, s, count = target_element + 1, s + 1, count - 1
    while count >= each:
        t = lanes.address(target) + target_element // each
        made = min(count // each, 64 - (t & 63))
        if made == 64:
            lanes.put(t, _gather(s, bits, high_first), streaming)
        else:
            lanes.move(room, s, made * each)
            lanes.store(room + 1024, _gather(room, bits, high_first))
            lanes.move(t, room + 1024, made)
        target_element, s, count = target_element + made * each, s + made * each, count - made * each
    while count > 0:
        _put_field(target, target_element, lanes.byte(s), bits, high_first)
        target_element, s, count = target_element + 1, s + 1, count - 1
    if streaming:
        lanes.fence()
