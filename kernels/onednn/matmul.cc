// The only file that knows oneDNN's interface, 2.6 and 3.x.
#include "kernels/onednn/matmul.h"

#include <dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "kernels/onednn/engine.h"

namespace veneer::kernels::onednn {
namespace {

constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr dnnl::memory::dim kAny = DNNL_RUNTIME_DIM_VAL;

dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                      const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

}  // namespace

struct Matmul::State {
  Shape shape;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::memory::desc b, scratch;
  dnnl::matmul primitive;
  std::uint64_t scratch_bytes = 0;
};

Matmul::Matmul(std::unique_ptr<State> state) : state_(std::move(state)) {}
Matmul::~Matmul() = default;

std::unique_ptr<Matmul> Matmul::Create(const Shape& shape) {
  const OneThread one_thread;  // a primitive remembers the number of threads it was created for
  try {
    auto state = std::make_unique<State>();
    state->shape = shape;
    const auto k = static_cast<dnnl::memory::dim>(shape.k), n = static_cast<dnnl::memory::dim>(shape.n);
    const dnnl::memory::desc a({kAny, k}, kF32, dnnl::memory::dims{kAny, 1});
    const dnnl::memory::desc c({kAny, n}, kF32, dnnl::memory::dims{kAny, 1});
    state->b = dnnl::memory::desc({k, n}, kF32, shape.b_is_transposed ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // the library's own is not safe across threads
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);        // an environment variable changes the default
    if (shape.accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0F);
      attributes.set_post_ops(ops);
    }
    const dnnl::matmul::primitive_desc description = Describe(state->engine, a, state->b, c, attributes);
    state->scratch = description.scratchpad_desc();
    state->scratch_bytes = state->scratch.get_size();
    state->primitive = dnnl::matmul(description);
    return std::unique_ptr<Matmul>(new Matmul(std::move(state)));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

std::uint64_t Matmul::scratch_bytes() const { return state_->scratch_bytes; }

bool Matmul::Run(std::uint32_t tokens, const float* a, std::uint64_t a_stride, const float* b, float* c, std::uint64_t c_stride,
                 void* scratch) const {
  const OneThread one_thread;
  const Shape& shape = state_->shape;
  try {
    const auto m = static_cast<dnnl::memory::dim>(tokens), k = static_cast<dnnl::memory::dim>(shape.k),
               n = static_cast<dnnl::memory::dim>(shape.n);
    const dnnl::memory::desc a_desc({m, k}, kF32, dnnl::memory::dims{static_cast<dnnl::memory::dim>(a_stride), 1});
    const dnnl::memory::desc c_desc({m, n}, kF32, dnnl::memory::dims{static_cast<dnnl::memory::dim>(c_stride), 1});
    dnnl::stream stream(state_->engine);
    state_->primitive.execute(stream, {{DNNL_ARG_SRC, {a_desc, state_->engine, const_cast<float*>(a)}},
                                       {DNNL_ARG_WEIGHTS, {state_->b, state_->engine, const_cast<float*>(b)}},
                                       {DNNL_ARG_DST, {c_desc, state_->engine, c}},
                                       {DNNL_ARG_SCRATCHPAD, {state_->scratch, state_->engine, scratch}}});
    stream.wait();
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace veneer::kernels::onednn
