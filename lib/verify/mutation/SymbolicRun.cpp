// Executes instructions on hashed expressions, in an order that OrderGraph allows.
#include "lib/verify/mutation/SymbolicRun.h"

#include "lib/verify/mutation/OrderGraph.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace llmc::verify {

using namespace planfile;

namespace {

constexpr unsigned kSteps = 2; // The second step starts from what the first left behind.

// Identifies an expression by its hash.
using Symbol = uint64_t;
constexpr Symbol kZero = 0; // symbol of all bytes that a fill wrote

Symbol mix(Symbol a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
  a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9ull;
  a = (a ^ (a >> 27)) * 0x94d049bb133111ebull;
  return (a ^ (a >> 31)) | 1; // never kZero
}
Symbol mix(Symbol a, std::string_view text) {
  for (char c : text)
    a = mix(a, static_cast<unsigned char>(c));
  return mix(a, text.size());
}

// Refers to bytes [begin, begin + size) of the value of a symbol.
struct Piece {
  Symbol symbol = kZero;
  uint64_t begin = 0, size = 0;
};
using Pieces = std::vector<Piece>;

void append(Pieces &pieces, Piece piece) {
  if (piece.symbol == kZero)
    piece.begin = 0;
  if (piece.size == 0)
    return;
  if (!pieces.empty()) {
    Piece &last = pieces.back();
    bool goesOn = last.symbol == piece.symbol &&
                  (piece.symbol == kZero || last.begin + last.size == piece.begin);
    if (goesOn) {
      last.size += piece.size;
      return;
    }
  }
  pieces.push_back(piece);
}

Symbol hashOf(const Pieces &pieces) {
  Symbol hash = 1;
  for (const Piece &piece : pieces)
    hash = mix(mix(mix(hash, piece.symbol), piece.begin), piece.size);
  return hash;
}

Pieces cut(const Pieces &pieces, uint64_t begin, uint64_t size) {
  Pieces result;
  uint64_t at = 0;
  for (const Piece &piece : pieces) {
    uint64_t from = std::max(at, begin), to = std::min(at + piece.size, begin + size);
    if (from < to)
      append(result, {piece.symbol, piece.begin + (from - at), to - from});
    at += piece.size;
  }
  return result;
}

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>; // executions: earlier, later

// Represents the arena of one rank: what each byte holds, its last writer and the readers since.
class Memory {
public:
  Memory(Symbol what, uint64_t size) { cells[0] = {size, {what, 0, size}, -1, {}}; }

  // Sets bytes that no instruction writes.
  void set(const BufferRefT &at, Symbol symbol) {
    overwrite(at.offset, {{symbol, 0, at.size}}, -1);
  }

  Pieces read(uint64_t begin, uint64_t size, int64_t who, Pairs &pairs) {
    Pieces result;
    forEach(begin, size, [&](Cell &cell) {
      append(result, cell.piece);
      if (who < 0)
        return;
      if (cell.writer >= 0 && cell.writer != who)
        pairs.push_back({static_cast<uint32_t>(cell.writer), static_cast<uint32_t>(who)});
      cell.readers.push_back(static_cast<uint32_t>(who));
    });
    return result;
  }

  void write(uint64_t begin, const Pieces &pieces, uint32_t who, Pairs &pairs) {
    uint64_t size = 0;
    for (const Piece &piece : pieces)
      size += piece.size;
    forEach(begin, size, [&](Cell &cell) {
      if (cell.writer >= 0 && cell.writer != who)
        pairs.push_back({static_cast<uint32_t>(cell.writer), who});
      for (uint32_t reader : cell.readers)
        if (reader != who)
          pairs.push_back({reader, who});
    });
    overwrite(begin, pieces, who);
  }

private:
  struct Cell {
    uint64_t end = 0;
    Piece piece;
    int64_t writer = -1;
    std::vector<uint32_t> readers;
  };

