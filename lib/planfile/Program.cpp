#include "lib/planfile/Program.h"

#include <cstring>
#include <new>
#include <stdexcept>

using namespace llmc;
using namespace llmc::planfile;
using support::error;

namespace {

// Returns whether the elements are aligned: FlatBuffers' verifier checks the alignment of fields,
// not that of a vector's elements. Covers every [long] of plan.fbs.
bool isAligned(const flatbuffers::Vector<int64_t> *vector) {
  return !vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(int64_t) == 0;
}

// Returns whether `good` holds for all elements of a vector, which may be missing.
template <class T, class F>
bool all(const flatbuffers::Vector<flatbuffers::Offset<T>> *vector, F good) {
  for (flatbuffers::uoffset_t i = 0; vector && i < vector->size(); ++i)
    if (!good(*vector->Get(i)))
      return false;
  return true;
}

bool isAligned(const Instruction &instruction) {
  if (const Launch *launch = instruction.body_as_Launch())
    return all(launch->scalars(), [](const CoordExpr &expr) { return isAligned(expr.coefs()); });
  if (const Matmul *matmul = instruction.body_as_Matmul())
    return isAligned(matmul->a_strides()) && isAligned(matmul->b_strides()) &&
           isAligned(matmul->c_strides()) &&
           (!matmul->routing() || !matmul->routing()->first() || isAligned(matmul->routing()->first()->coefs()));
  return true;
}

bool isAligned(const StateShard &state) {
  return isAligned(state.global_shape()) && isAligned(state.local_shape()) &&
         (!state.view() || isAligned(state.view()->strides()));
}

bool isAligned(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>> *tensors) {
  return all(tensors, [](const TensorInfo &tensor) { return isAligned(tensor.shape()); });
}

bool isAligned(const Program &program) {
  return all(program.sources(),
             [](const SourceTensor &s) {
               return isAligned(s.shape()) && (!s.scales() || isAligned(s.scales()->block()));
             }) &&
         all(program.origins(), [](const Origin &o) { return isAligned(o.tensors()); }) &&
         all(program.ops(),
             [](const OpInfo &o) { return isAligned(o.operands()) && isAligned(o.results()); }) &&
         all(program.inputs(),
             [](const InputBinding &i) {
               return isAligned(i.local_shape()) && isAligned(i.global_shape());
             }) &&
         all(program.stages(), [](const Stage &stage) {
           return all(stage.states(), [](const StateShard &s) { return isAligned(s); }) &&
                  all(stage.results(),
                      [](const OutputBinding &o) {
                        return isAligned(o.global_shape()) && isAligned(o.local_shape());
                      }) &&
                  all(stage.procedures(), [](const Procedure &procedure) {
                    return all(procedure.instructions(),
                               [](const Instruction &i) { return isAligned(i); });
                  });
         });
}

// Returns the version of a plan file that was not verified, or 0 if none can be read. It is the
// first field of the root table, in every version.
uint32_t versionOf(std::string_view bytes) {
  auto scalar = [&]<class T>(uint64_t at, T) -> std::optional<uint64_t> {
    T value;
    // Subtracts from the size, because a sum with a place before the file wraps around.
    if (at > bytes.size() || bytes.size() - at < sizeof(T))
      return std::nullopt;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  };
  constexpr uint64_t prefix = sizeof(flatbuffers::uoffset_t);
  auto root = scalar(prefix, uint32_t());
  auto back = root ? scalar(prefix + *root, int32_t()) : std::nullopt;
  if (!back)
    return 0;
  uint64_t table = prefix + *root, fields = table - *back;
  auto size = scalar(fields, uint16_t()), place = scalar(fields + 4, uint16_t());
  if (!size || *size < 6 || !place)
    return 0;
  auto version = *place ? scalar(table + *place, uint32_t()) : std::optional<uint64_t>(1);
  return version ? static_cast<uint32_t>(*version) : 0;
}

support::Error otherVersion(uint32_t version) {
  return error("plan: version ", version, ", this program reads version ", kPlanVersion,
               "; compile the model again");
}

} // namespace

std::string planfile::writeProgram(const ProgramT &program) {
  flatbuffers::FlatBufferBuilder builder(1 << 20);
  // Writes the size in front, so that a truncated file is detected.
  builder.FinishSizePrefixed(Program::Pack(builder, &program), ProgramIdentifier());
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
}

