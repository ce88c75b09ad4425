#define VENEER_STATIC table
#include "tests/plugins/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "kernels/kernels.h"

namespace plugin_test {
namespace {

constexpr std::uint64_t kAlign = 64;

std::uint64_t AlignUp(std::uint64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Floats at a chosen distance from a 64-byte boundary, filled with signalling NaNs.
class Floats {
 public:
  Floats(std::uint64_t n, std::uint64_t offset)
      : data_(static_cast<float*>(std::aligned_alloc(kAlign, AlignUp((n + offset) * 4 + 64)))), offset_(offset) {
    const std::uint32_t poison = 0x7FA00000U;
    for (std::uint64_t i = 0; i < n + offset; ++i) std::memcpy(data_ + i, &poison, 4);
  }
  ~Floats() { std::free(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* get() { return data_ + offset_; }

 private:
  float* data_;
  std::uint64_t offset_;
};

std::uint16_t ToBf16(float value) {  // nearest, ties to even
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace

std::vector<const vnr_entry*> StaticEntries() { return {vnr_static_entries, vnr_static_entries + vnr_static_entry_count}; }

const vnr_kind& StaticKind(const std::string& id) {
  for (const vnr_entry* entry : StaticEntries())
    for (std::uint32_t i = 0; i < entry->n_kinds; ++i)
      if (entry->kinds[i]->id == id) return *entry->kinds[i];
  throw std::out_of_range("no static kind " + id);
}

std::uint64_t AllCpuFeatures() {
  const std::string_view best = veneer::kernels::Runnable().tables[0]->isa;
  if (best == "scalar") return 0;
  return veneer::kernels::kAvx2Features | (best == "avx512" ? std::uint64_t{VNR_CPU_AVX512} : 0);
}

TestHost::TestHost() {
  raw_.struct_size = sizeof raw_;
  raw_.abi_minor = VNR_ABI_MINOR;
  raw_.ctx = this;
  raw_.get_extension = [](const vnr_host*, const char*) -> const void* { return nullptr; };
  raw_.alloc = [](const vnr_host* host, std::uint64_t bytes, std::uint64_t align) -> void* {
    auto& self = *static_cast<TestHost*>(host->ctx);
    if (self.calls_++ == self.fail_at) return nullptr;
    void* data = std::aligned_alloc(std::max(align, kAlign), AlignUp(std::max<std::uint64_t>(bytes, 1)));
    std::memset(data, 0xA5, bytes);
    self.live_[data] = bytes;
    self.live_bytes_ += bytes;
    self.peak_bytes_ = std::max(self.peak_bytes_, self.live_bytes_);
    return data;
  };
  raw_.free = [](const vnr_host* host, void* data) {
    auto& self = *static_cast<TestHost*>(host->ctx);
    self.live_bytes_ -= self.live_.at(data);
    self.live_.erase(data);
    std::free(data);
  };
  raw_.log = [](const vnr_host*, std::uint32_t, const char*, std::uint64_t) {};
  raw_.cancelled = [](const vnr_host* host) -> std::uint32_t {
    auto& self = *static_cast<TestHost*>(host->ctx);
    return self.polls++ >= self.cancel_at ? 1U : 0U;
  };
  raw_.parallel_for = [](const vnr_host*, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* context) -> std::int32_t {
    for (std::uint32_t i = 0; i < n; ++i) fn(context, i);
    return VNR_OK;
  };
  raw_.cpu_features = AllCpuFeatures();
}

Stored Store(std::uint32_t dtype, std::vector<std::uint64_t> dims, const std::vector<double>& values) {
  Stored out{dtype, std::move(dims), {}, {}};
  const std::size_t width = dtype == VNR_F32 ? 4 : 2;
  out.bytes.resize(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (dtype == VNR_F32) {
      std::memcpy(&out.bytes[4 * i], &value, 4);
      out.values.push_back(static_cast<double>(value));
    } else {
      const std::uint16_t half = dtype == VNR_F16 ? veneer::kernels::FloatToHalf(value) : ToBf16(value);
      std::memcpy(&out.bytes[2 * i], &half, 2);
      out.values.push_back(static_cast<double>(dtype == VNR_F16 ? veneer::kernels::HalfToFloat(half) : veneer::kernels::Bf16ToFloat(half)));
    }
  }
  return out;
}

Stored Random(std::mt19937& rng, std::uint32_t dtype, std::vector<std::uint64_t> dims, double magnitude) {
  std::uint64_t n = 1;
  for (const std::uint64_t dim : dims) n *= dim;
  std::normal_distribution<double> normal(0, magnitude);
  std::vector<double> values(n);
  for (double& value : values) value = normal(rng);
  return Store(dtype, std::move(dims), values);
}

std::vector<float> RandomFloats(std::mt19937& rng, std::uint64_t n, double magnitude) {
  std::normal_distribution<double> normal(0, magnitude);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(normal(rng));
  return values;
}

Binding::Binding(TestHost& host, const vnr_kind& kind, const Site& site, const Tensors& tensors, const Params& params)
    : kind_(&kind), site_(site), tensors_(tensors) {
  err_ = {sizeof err_, 0, sizeof text_, 0, text_};
  limits = {sizeof limits, 4, 32, 2, UINT64_MAX};
  const vnr_source none{sizeof(vnr_source), 0, 0, 0, nullptr, nullptr, nullptr};
  if (!Note(kind.open(&kind, host.raw(), &none, &artifact_, &err_))) return;

  // Everything but the tensor bytes dies with this constructor, as ABI.md allows.
  std::vector<std::string> names;
  std::vector<vnr_tensor> views;
  std::vector<std::string> paths;
  std::vector<vnr_param> values;
  for (const auto& [name, tensor] : tensors_) {
    names.push_back(name);
    vnr_tensor& view = views.emplace_back();
    view.struct_size = sizeof view;
    view.dtype = tensor.dtype;
    view.rank = static_cast<std::uint32_t>(tensor.dims.size());
    std::ranges::copy(tensor.dims, view.dims);
    view.data = tensor.bytes.data();
    view.nbytes = tensor.bytes.size();
  }
  for (const auto& [path, value] : params) {
    paths.push_back(path);
    vnr_param& param = values.emplace_back();
    param.struct_size = sizeof param;
    param.type = VNR_PARAM_NUMBER;
    param.d = value;
  }
  std::vector<const char*> role_pointers;
  std::vector<const vnr_tensor*> view_pointers;
  std::vector<const vnr_param*> param_pointers;
  for (const std::string& name : names) role_pointers.push_back(name.c_str());
  for (const vnr_tensor& view : views) view_pointers.push_back(&view);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].path = paths[i].c_str();
    param_pointers.push_back(&values[i]);
  }
  const vnr_source source{sizeof(vnr_source),
                          static_cast<std::uint32_t>(views.size()),
                          static_cast<std::uint32_t>(values.size()),
                          0,
                          role_pointers.data(),
                          view_pointers.data(),
                          param_pointers.data()};
  const std::string id = "model.layers.3.self_attn.q_proj";
  const vnr_site raw{sizeof(vnr_site), 7, site.shape_class, site.flags, id.c_str(), site.out, site.in, 3, UINT32_MAX, 0, VNR_F32};
  Note(kind.bind(artifact_, &raw, &source, &binding_, &err_));
}

Binding::~Binding() {
  if (binding_ != nullptr) kind_->unbind(binding_);
  if (artifact_ != nullptr) kind_->close(artifact_);
}

bool Binding::Note(std::int32_t code) {
  if (code != VNR_OK) failure = {code, std::string(text_, err_.length)};
  return code == VNR_OK;
}

bool Binding::Estimate() {
  cost = {};
  cost.struct_size = sizeof cost;
  return Note(kind_->estimate(binding_, &limits, &cost, &err_));
}

bool Binding::Stage(const std::vector<float>* base) {
  struct Context {
    const std::vector<float>* base;
    std::uint64_t in;
  } context{base, site_.in};
  vnr_base_rows rows{sizeof rows, 0, &context,
                     [](void* raw, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) -> std::int32_t {
                       const auto& from = *static_cast<Context*>(raw);
                       if (from.base == nullptr) return VNR_E_STATE;
                       for (std::uint64_t i = 0; i < n; ++i)
                         std::copy_n(from.base->begin() + static_cast<std::ptrdiff_t>((row + i) * from.in), from.in, dst + i * ld);
                       return VNR_OK;
                     }};
  program = {};
  program.struct_size = sizeof program;
  const bool is_staged = Note(kind_->stage(binding_, &limits, &rows, &program, &err_));
  for (auto& [name, tensor] : tensors_) std::ranges::fill(tensor.bytes, static_cast<unsigned char>(0xFF));
  tensors_.clear();
  return is_staged;
}

std::vector<float> Binding::Weights(std::vector<float> w) const {
  vnr_err err{};
  err.struct_size = sizeof err;
  const bool is_vector = site_.shape_class == VNR_SITE_VECTOR;
  const std::uint64_t rows = is_vector ? 1 : site_.out, ld = is_vector ? site_.out : site_.in;
  for (std::uint64_t row = 0; row < rows;) {  // in uneven pieces
    const std::uint64_t n = std::min<std::uint64_t>(rows - row, 1 + row % 5);
    if (kind_->weight_rows(binding_, row, n, w.data() + row * ld, ld, &err) != VNR_OK) throw std::runtime_error("weight_rows failed");
    row += n;
  }
  return w;
}

std::vector<float> Binding::Bias(std::vector<float> b) const {
  vnr_err err{};
  err.struct_size = sizeof err;
  if (kind_->bias(binding_, b.data(), b.size(), &err) != VNR_OK) throw std::runtime_error("bias failed");
  return b;
}

std::vector<float> TransformX(const Binding& binding, const std::vector<float>& x, std::uint32_t tokens, const Cut& cut) {
  if ((binding.program.flags & VNR_TRANSFORMS_X) == 0) return x;
  const std::uint64_t in = x.size() / tokens, stride = in + cut.padding;
  Floats from(tokens * stride, cut.x_offset), to(tokens * stride, cut.y_offset);
  for (std::uint32_t t = 0; t < tokens; ++t) std::copy_n(x.data() + t * in, in, from.get() + t * stride);
  vnr_io io{};
  io.struct_size = sizeof io;
  io.tokens = tokens;
  io.x = from.get();
  io.x_out = to.get();
  io.x_stride = io.x_out_stride = stride;
  const auto units = static_cast<std::uint32_t>((in + binding.program.transform_unit - 1) / binding.program.transform_unit);
  for (std::uint32_t u = 0; u < units; ++u)
    if (binding.kind().transform(binding.raw(), &io, u, u + 1) != VNR_OK) throw std::runtime_error("transform failed");
  std::vector<float> out(x.size());
  for (std::uint32_t t = 0; t < tokens; ++t) std::copy_n(to.get() + t * stride, in, out.data() + t * in);
  return out;
}

namespace {

std::vector<float> Run(const Binding& binding, const float* x, const std::int32_t* ids, std::uint64_t in, std::uint64_t lanes,
                       const std::vector<float>& y0, std::uint32_t tokens, const Cut& cut) {
  const vnr_program& program = binding.program;
  const std::uint64_t x_stride = in + cut.padding, y_stride = lanes + cut.padding;
  Floats from(x == nullptr ? 1 : tokens * x_stride, cut.x_offset), to(tokens * y_stride, cut.y_offset);
  const std::uint64_t prepared_stride = AlignUp(program.prepared_bytes_per_token) + 64 * (cut.padding % 3);
  Floats prepared(tokens * prepared_stride / 4 + 1, 0), scratch(cut.threads * (program.thread_scratch_bytes / 4 + 16), 0);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    if (x != nullptr) std::copy_n(x + t * in, in, from.get() + t * x_stride);
    std::copy_n(y0.data() + t * lanes, lanes, to.get() + t * y_stride);
  }
  const auto io_at = [&](std::uint32_t t0, std::uint32_t n) {
    vnr_io io{};
    io.struct_size = sizeof io;
    io.tokens = n;
    io.x = x == nullptr ? nullptr : from.get() + t0 * x_stride;
    io.x_stride = x_stride;
    io.y = to.get() + t0 * y_stride;
    io.y_stride = y_stride;
    io.prepared = reinterpret_cast<unsigned char*>(prepared.get()) + t0 * prepared_stride;
    io.prepared_stride = prepared_stride;
    io.ids = ids == nullptr ? nullptr : ids + t0;
    return io;
  };
  const std::uint64_t quantum = program.lane_quantum, tile = (cut.tile + quantum - 1) / quantum * quantum;
  struct Job {
    std::uint32_t t0, tokens;
    std::uint64_t first, last;
  };
  std::vector<Job> units, tiles;
  for (std::uint32_t t0 = 0; t0 < tokens; t0 += cut.tokens_at_once) {
    const std::uint32_t n = std::min(cut.tokens_at_once, tokens - t0);
    for (std::uint64_t u = 0; u < program.prepare_units;) {
      const std::uint64_t last = std::min<std::uint64_t>(program.prepare_units, u + cut.units_at_once);
      units.push_back({t0, n, u, last});
      u = last;
    }
    for (std::uint64_t lane = 0; lane < lanes; lane += tile) tiles.push_back({t0, n, lane, std::min(lane + tile, lanes)});
  }
  if (cut.units_backwards) {
    std::ranges::reverse(units);
    std::ranges::reverse(tiles);
  }
  const auto in_threads = [&](const std::vector<Job>& jobs, const auto& body) {
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < cut.threads; ++thread)
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < jobs.size(); i += cut.threads) body(jobs[i], thread);
      });
    for (std::thread& thread : threads) thread.join();
  };
  in_threads(units, [&](const Job& job, std::uint32_t) {
    const vnr_io io = io_at(job.t0, job.tokens);
    if (binding.kind().prepare(binding.raw(), &io, static_cast<std::uint32_t>(job.first), static_cast<std::uint32_t>(job.last)) != VNR_OK)
      std::abort();
  });
  in_threads(tiles, [&](const Job& job, std::uint32_t thread) {
    vnr_io io = io_at(job.t0, job.tokens);
    io.scratch = scratch.get() + thread * (program.thread_scratch_bytes / 4 + 16);
    if (binding.kind().apply(binding.raw(), &io, job.first, job.last) != VNR_OK) std::abort();
  });
  std::vector<float> out(y0.size());
  for (std::uint32_t t = 0; t < tokens; ++t) std::copy_n(to.get() + t * y_stride, lanes, out.data() + t * lanes);
  return out;
}

}  // namespace