  void splitAt(uint64_t at) {
    auto it = cells.upper_bound(at);
    if (it == cells.begin())
      return;
    auto &[begin, cell] = *--it;
    if (begin == at || cell.end <= at)
      return;
    Cell right = cell;
    right.piece.begin += right.piece.symbol == kZero ? 0 : at - begin;
    right.piece.size = right.end - at;
    cell.end = at;
    cell.piece.size = at - begin;
    cells[at] = std::move(right);
  }

  template <class F>
  void forEach(uint64_t begin, uint64_t size, F f) {
    if (size == 0)
      return;
    splitAt(begin);
    splitAt(begin + size);
    for (auto it = cells.find(begin); it != cells.end() && it->first < begin + size; ++it)
      f(it->second);
  }

  void overwrite(uint64_t begin, const Pieces &pieces, int64_t who) {
    uint64_t size = 0;
    for (const Piece &piece : pieces)
      size += piece.size;
    if (size == 0)
      return;
    splitAt(begin);
    splitAt(begin + size);
    cells.erase(cells.find(begin), cells.lower_bound(begin + size));
    for (const Piece &piece : pieces) {
      cells[begin] = {begin + piece.size, piece, who, {}};
      begin += piece.size;
    }
  }

  std::map<uint64_t, Cell> cells; // by first byte; they cover the arena without gaps
};

class Machine {
public:
  explicit Machine(const ProgramT &program) : program(program), graph(program, kSteps) {}

  SymbolicRun run() {
    SymbolicRun result;
    result.fault = graph.fault();
    if (!result.fault.empty())
      return result;
    uint32_t ranks = rankCount(*program.mesh);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      memories.emplace_back(mix(1, rank), stageAt(rank).arena_bytes);
    taken.resize(graph.executions().size());
    meetingsDone.assign(graph.collectiveGroups().size(), {});
    int64_t step = -1;
    auto enter = [&](uint32_t next) {
      for (; step < next; ++step) {
        if (step >= 0)
          see(result.values);
        setScalars(static_cast<uint64_t>(step + 1));
      }
    };
    graph.forEach(
        [&](uint32_t n) {
          enter(graph.executions()[n].step);
          begin(n);
        },
        [&](uint32_t n) { end(n); });
    see(result.values);
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    if (graph.firstUnordered(pairs) >= 0)
      result.fault = "two accesses to one byte are not ordered";
    return result;
  }

private:
  const StageT &stageAt(uint32_t rank) const { return *program.stages[stageOf(program, rank)]; }

  void setScalars(uint64_t step) {
    for (uint32_t rank = 0; rank < memories.size(); ++rank)
      for (const auto &scalar : stageAt(rank).host_scalars)
        memories[rank].set(*scalar->buffer, mix(mix(mix(2, step), scalar->name), rank));
  }

  void see(std::vector<uint64_t> &values) {
    Pairs none;
    for (uint32_t rank = 0; rank < memories.size(); ++rank) {
      const StageT &stage = stageAt(rank);
      auto add = [&](const BufferRefT &at) {
        values.push_back(hashOf(memories[rank].read(at.offset, at.size, -1, none)));
      };
      for (const auto &state : stage.states)
        add(*state->buffer);
      for (const auto &output : stage.outputs)
        add(*output->buffer);
      for (const auto &one : stage.results)
        add(*one->buffer);
    }
  }

  uint64_t placeOf(uint32_t n, const BufferRefT &at) const {
    const Execution &who = graph.executions()[n];
    return at.offset + (at.slot_stride ? slotOf(*who.entry, at.lane).slot() * at.slot_stride : 0);
  }
  Pieces read(uint32_t n, const BufferRefT &at) {
    return memories[graph.executions()[n].rank].read(placeOf(n, at), at.size, n, pairs);
  }
  void write(uint32_t n, const BufferRefT &at, const Pieces &pieces) {
    memories[graph.executions()[n].rank].write(placeOf(n, at), cut(pieces, 0, at.size), n, pairs);
  }

