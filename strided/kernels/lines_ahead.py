"""Prefetching along lanes: lines of the source, and of the target where these are read before they are written."""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part
from strided.kernels.llvm import LINE, register_bytes
from strided.kernels.row_parts import NO_GAP, Ahead, Gap
from strided.kernels.word_lines import sharing

# Every load of a line prefetches another one: the same piece's in a block so far on that _SOON bytes are read until
# then. If a matrix is one block, so large (_FAR bytes) that the line would be evicted before its turn, the line _AHEAD
# bytes on is prefetched instead.
_FAR, _SOON, _AHEAD = 1 << 17, 1 << 14, 1024
# Bytes of a piece, and of a row of its tile, up to which lines that nobody wants are asked for behind it.
_SHORT, _TILE_ROW = 128, 512
# Whether the first of two rows of a word asks for all lines of both.
_FIRST_OF_TWO = register_bytes() == LINE
# The line in which a row ends must come from memory before it can be written: it is prefetched this many rows before.
ROWS_AHEAD = 4


@part
def lead_of(outer, rows, pieces, row_cuts, piece_cuts, block, soon):
    """Bytes of the source from the first piece of a block to the first one of a later block.

    Both are told by the matrix, the block of rows and that of pieces.
    """
    o, r, p = block
    later, i, k = soon
    if later >= len(outer):
        return ZERO + _AHEAD
    there = outer[later, 0] + rows[row_cuts[i], 0] + pieces[piece_cuts[k], 0]
    return there - outer[o, 0] - rows[row_cuts[r], 0] - pieces[piece_cuts[p], 0]


@part
def have_gaps(rows, pieces, size):
    """Whether rows of one piece, which has `size` bytes of the source, leave out a line or more between them."""
    return len(pieces) == 1 and len(rows) > 1 and rows[1, 0] - rows[0, 0] >= size + 64


@part
def gap_behind(rows, pieces, lane):
    """From where to where lines nobody wants follow the last piece of a row, counted in bytes from where it begins.

    That is a piece of up to _SHORT bytes in a tile of its own, in which rows of up to _TILE_ROW bytes follow each
    other, of words or of lanes of so many bytes. `NO_GAP` for none, or where these lines are not asked for: see
    `llvm.asks_for_gaps`.
    """
    last = len(pieces) - 1
    if not simd_bytes.asks_gaps() or last < 1 or pieces[last, 0] == pieces[last - 1, 0] + pieces[last - 1, 2] * lane:
        return NO_GAP
    i, size = sharing(rows, ZERO, len(rows)), pieces[last, 2] * lane
    if size > _SHORT:
        return NO_GAP
    step = rows[i, 0] - rows[0, 0] if i < len(rows) else ZERO
    return Gap(size + 63 & -64, step) if step <= _TILE_ROW else NO_GAP


@part
def ask_for_gap(begin, gap):
    """Prefetch the lines behind a piece, as `gap_behind` tells them."""
    for k in range(gap.start, gap.stop, 64):
        simd_bytes.prefetch(begin + k)


@part
def next_block(row_cuts, piece_cuts, block):
    """The block behind one."""
    o, r, p = block
    p += 1
    if p == len(piece_cuts) - 1:
        r, p = r + 1, ZERO
        if r == len(row_cuts) - 1:
            o, r = o + 1, ZERO
    return o, r, p