std::vector<float> Apply(const Binding& binding, const std::vector<float>& x, const std::vector<float>& y0, std::uint32_t tokens,
                         const Cut& cut) {
  return Run(binding, x.data(), nullptr, x.size() / tokens, y0.size() / tokens, y0, tokens, cut);
}

std::vector<float> ApplyEmbedding(const Binding& binding, const std::vector<std::int32_t>& ids, const std::vector<float>& rows,
                                  const Cut& cut) {
  return Run(binding, nullptr, ids.data(), 0, rows.size() / ids.size(), rows, static_cast<std::uint32_t>(ids.size()), cut);
}

std::vector<float> BaseProduct(const std::vector<float>& w, const std::vector<float>& x, std::uint64_t out, std::uint64_t in,
                               std::uint32_t tokens) {
  std::vector<float> y(tokens * out);
  for (std::uint32_t t = 0; t < tokens; ++t)
    for (std::uint64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::uint64_t i = 0; i < in; ++i) sum += static_cast<double>(w[o * in + i]) * static_cast<double>(x[t * in + i]);
      y[t * out + o] = static_cast<float>(sum);
    }
  return y;
}

double OracleUnits(const std::vector<float>& y, const std::vector<float>& w, const std::vector<double>& edited, const std::vector<float>& x,
                   std::uint64_t out, std::uint64_t in, std::uint32_t tokens, double amplification) {
  double worst = 0;
  for (std::uint32_t t = 0; t < tokens; ++t)
    for (std::uint64_t o = 0; o < out; ++o) {
      double exact = 0, magnitude = 0;
      for (std::uint64_t i = 0; i < in; ++i) {
        const auto value = static_cast<double>(x[t * in + i]), before = static_cast<double>(w[o * in + i]), after = edited[o * in + i];
        exact += after * value;
        magnitude += (std::abs(before) + amplification * std::abs(after - before)) * std::abs(value);
      }
      const double error = std::abs(static_cast<double>(y[t * out + o]) - exact);
      if (!(error <= 0)) worst = std::max(worst, std::isfinite(error) && magnitude > 0 ? error / (0x1p-24 * magnitude) : HUGE_VAL);
    }
  return worst;
}

}  // namespace plugin_test
