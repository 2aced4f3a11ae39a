// `wide`: 16-byte loads laid out from line starts, whatever the row size and the base are.
//
// Eight lanes read one line of 128 bytes, so a warp instruction covers four lines, of one row or of several: short rows
// share it. Of a line's eight pieces only those are read that hold a byte of the row. So a row costs as many reads as
// it touches lines, and as many bytes as it touches 32-byte sectors. A thread has UVA_GATHER_WIDE_DEPTH loads in
// flight before it uses the first.
//
// A piece may hold bytes before the row's first or after its last. They belong to the neighbouring rows, or at the ends of the
// table to other data in the same aligned 16 bytes. Reading them is safe, because memory is mapped and pinned
// in whole pages (device memory in larger units still), and no page border lies inside an aligned piece. They are
// discarded: only the row's own bytes are stored.
//
// The output row begins somewhere else in its own 16 bytes than the row does. Lanes hold consecutive pieces, so what a
// destination piece needs lies in a lane and the one before it: one shuffle, one shift over both, and a 16-byte store.
// Only the two ends of an output row are stored in words and bytes.
//
// `wide-plain` and `wide-evict-first` are the same kernel with other hints to the caches, for comparison.
#pragma once

#include "gather.cuh"

namespace uva {

constexpr u32 PIECE_BYTES = 16;
constexpr u32 PIECES_OF_A_LINE = LINE_BYTES / PIECE_BYTES;
constexpr u32 LINES_AT_ONCE = LANES / PIECES_OF_A_LINE;

// A warp works through units: line 0 of row 0, line 1 of row 0, …, line 0 of row 1 … Every row has `lines` units, as
// many as the row of this size and base that touches most; a unit that its row does not touch is read by no lane.
struct Layout {
  u64 row_bytes;
  u32 lines;
  // How far the next step's unit is: LINES_AT_ONCE units.
  u32 step_rows, step_lines;
};

struct Unit {
  u32 row, line;
};

__device__ __forceinline__ Layout layout_of(const u8* base, u64 row_bytes) {
  // Rows begin at base plus multiples of row_bytes: anywhere in a line that base + multiples of `spacing` can be.
  const u64 mixed = row_bytes | LINE_BYTES;
  const u64 spacing = mixed & (0 - mixed);
  const u64 latest = reinterpret_cast<u64>(base) % spacing + LINE_BYTES - spacing;
  Layout layout;
  layout.row_bytes = row_bytes;
  layout.lines = (u32)((latest + row_bytes - 1) / LINE_BYTES) + 1;
  layout.step_rows = LINES_AT_ONCE / layout.lines;
  layout.step_lines = LINES_AT_ONCE % layout.lines;
  return layout;
}

__device__ __forceinline__ Unit next_unit(const Layout& layout, Unit unit) {
  unit.row += layout.step_rows;
  unit.line += layout.step_lines;
  if (unit.line >= layout.lines) {
    unit.line -= layout.lines;
    unit.row += 1;
  }
  return unit;
}

// The 16 bytes that begin `back` bytes (0…15) before the end of `before` and continue in `piece`.
__device__ __forceinline__ Piece<16> join(const Piece<16>& before, const Piece<16>& piece, u32 back) {
  const u32 words = (PIECE_BYTES - back) / 4;
  const u32 bits = (PIECE_BYTES - back) % 4 * 8;
  const bool by_two = words & 2, by_one = words & 1;
  // Names, not arrays: registers cannot be indexed by a number that is only known now, and what is indexed goes to
  // local memory.
  const u32 a = before.word[0], b = before.word[1], c = before.word[2], d = before.word[3];
  const u32 e = piece.word[0], f = piece.word[1], g = piece.word[2], h = piece.word[3];
  const u32 p = by_two ? c : a, q = by_two ? d : b, r = by_two ? e : c, s = by_two ? f : d;
  const u32 t = by_two ? g : e, u = by_two ? h : f;
  const u32 v = by_one ? q : p, w = by_one ? r : q, x = by_one ? s : r, y = by_one ? t : s, z = by_one ? u : t;
  const Piece<16> joined = {{
      back == 0 ? e : funnel_right(v, w, bits),
      back == 0 ? f : funnel_right(w, x, bits),
      back == 0 ? g : funnel_right(x, y, bits),
      back == 0 ? h : funnel_right(y, z, bits),
  }};
  return joined;
}

// Stores those of a piece's bytes, counted from 0, that are not before `first` and before `behind`.
__device__ __forceinline__ void store_between(u8* to, const Piece<16>& piece, int first, int behind) {
  if (first <= 0 && behind >= (int)PIECE_BYTES) {
    store16(to, piece);
    return;
  }
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    if (first <= 4 * word && behind >= 4 * word + 4) {
      store<u32>(to + 4 * word, piece.word[word]);
    } else {
#pragma unroll
      for (int byte = 0; byte < 4; ++byte) {
        const int at = 4 * word + byte;
        if (first <= at && at < behind) store<u8>(to + at, piece.word[word] >> (8 * byte) & 0xff);
      }
    }
  }
}

