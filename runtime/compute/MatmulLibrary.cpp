#include "runtime/compute/MatmulLibrary.h"

#include "lib/support/Error.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <oneapi/dnnl/dnnl.h>

using namespace llmc;
using namespace llmc::runtime;

namespace {

// Holds the functions of oneDNN 2 that are called. Their types come from its header; nothing
// is linked.
struct Functions {
#define LLMC_DNNL_FUNCTIONS(F)                                                                   \
  F(dnnl_version)                                                                                \
  F(dnnl_get_effective_cpu_isa)                                                                  \
  F(dnnl_engine_create)                                                                          \
  F(dnnl_engine_destroy)                                                                         \
  F(dnnl_stream_create)                                                                          \
  F(dnnl_stream_destroy)                                                                         \
  F(dnnl_memory_desc_init_by_strides)                                                            \
  F(dnnl_memory_desc_get_size)                                                                   \
  F(dnnl_memory_create)                                                                          \
  F(dnnl_memory_destroy)                                                                         \
  F(dnnl_memory_set_data_handle)                                                                 \
  F(dnnl_matmul_desc_init)                                                                       \
  F(dnnl_primitive_attr_create)                                                                  \
  F(dnnl_primitive_attr_destroy)                                                                 \
  F(dnnl_primitive_attr_set_post_ops)                                                            \
  F(dnnl_primitive_attr_set_scratchpad_mode)                                                     \
  F(dnnl_post_ops_create)                                                                        \
  F(dnnl_post_ops_destroy)                                                                       \
  F(dnnl_post_ops_append_sum)                                                                    \
  F(dnnl_primitive_desc_create)                                                                  \
  F(dnnl_primitive_desc_destroy)                                                                 \
  F(dnnl_primitive_desc_query)                                                                   \
  F(dnnl_primitive_desc_query_md)                                                                \
  F(dnnl_primitive_create)                                                                       \
  F(dnnl_primitive_destroy)                                                                      \
  F(dnnl_primitive_execute)                                                                      \
  F(dnnl_sgemm)
#define F(name) decltype(&::name) name = nullptr;
  LLMC_DNNL_FUNCTIONS(F)
#undef F
};

// Holds a primitive with the descriptors of its arguments.
struct Product {
  dnnl_primitive_t primitive = nullptr;
  dnnl_memory_desc_t a{}, b{}, c{}, scratch{};
  size_t scratchBytes = 0;
};

// Holds what one thread needs to run any product.
struct Context {
  dnnl_stream_t stream = nullptr;
  std::vector<std::byte> scratch;
  struct Memories {
    dnnl_memory_t a = nullptr, b = nullptr, c = nullptr, scratch = nullptr;
  };
  std::vector<Memories> memories; // by product
  bool oneThread = false;         // this thread has called setThreads(1)
};

constexpr size_t kScratchAlign = 64;

} // namespace

struct MatmulLibrary::Impl {
  Functions f;
  void (*setThreads)(int) = nullptr; // omp_set_num_threads of the OpenMP that oneDNN uses
  dnnl_engine_t engine = nullptr;
  std::string version;
  bool hasBfloat = false; // the processor multiplies bfloat16
  std::vector<Product> products;
  std::map<MatmulShape, int> ids;
  std::vector<Context> contexts;

  bool make(const MatmulShape &shape, Product &product);
  bool describe(dnnl_memory_desc_t &desc, planfile::DType type, int64_t batch, int64_t rows,
                int64_t columns, const int64_t (&strides)[3]) const;
  bool memoriesFor(Context &context, int id);
  void limitToCaller(Context &context) const;
};

std::unique_ptr<MatmulLibrary> MatmulLibrary::open(std::string &why) {
  void *handle = ::dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    why = "oneDNN (libdnnl.so.2) is not installed";
    return nullptr;
  }
  auto impl = std::make_unique<Impl>();
  bool complete = true;
