#include "core/plugin/overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <utility>

#include "core/base/checked.h"
#include "core/plugin/host_services.h"
#include "core/plugin/raw_source.h"

namespace veneer {
namespace {

constexpr std::uint64_t kSmall = 64 << 10;  // what open and bind may take for their own structures before there is an estimate
constexpr std::uint64_t kAbsurdBytes = std::uint64_t{1} << 50;
constexpr std::size_t kMaxDescription = 1 << 16;
constexpr std::uint32_t kProgramFlags =
    VNR_ADDS_Y | VNR_SCALES_Y | VNR_TRANSFORMS_X | VNR_LANEWISE_T | VNR_EDITS_BIAS | VNR_ALLOCATES_FOR_TOKENS;

// The error buffer of one call.
class CallError {
 public:
  CallError() {
    raw_.struct_size = sizeof raw_;
    raw_.capacity = static_cast<std::uint32_t>(text_.size());
    raw_.text = text_.data();
  }
  vnr_err* raw() { return &raw_; }
  [[nodiscard]] std::string Text() const {
    const std::string text(text_.data(), std::min<std::size_t>(raw_.length, text_.size()));
    return text.empty() ? "the plugin gives no reason" : text;
  }

 private:
  vnr_err raw_{};
  std::array<char, 512> text_{};
};

Code CodeFor(std::int32_t code) {
  switch (code) {
    case VNR_E_INVALID:
      return Code::SHAPE_MISMATCH;
    case VNR_E_UNSUPPORTED:
      return Code::FORMAT_UNSUPPORTED;
    case VNR_E_NOMEM:
      return Code::OUT_OF_MEMORY;
    case VNR_E_BUDGET:
      return Code::MEMORY_BUDGET;
    case VNR_E_NUMERIC:
      return Code::NOT_FINITE;
    default:
      return Code::PLUGIN_FAULT;
  }
}

// Runs a setup function of the plugin; its code, or what escaped from it, becomes an error with the place in front.
template <class Function>
Status Call(HostServices& services, const std::string& at, const Function& function) {
  CallError error;
  std::int32_t code = VNR_OK;
  (void)services.TakeRefusal();
  try {
    const HostServices::Setup setup(services);
    code = function(error.raw());
  } catch (...) {
    return Fail(Code::PLUGIN_FAULT, at, "an exception left the plugin; ask its author to catch it inside");
  }
  const std::string refusal = services.TakeRefusal();
  if (code == VNR_OK) return {};
  if (!refusal.empty() && (code == VNR_E_NOMEM || code == VNR_E_BUDGET)) return Fail(Code::MEMORY_BUDGET, at, refusal);
  return Fail(CodeFor(code), at, error.Text());
}

Status CheckProgram(const vnr_program& program, const vnr_limits& limits, const KindDecl& kind, std::uint32_t shape_class,
                    const std::string& at) {
  const auto broken = [&at](std::string what) {
    return Fail(Code::PLUGIN_FAULT, at, std::move(what) + "; the plugin breaks the ABI's rules, ask its author");
  };
  if ((program.flags & ~kProgramFlags) != 0) return broken(fmt::format("program flags {:#x} are not known", program.flags));
  if (program.det_level < 1 || program.det_level > 2) return broken(fmt::format("determinism level {}, allowed 1 or 2", program.det_level));
  if (program.det_level < limits.min_det)
    return broken(fmt::format("determinism level {}, this compute mode needs {}", program.det_level, limits.min_det));
  if (program.lane_quantum == 0 || program.lane_quantum > 1024)
    return broken(fmt::format("lane quantum {}, allowed 1 to 1024", program.lane_quantum));
  if (program.token_block_max < limits.max_token_block)
    return broken(fmt::format("takes {} tokens a call, {} are needed", program.token_block_max, limits.max_token_block));
  if (program.amplification == 0 || program.amplification > 256)
    return broken(fmt::format("amplification {}, allowed 1 to 256", program.amplification));
  const bool transforms = (program.flags & VNR_TRANSFORMS_X) != 0;
  if (transforms && program.transform_unit == 0) return broken("a transform unit of 0 elements");
  if (transforms && shape_class != VNR_SITE_LINEAR) return broken("transforms the input of a site that has none");
  if (!transforms && (program.flags & VNR_LANEWISE_T) != 0) return broken("LANEWISE_T without TRANSFORMS_X");
  if ((kind.flags & VNR_KIND_ADDITIVE) != 0 && (program.flags & (VNR_TRANSFORMS_X | VNR_SCALES_Y)) != 0)
    return broken("a kind declared ADDITIVE transforms or scales");
  if (program.prepare_units > (1U << 20)) return broken(fmt::format("{} prepare units, allowed {}", program.prepare_units, 1U << 20));
  if (program.prepare_units == 0 && program.prepared_bytes_per_token != 0) return broken("prepared bytes without a prepare unit");
  if (program.prepared_bytes_per_token > (1U << 26) || program.thread_scratch_bytes > (1U << 28))
    return broken(fmt::format("{} prepared bytes a token and {} scratch bytes a thread, allowed {} and {}",
                              program.prepared_bytes_per_token, program.thread_scratch_bytes, 1U << 26, 1U << 28));
  return {};
}

// What vnr_base_rows reads through; ctx of the callback, which plugins may call from parallel_for.
struct RowAccess {
  const RowReader& read;
  const SiteFacts& site;
  bool is_declared;  // the kind has NEEDS_BASE_ROWS, so the host stages it again when a predecessor changes
  std::mutex mutex{};
  Status failure{};  // the first one of `read`