// The rows that a warp is to copy, in shared memory: where each is read (null: skipped) and written.
template <int MOST>
struct Rows {
  const u8* row[MOST];
  u8* output[MOST];
  // What the warp's last lane read in the last step: the first lane's predecessor in the next one.
  u32 carried[4];
};

// Copies the first `count` rows. All lanes of the warp come here together.
template <Hint HINT, int MOST>
__device__ __forceinline__ void copy_rows(const Layout& layout, u32 count, Rows<MOST>& rows) {
  constexpr int DEPTH = UVA_GATHER_WIDE_DEPTH;
  const u32 lane = threadIdx.x % LANES;
  const u32 offset_in_line = lane % PIECES_OF_A_LINE * PIECE_BYTES;
  const u32 group = lane / PIECES_OF_A_LINE;
  Unit unit = {group / layout.lines, group % layout.lines};
  // The first lane's unit is the earliest.
  while (__shfl_sync(ALL_LANES, unit.row, 0) < count) {
    Piece<16> pieces[DEPTH];
    const Unit first_unit = unit;
#pragma unroll
    for (int ahead = 0; ahead < DEPTH; ++ahead) {
      const u64 row = unit.row < count ? reinterpret_cast<u64>(rows.row[unit.row]) : 0;
      const u64 at = row / LINE_BYTES * LINE_BYTES + (u64)unit.line * LINE_BYTES + offset_in_line;
      const bool wanted = row != 0 && at + PIECE_BYTES > row && at < row + layout.row_bytes;
      pieces[ahead] = load_piece<HINT>(reinterpret_cast<const u8*>(at), wanted);
      unit = next_unit(layout, unit);
    }
    // Keeps ptxas from using the first load before it has sent the last (see `load`).
    __syncwarp();
    // The same way again: looking rows up costs less than keeping them in registers.
    unit = first_unit;
#pragma unroll
    for (int ahead = 0; ahead < DEPTH; ++ahead) {
      const u64 row = unit.row < count ? reinterpret_cast<u64>(rows.row[unit.row]) : 0;
      Piece<16> before;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        // From the lane before; the first lane's predecessor is the last lane, one load earlier.
        const u32 last = pieces[ahead == 0 ? 0 : ahead - 1].word[word];
        const u32 given = lane == LANES - 1 ? last : pieces[ahead].word[word];
        before.word[word] = __shfl_sync(ALL_LANES, given, (int)((lane + LANES - 1) % LANES));
        if (ahead == 0 && lane == 0) before.word[word] = rows.carried[word];
      }
      const u64 at = row / LINE_BYTES * LINE_BYTES + (u64)unit.line * LINE_BYTES + offset_in_line;
      // Where in the row this piece begins, from -15 (before its first byte), and how many bytes of it follow.
      const i64 offset = (i64)(at - row);
      const i64 left = (i64)layout.row_bytes - offset;
      if (row != 0 && offset > -(i64)PIECE_BYTES && left > 0) {
        // It goes `back` bytes after the start of an aligned destination piece, which its first bytes complete; the
        // output row has that piece's bytes from `first` to `behind`.
        u8* const destination = rows.output[unit.row] + offset;
        const int back = (int)(reinterpret_cast<u64>(destination) % PIECE_BYTES);
        const int first = offset < (i64)PIECE_BYTES ? back - (int)offset : 0;
        const int behind = back + (left < 2 * PIECE_BYTES ? (int)left : 2 * PIECE_BYTES);
        store_between(destination - back, join(before, pieces[ahead], back), first, behind);
        // No lane after the row's last piece stores the rest of it.
        if (left <= PIECE_BYTES && behind > (int)PIECE_BYTES) {
          const Piece<16> nothing = {{0, 0, 0, 0}};
          store_between(destination - back + PIECE_BYTES, join(pieces[ahead], nothing, back), first - (int)PIECE_BYTES,
                        behind - (int)PIECE_BYTES);
        }
      }
      unit = next_unit(layout, unit);
    }
    __syncwarp();
    if (lane == LANES - 1) {
#pragma unroll
      for (int word = 0; word < 4; ++word) rows.carried[word] = pieces[DEPTH - 1].word[word];
    }
    __syncwarp();
  }
}