#define F(name)                                                                                  \
  impl->f.name = reinterpret_cast<decltype(impl->f.name)>(::dlsym(handle, #name));              \
  complete = complete && impl->f.name;
  LLMC_DNNL_FUNCTIONS(F)
#undef F
  // Limits each call of the library to its calling thread, since the runtime has threads of
  // its own.
  impl->setThreads =
      reinterpret_cast<void (*)(int)>(::dlsym(handle, "omp_set_num_threads"));
  if (!complete || impl->f.dnnl_version()->major != 2) {
    why = "libdnnl.so.2 is not oneDNN 2";
    return nullptr;
  }
  if (impl->setThreads)
    impl->setThreads(1);
  if (impl->f.dnnl_engine_create(&impl->engine, dnnl_cpu, 0) != dnnl_success) {
    why = "oneDNN refuses this processor";
    return nullptr;
  }
  impl->hasBfloat = (impl->f.dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
                    dnnl_cpu_isa_avx512_core_bf16;
  const dnnl_version_t *v = impl->f.dnnl_version();
  impl->version = support::text(v->major, ".", v->minor, ".", v->patch);
  return std::unique_ptr<MatmulLibrary>(new MatmulLibrary(std::move(impl)));
}

MatmulLibrary::MatmulLibrary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MatmulLibrary::~MatmulLibrary() {
  const Functions &f = impl_->f;
  for (Context &context : impl_->contexts) {
    for (Context::Memories &m : context.memories)
      for (dnnl_memory_t memory : {m.a, m.b, m.c, m.scratch})
        if (memory)
          f.dnnl_memory_destroy(memory);
    f.dnnl_stream_destroy(context.stream);
  }
  for (Product &product : impl_->products)
    f.dnnl_primitive_destroy(product.primitive);
  f.dnnl_engine_destroy(impl_->engine);
}

const std::string &MatmulLibrary::version() const { return impl_->version; }

bool MatmulLibrary::Impl::describe(dnnl_memory_desc_t &desc, planfile::DType type, int64_t batch,
                             int64_t rows, int64_t columns, const int64_t (&strides)[3]) const {
  // Passes a batch stride of 0, which repeats one matrix, as a batch of 1, as oneDNN expects.
  if (strides[0] == 0)
    batch = 1;
  // Passes the dense stride for a dim of size 1: the stride has no meaning there, but oneDNN
  // reads it when it picks an implementation.
  int64_t column = columns > 1 || rows == 1 ? strides[2] : 1;
  if (columns == 1 && rows == 1)
    column = 1;
  int64_t row = rows > 1 ? strides[1] : std::max<int64_t>(columns * column, 1);
  if (columns == 1)
    column = row == 1 ? rows : 1;
  int64_t step = batch > 1 ? strides[0] : std::max(rows * row, columns * column);
  dnnl_dims_t sizes = {batch, rows, columns}, steps = {step, row, column};
  return f.dnnl_memory_desc_init_by_strides(&desc, 3, sizes, type == planfile::DType::BF16 ? dnnl_bf16 : dnnl_f32,
                                           steps) == dnnl_success;
}

std::string MatmulLibrary::whyNot(planfile::DType type) const {
  if (type == planfile::DType::F32)
    return "";
  // Refuses what oneDNN emulates, at a third of the speed of its float32 products.
  if (type == planfile::DType::BF16)
    return impl_->hasBfloat ? "" : "no avx512_bf16 here";
  return support::text("oneDNN 2 has no ", toString(type));
}

bool MatmulLibrary::Impl::make(const MatmulShape &s, Product &product) {
  if (!describe(product.a, s.aType, s.batch, s.m, s.k, s.a) ||
      !describe(product.b, s.bType, s.batch, s.k, s.n, s.b) ||
      !describe(product.c, s.cType, s.batch, s.m, s.n, s.c))
    return false;
  dnnl_matmul_desc_t desc;
  if (f.dnnl_matmul_desc_init(&desc, &product.a, &product.b, nullptr, &product.c) != dnnl_success)
    return false;
  dnnl_primitive_attr_t attr = nullptr;
  dnnl_post_ops_t ops = nullptr;
  dnnl_primitive_desc_t made = nullptr;
  const char *info = nullptr;
  bool good = f.dnnl_primitive_attr_create(&attr) == dnnl_success &&
              f.dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
                  dnnl_success;
  if (good && s.accumulate)
    good = f.dnnl_post_ops_create(&ops) == dnnl_success &&
           f.dnnl_post_ops_append_sum(ops, 1.0f) == dnnl_success &&
           f.dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
  good = good &&
         f.dnnl_primitive_desc_create(&made, &desc, attr, engine, nullptr) == dnnl_success &&
         f.dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &info) == dnnl_success;
  // Refuses the reference implementation, which is slower than our own kernel.
  good = good && info && std::strncmp(info, "ref", 3) != 0;
  if (good) {
    const dnnl_memory_desc_t *scratch =
        f.dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
    if (scratch) {
      product.scratch = *scratch;
      product.scratchBytes = f.dnnl_memory_desc_get_size(scratch);
    }
    good = f.dnnl_primitive_create(&product.primitive, made) == dnnl_success;
  }
  if (made)
    f.dnnl_primitive_desc_destroy(made);
  if (ops)
    f.dnnl_post_ops_destroy(ops);
  if (attr)
    f.dnnl_primitive_attr_destroy(attr);
  return good;
}

int MatmulLibrary::prepare(const MatmulShape &shape) {
  auto [at, isNew] = impl_->ids.try_emplace(shape, -1);
  if (!isNew)
    return at->second;
  Product product;
  bool known = whyNot(shape.aType).empty() && whyNot(shape.bType).empty() &&
               whyNot(shape.cType).empty();
  if (known && impl_->make(shape, product)) {
    at->second = static_cast<int>(impl_->products.size());
    impl_->products.push_back(product);
  }
  return at->second;
}

size_t MatmulLibrary::scratchBytes() const {
  size_t most = 0;
  for (const Product &product : impl_->products)
    most = std::max(most, product.scratchBytes);
  return most;
}

void MatmulLibrary::finish(unsigned threads) {
  size_t scratch = scratchBytes();
  impl_->contexts.resize(threads);
  for (Context &context : impl_->contexts) {
    impl_->f.dnnl_stream_create(&context.stream, impl_->engine, dnnl_stream_default_flags);
    context.scratch.resize(scratch + kScratchAlign);
    context.memories.resize(impl_->products.size());
  }
}

bool MatmulLibrary::Impl::memoriesFor(Context &context, int id) {
  const Product &product = products[id];
  Context::Memories &m = context.memories[id];
  auto address = reinterpret_cast<uintptr_t>(context.scratch.data());
  void *scratch = reinterpret_cast<void *>((address + kScratchAlign - 1) / kScratchAlign *
                                           kScratchAlign);
  auto make = [&](dnnl_memory_t &memory, const dnnl_memory_desc_t &desc, void *data) {
    return f.dnnl_memory_create(&memory, &desc, engine, data) == dnnl_success;
  };
  return make(m.a, product.a, DNNL_MEMORY_NONE) && make(m.b, product.b, DNNL_MEMORY_NONE) &&
         make(m.c, product.c, DNNL_MEMORY_NONE) &&
         (product.scratchBytes == 0 || make(m.scratch, product.scratch, scratch));
}

// Keeps the library on the calling thread, which is the only one that uses `context`.
void MatmulLibrary::Impl::limitToCaller(Context &context) const {
  if (context.oneThread)
    return;
  if (setThreads)
    setThreads(1);
  context.oneThread = true;
}

bool MatmulLibrary::execute(int id, unsigned thread, void *a, void *b, void *c) {
  const Functions &f = impl_->f;
  Context &context = impl_->contexts[thread];
  impl_->limitToCaller(context);
  Context::Memories &m = context.memories[id];
  if (!m.a && !impl_->memoriesFor(context, id))
    return false;
  if (f.dnnl_memory_set_data_handle(m.a, a) != dnnl_success ||
      f.dnnl_memory_set_data_handle(m.b, b) != dnnl_success ||
      f.dnnl_memory_set_data_handle(m.c, c) != dnnl_success)
    return false;
  dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, m.a},
                             {DNNL_ARG_WEIGHTS, m.b},
                             {DNNL_ARG_DST, m.c},
                             {DNNL_ARG_SCRATCHPAD, m.scratch}};
  int count = m.scratch ? 4 : 3;
  return f.dnnl_primitive_execute(impl_->products[id].primitive, context.stream, count, args) ==
         dnnl_success;
}