support::Result<std::unique_ptr<ProgramT>> planfile::readProgram(std::string_view bytes) {
  // Copies the bytes to aligned memory, for the verifier checks alignment of addresses.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty())
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto *data = reinterpret_cast<const uint8_t *>(aligned.data());
  constexpr size_t smallest = 16;
  if (bytes.size() < smallest || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return error("plan: ", bytes.size(), " bytes are no plan file");
  if (!flatbuffers::BufferHasIdentifier(data, ProgramIdentifier(), /*size_prefixed=*/true))
    return error("plan: not a plan file (identifier 'LLMC' not found)");
  // Bounds the tables: one that is not shared takes at least 8 bytes, so more of them mean that
  // the file refers to one table many times, which writeProgram() never does.
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 16);
  flatbuffers::Verifier verifier(data, bytes.size(), options);
  if (flatbuffers::ReadScalar<flatbuffers::uoffset_t>(data) !=
          bytes.size() - sizeof(flatbuffers::uoffset_t) ||
      !VerifySizePrefixedProgramBuffer(verifier)) {
    // Names the version first: a plan of another version may look damaged.
    if (uint32_t version = versionOf(bytes); version && version < 1000 && version != kPlanVersion)
      return otherVersion(version);
    return error("plan: damaged or truncated (", bytes.size(), " bytes)");
  }
  const Program *packed = GetSizePrefixedProgram(data);
  if (!isAligned(*packed))
    return error("plan: damaged (a list is not aligned)");
  if (packed->version() != kPlanVersion)
    return otherVersion(packed->version());
  try {
    std::unique_ptr<ProgramT> program(packed->UnPack());
    if (support::Status status = checkBounds(*program); !status)
      return status.takeError();
    return program;
  } catch (const std::bad_alloc &) {
    return error("plan: too large for this machine's memory");
  } catch (const std::length_error &) {
    return error("plan: a list in it is too long");
  }
}

uint64_t planfile::byteSize(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::I1:
  case DType::U8:
    return 1;
  }
  return 1;
}

uint32_t planfile::rankCount(const MeshT &mesh) {
  uint32_t count = 1;
  for (const auto &axis : mesh.axes)
    count *= axis->size;
  return count;
}

std::vector<uint32_t> planfile::coordinateOf(const MeshT &mesh, uint32_t rank) {
  std::vector<uint32_t> coordinate(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    coordinate[i] = rank % mesh.axes[i]->size;
    rank /= mesh.axes[i]->size;
  }
  return coordinate;
}

uint32_t planfile::rankOf(const MeshT &mesh, const std::vector<uint32_t> &coordinate) {
  uint32_t rank = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    rank = rank * mesh.axes[i]->size + coordinate[i];
  return rank;
}

uint32_t planfile::stageOf(const ProgramT &program, uint32_t rank) {
  return coordinateOf(*program.mesh, rank)[program.stage_axis];
}

std::vector<uint32_t> planfile::groupOf(const MeshT &mesh, const CollectiveT &collective,
                                        uint32_t rank) {
  std::vector<uint32_t> coordinate = coordinateOf(mesh, rank);
  std::vector<uint32_t> group;
  if (!collective.members.empty()) {
    for (uint32_t member : collective.members) {
      coordinate[collective.axes[0]] = member;
      group.push_back(rankOf(mesh, coordinate));
    }
    return group;
  }
  size_t count = 1;
  for (uint32_t axis : collective.axes)
    count *= mesh.axes[axis]->size;
  for (size_t index = 0; index < count; ++index) {
    size_t rest = index;
    for (size_t i = collective.axes.size(); i-- > 0;) {
      uint32_t axis = collective.axes[i];
      coordinate[axis] = static_cast<uint32_t>(rest % mesh.axes[axis]->size);
      rest /= mesh.axes[axis]->size;
    }
    group.push_back(rankOf(mesh, coordinate));
  }
  return group;
}

uint64_t planfile::payloadBytes(const MeshT &mesh, const CollectiveT &collective) {
  uint64_t bytes = collective.count * byteSize(collective.dtype);
  if (collective.kind == CollectiveKind::AllReduce ||
      collective.kind == CollectiveKind::Broadcast || collective.kind == CollectiveKind::ExchangeRows)
    return bytes;
  if (!collective.members.empty())
    return bytes * collective.members.size();
  for (uint32_t axis : collective.axes)
    bytes *= mesh.axes[axis]->size;
  return bytes;
}

std::optional<Message> planfile::messageOf(const InstructionT &instruction) {
  auto view = [](const auto &m, bool sends) {
    return Message{sends, m.axis, m.delta, m.channel, m.wrap, m.grouped, &m.parts};
  };
  if (const SendT *send = instruction.body.AsSend())
    return view(*send, true);
  if (const RecvT *recv = instruction.body.AsRecv())
    return view(*recv, false);
  return std::nullopt;
}