  std::int32_t Keep(Error error) {
    const std::lock_guard lock(mutex);
    if (failure) failure = Fail(std::move(error));
    return VNR_E_INTERNAL;
  }
};

std::int32_t ReadBaseRows(void* context, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) {
  RowAccess& access = *static_cast<RowAccess*>(context);
  const bool is_vector = access.site.shape_class == VNR_SITE_VECTOR;
  const std::uint64_t rows = is_vector ? 1 : access.site.out, width = is_vector ? access.site.out : access.site.in;
  if (!access.is_declared || !access.read) return VNR_E_STATE;
  if (dst == nullptr || n > rows || row > rows - n || (n > 1 && ld < width)) return VNR_E_INVALID;
  try {  // nothing may unwind into the plugin
    if (Status read = access.read(row, n, dst, ld); !read) return access.Keep(std::move(read).error());
  } catch (...) {
    return access.Keep({Code::INTERNAL, access.site.id, "reading the predecessor's rows threw an exception"});
  }
  return VNR_OK;
}

}  // namespace

struct OverlayArtifact::State {
  State(const vnr_kind& its_kind, const KindDecl& its_declaration, std::string its_label, MemoryBudget& its_budget,
        ParallelFor parallel_for)
      : kind(its_kind),
        declaration(its_declaration),
        label(std::move(its_label)),
        budget(its_budget),
        services(its_budget, std::move(parallel_for)) {}
  ~State() { budget.Give(borrowed_bytes); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] bool borrows() const { return (declaration.flags & VNR_KIND_BORROWS_TENSORS) != 0; }
  // The structs for a call. A kind that borrows gets copies that live as long as the artifact, counted against the budget.
  Result<std::unique_ptr<RawSource>> MakeRaw(const OverlaySource& source, const std::string& at) {
    auto raw = std::make_unique<RawSource>(source, borrows());
    if (!borrows()) return raw;
    if (!budget.Take(raw->copied_bytes()))
      return Fail(Code::MEMORY_BUDGET, at, fmt::format("its {} bytes of tensors do not fit; raise --memory-budget", raw->copied_bytes()));
    borrowed_bytes += raw->copied_bytes();
    return raw;
  }