  // Reads what a send or collective takes from a rank, as its instruction begins.
  void begin(uint32_t n) {
    const BodyUnion &body = graph.executions()[n].instruction->body;
    if (const SendT *send = body.AsSend())
      for (const auto &part : send->parts)
        taken[n].push_back(read(n, *part));
    else if (const CollectiveT *collective = body.AsCollective()) {
      taken[n].push_back(read(n, *collective->src));
      if (collective->rows)
        for (const auto *counts : {&collective->rows->sent, &collective->rows->received})
          taken[n].push_back(read(n, **counts));
    }
  }

  void end(uint32_t n) {
    const Execution &who = graph.executions()[n];
    const BodyUnion &body = who.instruction->body;
    if (const LaunchT *launch = body.AsLaunch())
      return execute(n, *launch);
    if (const MatmulT *matmul = body.AsMatmul())
      return execute(n, *matmul);
    if (const CollectiveT *collective = body.AsCollective())
      return write(n, *collective->dst, received(n, *collective));
    if (const RecvT *recv = body.AsRecv()) {
      for (size_t i = 0; i < recv->parts.size(); ++i)
        write(n, *recv->parts[i], taken[who.partner][i]);
    } else if (const CopyT *copy = body.AsCopy()) {
      write(n, *copy->dst, read(n, *copy->src));
    } else if (const FillT *fill = body.AsFill()) {
      write(n, *fill->dst, {{kZero, 0, fill->dst->size}});
    } else if (const FeedT *feed = body.AsFeed()) {
      write(n, *feed->dst, {{fed(who, *feed), 0, feed->dst->size}});
    }
  }

  // Returns the symbol of a micro-batch's rows that this rank is fed.
  Symbol fed(const Execution &who, const FeedT &feed) const {
    const InputBindingT &input = *program.inputs[feed.input];
    std::vector<uint32_t> coordinate = coordinateOf(*program.mesh, who.rank);
    Symbol symbol = mix(mix(3, who.step), feed.input);
    symbol = mix(symbol, slotOf(*who.entry, feed.dst->lane).micro_batch());
    for (uint32_t axis : input.batch_axes)
      symbol = mix(symbol, coordinate[axis]);
    for (const auto &dim : input.dims)
      for (uint32_t axis : dim->axes)
        symbol = mix(symbol, coordinate[axis]);
    return symbol;
  }

  void execute(uint32_t n, const LaunchT &launch) {
    std::vector<uint32_t> coordinate = coordinateOf(*program.mesh, graph.executions()[n].rank);
    Symbol symbol = mix(mix(4, launch.kernel), static_cast<uint64_t>(launch.rows));
    for (const auto &scalar : launch.scalars)
      symbol = mix(symbol, static_cast<uint64_t>(evaluate(*scalar, coordinate)));
    for (const auto &operand : launch.operands) {
      unsigned access = static_cast<unsigned>(operand->access);
      symbol = mix(mix(symbol, access), operand->buffer->size);
      if (access & 1)
        symbol = mix(symbol, hashOf(read(n, *operand->buffer)));
    }
    for (size_t i = 0; i < launch.operands.size(); ++i)
      if (static_cast<unsigned>(launch.operands[i]->access) & 2)
        write(n, *launch.operands[i]->buffer,
              {{mix(symbol, i), 0, launch.operands[i]->buffer->size}});
  }