@part
def block_ahead(outer, row_cuts, piece_cuts, size, are_words, gaps):
    """The block that is soon enough after the first one, and not evicted before its turn; behind all where none is.

    Blocks have about `size` bytes of the source, of words that rows share or not. Such words are mostly read from front
    to back, but for whole rows with `gaps` between them, and the CPU foresees them: the next block is soon enough.
    """
    cut, rows_cut = len(piece_cuts) > 2, len(row_cuts) > 2
    soon = (ZERO + len(outer) if size > _FAR and not (cut or rows_cut) else ZERO), ZERO, ZERO
    front_to_back = are_words and (cut or (rows_cut and not gaps))
    for _ in range(1 if front_to_back else max(1, _SOON // max(64, size))):
        soon = next_block(row_cuts, piece_cuts, soon)
    return soon


@part
def ask(s, end, step, shared, ahead):
    """Prefetch as much as a line of the target takes: of rows that share its words, a few in their turn."""
    if shared == 1:
        for k in range(ahead.pitch):
            simd_bytes.prefetch(s + ahead.lead + 64 * k)
        return
    lines = shared * step >> 6
    for k in range(lines):
        own = 64 * k if ahead.dense > 1 else ((end >> 6) * lines + k & shared - 1) * ahead.pitch
        simd_bytes.prefetch(s * ahead.dense + ahead.lead + own)


@part
def lines_in_turn(step, sharing, count, member, is_first, is_last):
    """Of the lines that make one of the target, those that a row asks for: the first one, and how many.

    The rows of a word, `sharing` if all are there, read the same lines. The first of them asks for all lines if no
    other words are among the `count` rows of a block, and, with registers of a line, if two share a word. Else each
    asks for one, but a row alone for all, where these are more than the two that caches fetch at once.
    """
    lines = max(1, step >> 6)
    if (sharing > 2 and count <= sharing) or (sharing == 2 and _FIRST_OF_TWO):
        return ZERO, lines * is_first
    if lines > 2 and is_first and is_last:
        return ZERO, ZERO + lines
    return member & lines - 1, ZERO + 1


@part
def side_by_side(lead, s, shared):
    """What `ask` takes for rows, the first one at `s`, each of which begins where the one before it ends.

    All of their lines are asked for, one after the other. Of short rows a few in their turn would leave some out.
    """
    return Ahead(lead.on - s * (shared - 1), ZERO, lead.far, ZERO + shared)


@part
def end_of_rows(fixed, rows, pieces):
    """Bytes from where a row begins to where it ends, if that leaves a line to be completed, else 0.

    Where the next row goes on from there, it completes it.
    """
    _, t_lane, _, shared, streaming, _ = fixed
    last = len(pieces) - 1
    if not streaming or last < 0 or len(rows) == 0:
        return ZERO
    end = pieces[last, 1] + pieces[last, 2] * t_lane
    if len(rows) > shared:
        begin = rows[shared, 1] + pieces[0, 1]
        if begin == rows[0, 1] + end:
            return ZERO
    return end


@part
def ask_for(line, near):
    """Prefetch a line; if `near` into the first-level cache.

    Of few lines that lie together, the second-level cache may have some too late, or no longer.
    """
    if near:
        simd_bytes.prefetch_near(line)
    else:
        simd_bytes.prefetch(line)


@part
def _later_row(origin, i, later):
    """The row `i`, counted on into a later matrix, and where its matrix begins."""
    return (i % later.count, later.target) if i >= later.count else (i, origin)


@part
def ask_for_end(origin, rows, i, later):
    """Prefetch the line in which a later row ends: of these rows, or of a later matrix."""
    i, origin = _later_row(origin, i, later)
    end = origin + rows[i, 1] + later.end
    if end & 63:
        simd_bytes.prefetch(end)


@part
def ask_for_words(origin, rows, i, done, apart, later, cut, t_lane):
    """Prefetch a row of the target that is read before it is written, since its words are not complete.

    As those of the `done` rows from row `i` on are not: some words on, or the same ones of a later matrix. Words that
    are asked for follow each other `apart` rows apart, 0 for those that are between others.
    """
    is_before = i >= done and rows[i - done, 2] == rows[i, 2]
    is_behind = i + done < later.count and rows[i + done, 2] == rows[i, 2]
    on = ROWS_AHEAD * (done if is_before or is_behind else apart)
    if on == 0 or on >= later.count:
        origin = later.target
    else:
        i, origin = _later_row(origin, i + on, later)
    row = origin + rows[i, 1]
    pieces = cut.table
    for p in range(cut.start, cut.stop):
        place = row + pieces[p, 1]
        for k in range(0, pieces[p, 2] * t_lane, 64):
            simd_bytes.prefetch(place + k)


@part
def place_of(outer, rows, o, i, side):
    """Where row `i` begins, counted on into the next matrices, on one side: 0 for the source, 1 for the target."""
    o += i // len(rows)
    return outer[min(o, len(outer) - 1), side] + rows[i % len(rows), side]


@part
def ask_for_ends(t, size):
    """Prefetch the lines in which a run of rows begins and ends, where it fills these in part."""
    if t & 63:
        simd_bytes.prefetch(t)
    if t + size & 63:
        simd_bytes.prefetch(t + size)