bool MatmulLibrary::multipliesAnySize(const MatmulShape &s) {
  constexpr auto kFloat = planfile::DType::F32;
  return s.aType == kFloat && s.bType == kFloat && s.cType == kFloat && s.batch == 1 && (s.a[1] == 1 || s.a[2] == 1) &&
         (s.b[1] == 1 || s.b[2] == 1) && s.c[2] == 1;
}

bool MatmulLibrary::multiply(const MatmulShape &s, unsigned thread, const void *a, const void *b, void *c) {
  impl_->limitToCaller(impl_->contexts[thread]);
  // Takes the stride between rows, or columns, for at least their length: that of a single one may be anything.
  char aForm = s.a[2] == 1 ? 'N' : 'T', bForm = s.b[2] == 1 ? 'N' : 'T';
  int64_t aStride = aForm == 'N' ? std::max(s.a[1], s.k) : std::max(s.a[2], s.m);
  int64_t bStride = bForm == 'N' ? std::max(s.b[1], s.n) : std::max(s.b[2], s.k);
  return impl_->f.dnnl_sgemm(aForm, bForm, s.m, s.n, s.k, 1.0f, static_cast<const float *>(a), aStride,
                             static_cast<const float *>(b), bStride, s.accumulate ? 1.0f : 0.0f,
                             static_cast<float *>(c), std::max(s.c[1], s.n)) == dnnl_success;
}

