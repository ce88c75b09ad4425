#include "core/plugin/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace veneer {
namespace {

constexpr std::uint64_t kAlign = 64;

// The error buffer of one call.
class CallError {
 public:
  CallError() {
    raw_.struct_size = sizeof raw_;
    raw_.capacity = static_cast<std::uint32_t>(text_.size());
    raw_.text = text_.data();
  }
  vnr_err* raw() { return &raw_; }

  // The error for a code that is not VNR_OK, with who said it in front.
  [[nodiscard]] Error Make(std::int32_t code, std::string_view who) const {
    const std::string text = raw_.length > 0 ? std::string(text_.data(), std::min<std::size_t>(raw_.length, text_.size())) : "no reason given";
    Code ours = Code::PLUGIN_FAULT;
    if (code == VNR_E_INVALID) ours = Code::SHAPE_MISMATCH;
    if (code == VNR_E_UNSUPPORTED) ours = Code::FORMAT_UNSUPPORTED;
    if (code == VNR_E_NOMEM) ours = Code::OUT_OF_MEMORY;
    if (code == VNR_E_BUDGET) ours = Code::MEMORY_BUDGET;
    if (code == VNR_E_NUMERIC) ours = Code::NOT_FINITE;
    return {ours, std::string(who), text};
  }

 private:
  vnr_err raw_{};
  std::array<char, 512> text_{};
};

// The arrays that a vnr_source points into.
class RawSource {
 public:
  explicit RawSource(const OverlaySource& source) {
    for (const RoleTensor& given : source.tensors) {
      vnr_tensor& tensor = tensors_.emplace_back();
      tensor.struct_size = sizeof tensor;
      tensor.dtype = given.tensor.dtype;
      tensor.rank = static_cast<std::uint32_t>(given.tensor.shape.size());
      std::ranges::copy(given.tensor.shape, tensor.dims);
      tensor.data = given.tensor.bytes.data();
      tensor.nbytes = given.tensor.bytes.size();
      roles_.push_back(given.role.c_str());
    }
    for (const ParamValue& given : source.params) {
      vnr_param& param = params_.emplace_back();
      param.struct_size = sizeof param;
      param.type = given.type;
      param.path = given.path.c_str();
      param.i = given.i;
      param.d = given.d;
      param.s = {given.s.data(), given.s.size()};
    }
    for (const vnr_tensor& tensor : tensors_) tensor_pointers_.push_back(&tensor);
    for (const vnr_param& param : params_) param_pointers_.push_back(&param);
    raw_.struct_size = sizeof raw_;
    raw_.n_tensors = static_cast<std::uint32_t>(tensors_.size());
    raw_.n_params = static_cast<std::uint32_t>(params_.size());
    raw_.roles = roles_.data();
    raw_.tensors = tensor_pointers_.data();
    raw_.params = param_pointers_.data();
  }
  [[nodiscard]] const vnr_source* raw() const { return &raw_; }

 private:
  std::vector<vnr_tensor> tensors_;
  std::vector<vnr_param> params_;
  std::vector<const char*> roles_;
  std::vector<const vnr_tensor*> tensor_pointers_;
  std::vector<const vnr_param*> param_pointers_;
  vnr_source raw_{};
};

Status CheckProgram(const vnr_program& program, const vnr_limits& limits, const std::string& at) {
  const auto broken = [&at](std::string what) { return Fail(Code::PLUGIN_FAULT, at, std::move(what) + "; the plugin breaks the ABI"); };
  if (program.det_level < limits.min_det || program.det_level > 2)
    return broken(fmt::format("determinism level {}, at least {} is needed", program.det_level, limits.min_det));
  if (program.lane_quantum == 0 || program.lane_quantum > 1024) return broken(fmt::format("lane quantum {}", program.lane_quantum));
  if (program.token_block_max < limits.max_token_block) return broken(fmt::format("takes only {} tokens a call", program.token_block_max));
  if ((program.flags & VNR_TRANSFORMS_X) != 0 && program.transform_unit == 0) return broken("a transform unit of 0 elements");
  if (program.prepare_units > (1U << 20) || program.prepared_bytes_per_token > (1U << 26) || program.thread_scratch_bytes > (1U << 28))
    return broken("an absurd program");
  return {};
}

}  // namespace