template <class Id, Hint HINT>
__device__ __forceinline__ void gather_wide(const GatherArguments& arguments) {
  __shared__ Rows<LANES> of_warp[UVA_GATHER_BLOCK_THREADS / LANES];
  Rows<LANES>& rows = of_warp[threadIdx.x / LANES];
  const Layout layout = layout_of(arguments.table, arguments.row_bytes);
  const u32 lane = threadIdx.x % LANES;
  const u32 at_once = rows_per_take(arguments.count);
  for (;;) {
    const Take take = take_rows(&arguments.report->next, at_once, arguments.count, arguments.report);
    if (take.count == 0) break;
    if (lane < take.count) {
      const u64 position = visited(arguments, take.first + lane);
      rows.row[lane] = source_of<Id, false>(arguments, position).row;
      rows.output[lane] = arguments.out + position * arguments.row_bytes;
    }
    __syncwarp();
    copy_rows<HINT>(layout, take.count, rows);
    __syncwarp();
  }
}

// Hits and misses on different warps of one launch: device memory answers much sooner than the host, and a warp that
// waited for both would read the cache no faster than the link. Each warp looks for one kind among all positions, which
// it takes from that kind's counter, and then for the other kind, so that none is idle while there is work. What it
// finds it collects until there is a full set to copy, so that few misses among many hits still fill its loads.
template <class Id, Hint HINT>
__device__ __forceinline__ void gather_wide_cached(const GatherArguments& arguments) {
  // Fewer than a set waits already when another take is added.
  __shared__ Rows<2 * LANES> of_warp[UVA_GATHER_BLOCK_THREADS / LANES];
  Rows<2 * LANES>& rows = of_warp[threadIdx.x / LANES];
  const u32 lane = threadIdx.x % LANES;
  const u32 at_once = rows_per_take(arguments.count);
  for (u32 round = 0; round < 2; ++round) {
    const bool hit = (threadIdx.x / LANES + round) % 2 == 1;
    const Layout layout = layout_of(hit ? arguments.cache : arguments.table, arguments.row_bytes);
    u32 found = 0;
    for (;;) {
      u64* const counter = hit ? &arguments.report->next_hit : &arguments.report->next;
      const Take take = take_rows(counter, at_once, arguments.count, arguments.report);
      u64 position = 0;
      Source source = {nullptr, false};
      if (lane < take.count) {
        position = visited(arguments, take.first + lane);
        source = source_of<Id, true>(arguments, position);
      }
      const bool mine = source.row != nullptr && source.hit == hit;
      const u32 votes = __ballot_sync(ALL_LANES, mine);
      if (mine) {
        const u32 at = found + __popc(votes & ((1u << lane) - 1));
        rows.row[at] = source.row;
        rows.output[at] = arguments.out + position * arguments.row_bytes;
      }
      found += __popc(votes);
      if (hit && votes != 0 && lane == 0) atomicAdd(&arguments.report->hits, (u64)__popc(votes));
      __syncwarp();
      // The rest waits for more of its kind, unless there are none.
      if (found >= at_once || (take.count == 0 && found != 0)) {
        const u32 now = found < LANES ? found : LANES;
        copy_rows<HINT>(layout, now, rows);
        found -= now;
        // What did not fit moves to the front, once all lanes are done with the entries there.
        __syncwarp();
        if (lane < found) {
          rows.row[lane] = rows.row[LANES + lane];
          rows.output[lane] = rows.output[LANES + lane];
        }
        __syncwarp();
      } else if (take.count == 0) {
        break;
      }
    }
  }
}

}  // namespace uva