std::vector<MatmulPart> runtime::splitMatmul(MatmulLibrary &library,
                                             const planfile::MatmulT &matmul, unsigned threads) {
  MatmulShape whole;
  whole.aType = matmul.a_type, whole.bType = matmul.b_type, whole.cType = matmul.c_type;
  whole.batch = matmul.batch, whole.m = matmul.m, whole.n = matmul.n, whole.k = matmul.k;
  std::copy_n(matmul.a_strides.begin(), 3, whole.a);
  std::copy_n(matmul.b_strides.begin(), 3, whole.b);
  std::copy_n(matmul.c_strides.begin(), 3, whole.c);
  whole.accumulate = matmul.accumulate;
  // oneDNN needs contiguous rows of C: transpose the product where the columns are
  // contiguous.
  bool swapped = whole.c[1] == 1 && (whole.c[2] != 1 || whole.n == 1);
  if (swapped) {
    std::swap(whole.m, whole.n);
    std::swap(whole.aType, whole.bType);
    for (int i = 0; i < 3; ++i)
      std::swap(whole.a[i], whole.b[i]);
    for (int64_t(*strides)[3] : {&whole.a, &whole.b, &whole.c})
      std::swap((*strides)[1], (*strides)[2]);
  }

  // Cuts the batch if it has at least one matrix a thread, else the longer side of C, in
  // multiples of the block sizes of the library's inner loops.
  constexpr double kLeastFlops = 1e6; // about 10 us on one core: not worth a cut
  constexpr int64_t kRows = 16, kColumns = 64;
  double flops = 2.0 * double(whole.batch) * double(whole.m) * double(whole.n) * double(whole.k);
  int64_t size = 1, grain = 1;
  int64_t MatmulShape::*cut = nullptr;
  if (threads > 1 && flops >= kLeastFlops) {
    if (whole.batch >= threads)
      cut = &MatmulShape::batch, size = whole.batch;
    else if (whole.m >= whole.n)
      cut = &MatmulShape::m, size = whole.m, grain = kRows;
    else
      cut = &MatmulShape::n, size = whole.n, grain = kColumns;
  }
  int64_t step = size;
  if (cut)
    step = ((size + threads - 1) / threads + grain - 1) / grain * grain;

  std::vector<MatmulPart> parts;
  for (int64_t begin = 0; begin < size; begin += step) {
    MatmulShape part = whole;
    MatmulPart made;
    made.swapped = swapped;
    auto first = static_cast<uint64_t>(begin);
    if (cut)
      part.*cut = std::min(step, size - begin);
    if (cut == &MatmulShape::batch)
      made.a = first * whole.a[0], made.b = first * whole.b[0], made.c = first * whole.c[0];
    else if (cut == &MatmulShape::m)
      made.a = first * whole.a[1], made.c = first * whole.c[1];
    else if (cut == &MatmulShape::n)
      made.b = first * whole.b[2], made.c = first * whole.c[2];
    made.id = library.prepare(part);
    if (made.id < 0)
      return {};
    parts.push_back(made);
  }
  return parts;
}