bool MemoryBudget::Take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}
void MemoryBudget::Give(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

struct OverlayArtifact::State {
  const vnr_kind* kind = nullptr;
  const KindDecl* declaration = nullptr;
  std::string label;
  OverlaySource shared;
  MemoryBudget* budget = nullptr;
  ParallelFor parallel_for;
  vnr_host host{};
  vnr_artifact* artifact = nullptr;
  std::mutex mutex;  // over `allocations`
  std::unordered_map<void*, std::uint64_t> allocations;

  static State& Of(const vnr_host* host) { return *static_cast<State*>(host->ctx); }

  static void* Alloc(const vnr_host* host, std::uint64_t bytes, std::uint64_t align) {
    State& state = Of(host);
    if (align > 4096 || (align & (align - 1)) != 0 || !state.budget->Take(bytes)) return nullptr;
    const std::uint64_t rounded = (std::max<std::uint64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    void* data = std::aligned_alloc(std::max(align, kAlign), std::max(rounded, align));
    if (data == nullptr) {
      state.budget->Give(bytes);
      return nullptr;
    }
    const std::lock_guard lock(state.mutex);
    state.allocations.emplace(data, bytes);
    return data;
  }
  static void Free(const vnr_host* host, void* data) {
    if (data == nullptr) return;
    State& state = Of(host);
    const std::lock_guard lock(state.mutex);
    const auto found = state.allocations.find(data);
    if (found == state.allocations.end()) return;  // not ours: leave it alone
    state.budget->Give(found->second);
    state.allocations.erase(found);
    std::free(data);
  }
  ~State() {
    for (const auto& [data, bytes] : allocations) {  // what the plugin forgot
      budget->Give(bytes);
      std::free(data);
    }
  }
};

OverlayArtifact::OverlayArtifact(std::unique_ptr<State> state) : state_(std::move(state)) {}
OverlayArtifact::~OverlayArtifact() {
  if (state_->artifact != nullptr) state_->kind->close(state_->artifact);
}

Result<std::unique_ptr<OverlayArtifact>> OverlayArtifact::Open(const vnr_kind& kind, const KindDecl& declaration, std::string label,
                                                               const OverlaySource& shared, MemoryBudget& budget, ParallelFor parallel_for) {
  auto state = std::make_unique<State>();
  state->kind = &kind;
  state->declaration = &declaration;
  state->label = std::move(label);
  state->shared = shared;
  state->budget = &budget;
  state->parallel_for = std::move(parallel_for);
  vnr_host& host = state->host;
  host.struct_size = sizeof host;
  host.abi_minor = VNR_ABI_MINOR;
  host.ctx = state.get();
  host.get_extension = [](const vnr_host*, const char*) -> const void* { return nullptr; };
  host.alloc = State::Alloc;
  host.free = State::Free;
  host.log = [](const vnr_host*, std::uint32_t, const char*, std::uint64_t) {};  // the library never prints
  host.cancelled = [](const vnr_host*) -> std::uint32_t { return 0; };
  host.parallel_for = [](const vnr_host* h, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* context) -> std::int32_t {
    State::Of(h).parallel_for(n, [fn, context](std::uint32_t i) { fn(context, i); });
    return VNR_OK;
  };
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) host.cpu_features |= VNR_CPU_AVX2;
  if (__builtin_cpu_supports("fma")) host.cpu_features |= VNR_CPU_FMA;
  if (__builtin_cpu_supports("f16c")) host.cpu_features |= VNR_CPU_F16C;
#endif
  CallError error;
  const RawSource raw(state->shared);
  auto artifact = std::unique_ptr<OverlayArtifact>(new OverlayArtifact(std::move(state)));
  State& opened = *artifact->state_;
  if (const std::int32_t code = kind.open(&kind, &opened.host, raw.raw(), &opened.artifact, error.raw()); code != VNR_OK) {
    opened.artifact = nullptr;
    return Fail(error.Make(code, opened.label));
  }
  if (opened.artifact == nullptr) return Fail(Code::PLUGIN_FAULT, opened.label, "open succeeded without an artifact");
  return artifact;
}

Result<std::unique_ptr<OverlayBinding>> OverlayArtifact::Bind(const SiteFacts& site, const OverlaySource& source) {
  const std::string at = fmt::format("{}: {}", state_->label, site.id);
  VENEER_TRY(CheckSource(*state_->declaration, site, source, state_->shared, at));
  auto binding = std::unique_ptr<OverlayBinding>(new OverlayBinding(*state_, *state_->kind, site));
  const SiteFacts& facts = binding->site_;
  vnr_site raw_site{};
  raw_site.struct_size = sizeof raw_site;
  raw_site.index = facts.index;
  raw_site.shape_class = facts.shape_class;
  raw_site.flags = facts.flags;
  raw_site.id = facts.id.c_str();
  raw_site.out = facts.out;
  raw_site.in = facts.in;
  raw_site.layer = facts.layer;
  raw_site.expert = UINT32_MAX;
  raw_site.storage_group = facts.storage_group;
  raw_site.base_dtype = facts.base_dtype;
  CallError error;
  const RawSource raw(source);
  if (const std::int32_t code = state_->kind->bind(state_->artifact, &raw_site, raw.raw(), &binding->binding_, error.raw()); code != VNR_OK) {
    binding->binding_ = nullptr;
    return Fail(error.Make(code, at));
  }
  if (binding->binding_ == nullptr) return Fail(Code::PLUGIN_FAULT, at, "bind succeeded without a binding");
  return binding;
}

OverlayBinding::OverlayBinding(OverlayArtifact::State& artifact, const vnr_kind& kind, SiteFacts site)
    : artifact_(&artifact), kind_(&kind), site_(std::move(site)) {}
OverlayBinding::~OverlayBinding() {
  if (binding_ != nullptr) kind_->unbind(binding_);
}

Result<vnr_cost> OverlayBinding::Estimate(const vnr_limits& limits) const {
  vnr_cost cost{};
  cost.struct_size = sizeof cost;
  CallError error;
  if (const std::int32_t code = kind_->estimate(binding_, &limits, &cost, error.raw()); code != VNR_OK)
    return Fail(error.Make(code, fmt::format("{}: {}", artifact_->label, site_.id)));
  constexpr std::uint64_t kAbsurd = std::uint64_t{1} << 50;
  if (cost.shared_bytes > kAbsurd || cost.resident_bytes > kAbsurd || cost.stage_peak_bytes > kAbsurd || cost.opaque_bytes > kAbsurd)
    return Fail(Code::PLUGIN_FAULT, fmt::format("{}: {}", artifact_->label, site_.id), "an absurd estimate");
  return cost;
}

Status OverlayBinding::Stage(const vnr_limits& limits, const RowReader& predecessor) {
  const std::string at = fmt::format("{}: {}", artifact_->label, site_.id);
  vnr_base_rows rows{};
  rows.struct_size = sizeof rows;
  rows.ctx = const_cast<RowReader*>(&predecessor);
  rows.read = [](void* context, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) -> std::int32_t {
    (*static_cast<const RowReader*>(context))(row, n, dst, ld);
    return VNR_OK;
  };
  program_ = {};
  program_.struct_size = sizeof program_;
  CallError error;
  if (const std::int32_t code = kind_->stage(binding_, &limits, &rows, &program_, error.raw()); code != VNR_OK) return Fail(error.Make(code, at));
  return CheckProgram(program_, limits, at);
}

Status OverlayBinding::WeightRows(std::uint64_t row, std::uint64_t n, float* w, std::uint64_t ld) const {
  CallError error;
  if (const std::int32_t code = kind_->weight_rows(binding_, row, n, w, ld, error.raw()); code != VNR_OK)
    return Fail(error.Make(code, fmt::format("{}: {}", artifact_->label, site_.id)));
  return {};
}

Status OverlayBinding::Bias(float* bias, std::uint64_t n) const {
  CallError error;
  if (const std::int32_t code = kind_->bias(binding_, bias, n, error.raw()); code != VNR_OK)
    return Fail(error.Make(code, fmt::format("{}: {}", artifact_->label, site_.id)));
  return {};
}

Result<std::string> OverlayBinding::Describe() const {
  std::string text;
  const vnr_sink sink{&text, [](void* context, const char* data, std::uint64_t size) { static_cast<std::string*>(context)->append(data, size); }};
  CallError error;
  if (const std::int32_t code = kind_->describe(artifact_->artifact, binding_, &sink, error.raw()); code != VNR_OK)
    return Fail(error.Make(code, fmt::format("{}: {}", artifact_->label, site_.id)));
  return text;
}

}  // namespace veneer