  void execute(uint32_t n, const MatmulT &matmul) {
    Symbol symbol = mix(5, matmul.fallback);
    for (DType type : {matmul.a_type, matmul.b_type, matmul.c_type})
      symbol = mix(symbol, static_cast<uint64_t>(type));
    for (int64_t size : {matmul.batch, matmul.m, matmul.n, matmul.k})
      symbol = mix(symbol, static_cast<uint64_t>(size));
    for (const auto *strides : {&matmul.a_strides, &matmul.b_strides, &matmul.c_strides})
      for (int64_t stride : *strides)
        symbol = mix(symbol, static_cast<uint64_t>(stride));
    symbol = mix(symbol, hashOf(read(n, *matmul.a)));
    symbol = mix(symbol, hashOf(read(n, *matmul.b)));
    if (matmul.accumulate)
      symbol = mix(symbol, hashOf(read(n, *matmul.c)));
    if (const RoutingT *routing = matmul.routing.get()) {
      std::vector<uint32_t> coordinate = coordinateOf(*program.mesh, graph.executions()[n].rank);
      symbol = mix(symbol, static_cast<uint64_t>(routing->form));
      for (int64_t value : {routing->a_share, routing->b_share, evaluate(*routing->first, coordinate)})
        symbol = mix(symbol, static_cast<uint64_t>(value));
      symbol = mix(symbol, hashOf(read(n, *routing->routes)));
    }
    write(n, *matmul.c, {{symbol, 0, matmul.c->size}});
  }

  // Returns the reduction of bytes [begin, begin + size) of all members.
  Pieces reduced(const std::vector<uint32_t> &members, const CollectiveT &collective,
                 uint64_t begin, uint64_t size) const {
    if (members.size() == 1)
      return cut(taken[members[0]][0], begin, size);
    Symbol symbol = mix(mix(6, static_cast<uint64_t>(collective.reduce)),
                        static_cast<uint64_t>(collective.dtype));
    for (uint32_t m : members)
      symbol = mix(symbol, hashOf(cut(taken[m][0], begin, size)));
    return {{symbol, 0, size}};
  }

  // Returns what a member gets of the rows of all: which they are depends on all counts.
  Pieces exchanged(uint32_t n, const std::vector<uint32_t> &members, uint64_t index,
                   const CollectiveT &collective) const {
    Symbol symbol = mix(mix(7, index), collective.rows->row);
    for (uint32_t m : members)
      for (size_t part : {0, 1})
        symbol = mix(symbol, hashOf(taken[m][part]));
    return {{mix(symbol, hashOf(taken[n][2])), 0, collective.dst->size}};
  }

  Pieces received(uint32_t n, const CollectiveT &collective) {
    auto meeting = static_cast<size_t>(graph.executions()[n].partner);
    const std::vector<uint32_t> &members = graph.collectiveGroups()[meeting];
    auto index = static_cast<uint64_t>(std::find(members.begin(), members.end(), n) -
                                       members.begin());
    uint64_t bytes = collective.count * byteSize(collective.dtype);
    uint64_t slices = std::max<uint64_t>(1, collective.slices), slice = bytes / slices;
    Pieces result;
    auto add = [&](const Pieces &pieces) {
      for (const Piece &piece : pieces)
        append(result, piece);
    };
    switch (collective.kind) {
    case CollectiveKind::AllReduce:
      if (meetingsDone[meeting].empty())
        meetingsDone[meeting] = reduced(members, collective, 0, bytes);
      return meetingsDone[meeting];
    case CollectiveKind::ReduceScatter:
      for (uint64_t i = 0; i < slices; ++i)
        add(reduced(members, collective, (i * members.size() + index) * slice, slice));
      return result;
    case CollectiveKind::Broadcast:
      return taken[members[0]][0];
    case CollectiveKind::AllGather:
      for (uint64_t i = 0; i < slices; ++i)
        for (uint32_t m : members)
          add(cut(taken[m][0], i * slice, slice));
      return result;
    case CollectiveKind::AllToAll:
      for (uint32_t m : members)
        add(cut(taken[m][0], index * bytes, bytes));
      return result;
    case CollectiveKind::ExchangeRows:
      return exchanged(n, members, index, collective);
    }
    return result;
  }

  const ProgramT &program;
  OrderGraph graph;
  std::vector<Memory> memories;
  std::vector<std::vector<Pieces>> taken; // by execution: what it sends, by part
  std::vector<Pieces> meetingsDone;       // result of an all-reduce, shared by all members
  Pairs pairs;                            // accesses that must be ordered
};

} // namespace

SymbolicRun runSymbolically(const ProgramT &program) { return Machine(program).run(); }

} // namespace llmc::verify