uint32_t planfile::peerOf(const MeshT &mesh, uint32_t rank, const Message &message) {
  std::vector<uint32_t> coordinate = coordinateOf(mesh, rank);
  int64_t peer = int64_t(coordinate[message.axis]) + message.delta;
  int64_t size = mesh.axes[message.axis]->size;
  coordinate[message.axis] =
      static_cast<uint32_t>(message.wrap ? (peer % size + size) % size : peer);
  return rankOf(mesh, coordinate);
}

SlotRef planfile::slotOf(const EntryT &entry, uint32_t lane) {
  if (lane == 0 || lane > entry.more.size())
    return SlotRef(entry.pool, entry.micro_batch, entry.slot);
  return entry.more[lane - 1];
}

uint32_t planfile::laneOf(const InstructionT &instruction) {
  const BodyUnion &body = instruction.body;
  if (std::optional<Message> message = messageOf(instruction))
    return message->parts->front()->lane;
  if (const RecordT *record = body.AsRecord())
    return record->lane;
  if (const WaitT *wait = body.AsWait())
    return wait->lane;
  if (const FeedT *feed = body.AsFeed())
    return feed->dst->lane;
  return 0;
}

std::vector<uint32_t> planfile::slotNumbers(const StageT &stage) {
  std::vector<uint32_t> first = {0};
  for (const auto &pool : stage.pools)
    first.push_back(first.back() + pool->slots);
  return first;
}

const ViewT *planfile::viewOf(const StageT &stage, const StateShardT &state) {
  if (state.view)
    return state.view.get();
  for (const auto &other : stage.states)
    if (other->role == StateRole::Parameter && other->name == state.name &&
        other->global_shape == state.global_shape)
      return other->view.get();
  return nullptr;
}

int64_t planfile::evaluate(const CoordExprT &expr, const std::vector<uint32_t> &coordinate) {
  // Computes in unsigned arithmetic: a malformed plan may wrap, which must not be undefined.
  uint64_t value = static_cast<uint64_t>(expr.base);
  for (size_t i = 0; i < expr.coefs.size(); ++i)
    value += static_cast<uint64_t>(expr.coefs[i]) * coordinate[i];
  return static_cast<int64_t>(value);
}

std::string_view planfile::toString(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::Broadcast:
    return "broadcast";
  case CollectiveKind::AllToAll:
  case CollectiveKind::ExchangeRows: // of as many rows as there are
    return "all_to_all";
  }
  return "?";
}

std::string_view planfile::toString(Phase phase) {
  switch (phase) {
  case Phase::Forward:
    return "forward";
  case Phase::Backward:
    return "backward";
  case Phase::Update:
    return "update";
  }
  return "?";
}

std::string_view planfile::toString(Body kind) {
  switch (kind) {
  case Body::NONE:
    return "none";
  case Body::Launch:
    return "launch";
  case Body::Matmul:
    return "matmul";
  case Body::Collective:
    return "collective";
  case Body::Send:
    return "send";
  case Body::Recv:
    return "recv";
  case Body::Copy:
    return "copy";
  case Body::Fill:
    return "fill";
  case Body::Feed:
    return "feed";
  case Body::Record:
    return "record";
  case Body::Wait:
    return "wait";
  }
  return "?";
}

std::string_view planfile::toString(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::F64:
    return "f64";
  case DType::I64:
    return "i64";
  case DType::I32:
    return "i32";
  case DType::I1:
    return "i1";
  case DType::BF16:
    return "bf16";
  case DType::F16:
    return "f16";
  case DType::U8:
    return "u8";
  }
  return "?";
}

std::string_view planfile::toString(StateRole role) {
  switch (role) {
  case StateRole::Parameter:
    return "parameter";
  case StateRole::Master:
    return "master";
  case StateRole::Moment1:
    return "moment1";
  case StateRole::Moment2:
    return "moment2";
  case StateRole::Accumulator:
    return "accumulator";
  }
  return "?";
}

std::string_view planfile::numpyName(DType type) {
  switch (type) {
  case DType::F32:
    return "float32";
  case DType::F64:
    return "float64";
  case DType::F16:
    return "float16";
  case DType::BF16:
    return "bfloat16";
  case DType::I64:
    return "int64";
  case DType::I32:
    return "int32";
  case DType::U8:
    return "uint8";
  case DType::I1:
    return "bool";
  }
  return "?";
}