  const vnr_kind& kind;
  const KindDecl declaration;  // a copy: a staged composition may outlive the catalogue
  std::string label;
  OverlaySource shared;
  MemoryBudget& budget;
  std::uint64_t borrowed_bytes = 0;
  std::unique_ptr<RawSource> raw_shared;
  std::vector<std::unique_ptr<RawSource>> kept;  // sources of unbound bindings of a kind that borrows
  HostServices services;
  std::uint64_t open_bytes = 0;
  vnr_artifact* artifact = nullptr;
};

OverlayArtifact::OverlayArtifact(std::unique_ptr<State> state) : state_(std::move(state)) {}
OverlayArtifact::~OverlayArtifact() {
  if (state_->artifact != nullptr) state_->kind.close(state_->artifact);
}

Result<std::unique_ptr<OverlayArtifact>> OverlayArtifact::Open(const vnr_kind& kind, const KindDecl& declaration, std::string label,
                                                               const OverlaySource& shared, MemoryBudget& budget,
                                                               ParallelFor parallel_for) {
  auto made = std::unique_ptr<OverlayArtifact>(
      new OverlayArtifact(std::make_unique<State>(kind, declaration, std::move(label), budget, std::move(parallel_for))));
  State& state = *made->state_;
  VENEER_TRY(CheckShared(declaration, shared, state.label));
  state.shared = shared;
  VENEER_ASSIGN(state.raw_shared, state.MakeRaw(shared, state.label));
  std::uint64_t shared_bytes = 0;
  for (const RoleTensor& tensor : shared.tensors) shared_bytes += tensor.tensor.bytes.size();
  // Shared tensors may be kept in another type, at most eight bytes for one.
  state.services.AllowGrowth(kSmall + 8 * shared_bytes);
  vnr_artifact* artifact = nullptr;
  VENEER_TRY(Call(state.services, state.label,
                  [&](vnr_err* error) { return kind.open(&kind, state.services.raw(), state.raw_shared->raw(), &artifact, error); }));
  if (artifact == nullptr) return Fail(Code::PLUGIN_FAULT, state.label, "open succeeded without an artifact");
  state.artifact = artifact;
  state.open_bytes = state.services.live();
  state.services.AllowGrowth(0);
  return made;
}

Result<std::unique_ptr<OverlayBinding>> OverlayArtifact::Bind(const SiteFacts& site, const OverlaySource& source) {
  const std::string at = fmt::format("{}: {}", state_->label, site.id);
  VENEER_TRY(CheckSource(state_->declaration, site, source, state_->shared, at));
  auto binding = std::unique_ptr<OverlayBinding>(new OverlayBinding(*state_, state_->kind, site));
  const SiteFacts& facts = binding->site_;
  vnr_site& raw_site = binding->raw_site_;
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
  VENEER_ASSIGN(binding->source_, state_->MakeRaw(source, at));
  HostServices& services = state_->services;
  const std::uint64_t before = services.live();
  services.AllowGrowth(kSmall);
  vnr_binding* bound = nullptr;
  const Status called = Call(
      services, at, [&](vnr_err* error) { return state_->kind.bind(state_->artifact, &raw_site, binding->source_->raw(), &bound, error); });
  binding->bind_bytes_ = services.live() - std::min(before, services.live());
  services.AllowGrowth(0);
  VENEER_TRY(called);
  if (bound == nullptr) return Fail(Code::PLUGIN_FAULT, at, "bind succeeded without a binding");
  binding->binding_ = bound;
  return binding;
}

OverlayBinding::OverlayBinding(OverlayArtifact::State& artifact, const vnr_kind& kind, SiteFacts site)
    : artifact_(&artifact), kind_(&kind), site_(std::move(site)) {}

OverlayBinding::~OverlayBinding() {
  if (binding_ != nullptr) kind_->unbind(binding_);
  if (artifact_->borrows() && source_ != nullptr) artifact_->kept.push_back(std::move(source_));
}

std::string OverlayBinding::Place() const { return fmt::format("{}: {}", artifact_->label, site_.id); }

Result<vnr_cost> OverlayBinding::Estimate(const vnr_limits& limits) const {
  const std::string at = Place();
  vnr_cost cost{};
  cost.struct_size = sizeof cost;
  VENEER_TRY(Call(artifact_->services, at, [&](vnr_err* error) { return kind_->estimate(binding_, &limits, &cost, error); }));
  if (std::max({cost.shared_bytes, cost.resident_bytes, cost.stage_peak_bytes, cost.opaque_bytes}) > kAbsurdBytes)
    return Fail(Code::PLUGIN_FAULT, at, "the estimate is above 2^50 bytes; the plugin breaks the ABI's rules, ask its author");
  if (artifact_->open_bytes > cost.shared_bytes || bind_bytes_ > cost.resident_bytes)
    return Fail(Code::MEMORY_BUDGET, at,
                fmt::format("open and bind took {} and {} bytes, the estimate says {} and {}: the plugin's estimate is too low",
                            artifact_->open_bytes, bind_bytes_, cost.shared_bytes, cost.resident_bytes));
  if (cost.resident_bytes + cost.shared_bytes + cost.opaque_bytes > limits.budget_bytes)
    return Fail(Code::MEMORY_BUDGET, at,
                fmt::format("needs {} bytes, the budget is {}; raise --memory-budget",
                            cost.resident_bytes + cost.shared_bytes + cost.opaque_bytes, limits.budget_bytes));
  return cost;
}

Status OverlayBinding::Stage(const vnr_limits& limits, const RowReader& predecessor) {
  const std::string at = Place();
  if (is_staged_) return Fail(Code::INTERNAL, at, "staged twice");
  VENEER_ASSIGN(const vnr_cost cost, Estimate(limits));
  RowAccess access{predecessor, site_, (artifact_->declaration.flags & VNR_KIND_NEEDS_BASE_ROWS) != 0};
  vnr_base_rows rows{};
  rows.struct_size = sizeof rows;
  rows.ctx = &access;
  rows.read = ReadBaseRows;
  vnr_program program{};
  program.struct_size = sizeof program;
  HostServices& services = artifact_->services;
  const std::uint64_t before = services.live() - bind_bytes_;
  services.AllowGrowth(std::max(cost.resident_bytes, cost.stage_peak_bytes) - bind_bytes_);
  const Status called = Call(services, at, [&](vnr_err* error) { return kind_->stage(binding_, &limits, &rows, &program, error); });
  services.AllowGrowth(0);
  if (!access.failure) return Fail(std::move(access.failure).error().Within(at));
  VENEER_TRY(called);
  if (const std::uint64_t after = services.live(); after > before && after - before > cost.resident_bytes)
    return Fail(Code::MEMORY_BUDGET, at,
                fmt::format("keeps {} bytes after staging, its estimate says {}: the plugin's estimate is too low", after - before,
                            cost.resident_bytes));
  program.struct_size = sizeof program;
  VENEER_TRY(CheckProgram(program, limits, artifact_->declaration, site_.shape_class, at));
  program_ = program;
  is_staged_ = true;
  if (!artifact_->borrows()) source_.reset();  // the plugin has taken what it needs
  return {};
}

Status OverlayBinding::WeightRows(std::uint64_t row, std::uint64_t n, float* w, std::uint64_t ld) const {
  return Call(artifact_->services, Place(), [&](vnr_err* error) { return kind_->weight_rows(binding_, row, n, w, ld, error); });
}

Status OverlayBinding::Bias(float* bias, std::uint64_t n) const {
  return Call(artifact_->services, Place(), [&](vnr_err* error) { return kind_->bias(binding_, bias, n, error); });
}

Result<std::string> OverlayBinding::Describe() const {
  const std::string at = Place();
  std::string text;
  const vnr_sink sink{&text, [](void* context, const char* data, std::uint64_t size) {
                        auto& out = *static_cast<std::string*>(context);
                        out.append(data, std::min<std::uint64_t>(size, kMaxDescription + 1 - std::min(out.size(), kMaxDescription + 1)));
                      }};
  VENEER_TRY(Call(artifact_->services, at, [&](vnr_err* error) { return kind_->describe(artifact_->artifact, binding_, &sink, error); }));
  if (text.size() > kMaxDescription || !ParseJson(text))
    return Fail(Code::PLUGIN_FAULT, at,
                fmt::format("its description is not JSON of at most {} bytes; ask the plugin's author", kMaxDescription));
  return text;
}

}  // namespace veneer
