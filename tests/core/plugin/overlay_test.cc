#include "core/plugin/overlay.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/core/plugin/test_plugins.h"
#include "tests/support/catch.h"

using veneer::Code;
using veneer::KindDecl;
using veneer::MemoryBudget;
using veneer::OverlayArtifact;
using veneer::OverlayBinding;
using veneer::OverlaySource;
using veneer::SiteFacts;

namespace {

// What the kind below does when the host calls it; each test sets what it needs.
struct Behaviour {
  std::uint64_t shared = 64, resident = 128, peak = 128, opaque = 0;
  std::uint64_t open_bytes = 64, bind_bytes = 64, stage_bytes = 64, transient_bytes = 0;
  std::function<void(vnr_program&)> program = [](vnr_program&) {};
  std::function<std::int32_t(const vnr_host*, const vnr_base_rows*, vnr_err*)> stage;
  std::int32_t bind_code = VNR_OK;
  std::string description = "{}";
  // seen
  const void* tensor_data = nullptr;
  const vnr_host* host = nullptr;
  std::vector<float> values;
};
Behaviour* now = nullptr;

std::int32_t Say(vnr_err* err, std::int32_t code, const char* text) {
  err->code = code;
  err->length = static_cast<std::uint32_t>(std::strlen(text));
  std::memcpy(err->text, text, err->length + 1);
  return code;
}

struct Object {
  const vnr_host* host;
  const vnr_tensor* tensor;
  void* staged;
};

const vnr_kind kProbe = [] {
  vnr_kind kind = *veneer_overlay_entry_v1_offset.kinds[0];
  kind.open = [](const vnr_kind*, const vnr_host* host, const vnr_source*, vnr_artifact** out, vnr_err*) -> std::int32_t {
    auto* object = static_cast<Object*>(host->alloc(host, now->open_bytes, 64));
    if (object == nullptr) return VNR_E_NOMEM;
    *object = {host, nullptr, nullptr};
    now->host = host;
    *out = reinterpret_cast<vnr_artifact*>(object);
    return VNR_OK;
  };
  kind.close = [](vnr_artifact* artifact) {
    auto* object = reinterpret_cast<Object*>(artifact);
    object->host->free(object->host, object);
  };
  kind.bind = [](vnr_artifact* artifact, const vnr_site*, const vnr_source* source, vnr_binding** out, vnr_err* err) -> std::int32_t {
    if (now->bind_code != VNR_OK) return Say(err, now->bind_code, "index 7 of row 3 is out of range");
    const vnr_host* host = reinterpret_cast<Object*>(artifact)->host;
    auto* object = static_cast<Object*>(host->alloc(host, now->bind_bytes, 64));
    if (object == nullptr) return VNR_E_NOMEM;
    *object = {host, source->tensors[0], nullptr};
    now->tensor_data = source->tensors[0]->data;
    *out = reinterpret_cast<vnr_binding*>(object);
    return VNR_OK;
  };
  kind.unbind = [](vnr_binding* binding) {
    auto* object = reinterpret_cast<Object*>(binding);
    if (object->staged != nullptr) object->host->free(object->host, object->staged);
    object->host->free(object->host, object);
  };
  kind.estimate = [](const vnr_binding*, const vnr_limits*, vnr_cost* cost, vnr_err*) -> std::int32_t {
    cost->shared_bytes = now->shared;
    cost->resident_bytes = now->resident;
    cost->stage_peak_bytes = now->peak;
    cost->opaque_bytes = now->opaque;
    return VNR_OK;
  };
  kind.stage = [](vnr_binding* binding, const vnr_limits*, const vnr_base_rows* base, vnr_program* program, vnr_err* err) -> std::int32_t {
    auto* object = reinterpret_cast<Object*>(binding);
    if (now->stage)
      if (const std::int32_t code = now->stage(object->host, base, err); code != VNR_OK) return code;
    void* transient = object->host->alloc(object->host, now->transient_bytes, 64);
    if (transient == nullptr) return Say(err, VNR_E_BUDGET, "no memory");
    object->staged = object->host->alloc(object->host, now->stage_bytes, 64);
    object->host->free(object->host, transient);
    if (object->staged == nullptr) return Say(err, VNR_E_BUDGET, "no memory");
    const auto* values = static_cast<const float*>(object->tensor->data);
    now->values.assign(values, values + object->tensor->dims[0]);
    program->flags = VNR_ADDS_Y;
    program->det_level = 2;
    program->lane_quantum = 1;
    program->token_block_max = 512;
    program->transform_unit = 1;
    program->amplification = 1;
    now->program(*program);
    return VNR_OK;
  };
  kind.weight_rows = [](const vnr_binding*, std::uint64_t, std::uint64_t, float*, std::uint64_t, vnr_err*) -> std::int32_t {
    throw std::runtime_error("out of the plugin");
  };
  kind.describe = [](const vnr_artifact*, const vnr_binding*, const vnr_sink* sink, vnr_err*) -> std::int32_t {
    sink->write(sink->ctx, now->description.data(), now->description.size());
    return VNR_OK;
  };
  kind.apply = [](const vnr_binding*, const vnr_io*, std::uint64_t, std::uint64_t) -> std::int32_t { return VNR_E_INTERNAL; };
  return kind;
}();

struct Fixture {
  Fixture() {
    now = &behaviour;
    limits.struct_size = sizeof limits;
    limits.max_threads = 2;
    limits.max_token_block = 16;
    limits.min_det = 1;
    limits.budget_bytes = 1 << 20;
    site.id = "model.layers.3.self_attn.q_proj";
    site.out = 4;
    site.in = 2;
    declaration = *veneer::DeclareKind(kProbe);
    declaration.flags = 0;
  }
  auto Open(MemoryBudget& budget) {
    return OverlayArtifact::Open(kProbe, declaration, "adapter bard (probe)", {}, budget, [](std::uint32_t n, const auto& body) {
      for (std::uint32_t i = 0; i < n; ++i) body(i);
    });
  }
  [[nodiscard]] OverlaySource Source(std::size_t offset = 0) const {
    OverlaySource source;
    source.tensors.push_back({"v", {"v", VNR_F32, {4}, std::as_bytes(std::span(bytes)).subspan(offset, 16)}});
    return source;
  }
  // Stages one binding; the code of the first error, 0 for success.
  int Run(std::string* text = nullptr) {
    MemoryBudget budget(1 << 20);
    const auto done = [text](const auto& result) {
      if (text != nullptr && !result) *text = result.error().Text();
      return result ? 0 : static_cast<int>(result.error().code);
    };
    int code = 0;
    {
      auto artifact = Open(budget);
      if (!artifact) return done(artifact);
      auto binding = (*artifact)->Bind(site, Source());
      if (!binding) return done(binding);
      code = done((*binding)->Stage(limits, [](auto, auto, float*, auto) -> veneer::Status { return {}; }));
    }
    CHECK(budget.used() == 0);  // whatever happened
    return code;
  }

  Behaviour behaviour;
  KindDecl declaration;
  SiteFacts site;
  vnr_limits limits{};
  alignas(64) std::array<char, 64> bytes{};
};

}  // namespace

TEST_CASE("overlay: memory is counted while it is held and returns to zero") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  {
    auto artifact = f.Open(budget);
    REQUIRE(artifact);
    CHECK(budget.used() == 64);
    auto binding = (*artifact)->Bind(f.site, f.Source());
    REQUIRE(binding);
    CHECK(budget.used() == 128);
    REQUIRE((*binding)->Stage(f.limits, nullptr));
    CHECK(budget.used() == 192);
    CHECK((*binding)->program().token_block_max == 512);
    binding->reset();
    CHECK(budget.used() == 64);
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("overlay: an estimate that is one byte too low fails while staging with E501, in every part") {
  Fixture f;
  REQUIRE(f.Run() == 0);
  std::string text;
  f.behaviour.resident = f.behaviour.peak = 127;
  CHECK(f.Run(&text) == 501);
  CHECK(text.find("estimate is too low") != std::string::npos);
  CHECK(text.find("adapter bard (probe): model.layers.3.self_attn.q_proj") != std::string::npos);
  f.behaviour.peak = 128;  // enough while staging, too little to keep
  CHECK(f.Run() == 501);
  f.behaviour.resident = 128;
  f.behaviour.transient_bytes = 100;
  f.behaviour.peak = 227;
  CHECK(f.Run() == 501);
  f.behaviour.peak = 228;
  CHECK(f.Run() == 0);
  f.behaviour.shared = 63;  // open took 64
  CHECK(f.Run() == 501);
}

TEST_CASE("overlay: bind may hold its own structures but no tensors") {
  Fixture f;
  f.behaviour.bind_bytes = 64 << 10;
  f.behaviour.resident = f.behaviour.peak = (64 << 10) + 64;
  CHECK(f.Run() == 0);
  f.behaviour.bind_bytes += 1;
  CHECK(f.Run() == 501);
}

TEST_CASE("overlay: one byte above the composition's budget is E501 and one less is enough") {
  Fixture f;
  for (const std::uint64_t limit : {191U, 192U}) {
    MemoryBudget budget(limit);
    auto artifact = f.Open(budget);
    REQUIRE(artifact);
    auto binding = (*artifact)->Bind(f.site, f.Source());
    REQUIRE(binding);
    const auto staged = (*binding)->Stage(f.limits, nullptr);
    CHECK(staged.has_value() == (limit == 192));
    if (!staged) CHECK(staged.error().code == Code::MEMORY_BUDGET);
  }
  f.limits.budget_bytes = 191;  // 128 resident, 64 shared
  CHECK(f.Run() == 501);
}

TEST_CASE("overlay: the allocator aligns to 64 and more, gives zero bytes a pointer of their own, refuses nonsense") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  f.behaviour.resident = f.behaviour.peak = 1 << 16;
  f.behaviour.stage = [](const vnr_host* host, const vnr_base_rows*, vnr_err*) -> std::int32_t {
    void* const a = host->alloc(host, 1, 1);
    void* const b = host->alloc(host, 100, 4096);
    void* const c = host->alloc(host, 0, 0);
    void* const d = host->alloc(host, 0, 0);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(b) % 4096 == 0);
    CHECK(c != nullptr);
    CHECK(c != d);
    CHECK(host->alloc(host, 8, 3) == nullptr);
    CHECK(host->alloc(host, 8, 8192) == nullptr);
    CHECK(host->alloc(host, UINT64_MAX, 64) == nullptr);
    int own = 0;
    host->free(host, &own);  // not the host's: left alone
    host->free(host, nullptr);
    for (void* data : {a, b, c, d}) host->free(host, data);
    return VNR_OK;
  };
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  CHECK((*binding)->Stage(f.limits, nullptr));
  CHECK(budget.used() == 192);
}

TEST_CASE("overlay: what a plugin forgets to free is freed with its artifact") {
  Fixture f;
  f.behaviour.peak = f.behaviour.resident = 1 << 12;
  f.behaviour.stage = [](const vnr_host* host, const vnr_base_rows*, vnr_err*) -> std::int32_t {
    return host->alloc(host, 100, 64) == nullptr ? VNR_E_NOMEM : VNR_OK;
  };
  CHECK(f.Run() == 0);  // checks that the budget is back at 0
}

TEST_CASE("overlay: programs outside the ABI's ranges are E417") {
  Fixture f;
  const auto with = [&f](const std::function<void(vnr_program&)>& change) {
    f.behaviour.program = change;
    return f.Run();
  };
  CHECK(with([](vnr_program& p) { p.lane_quantum = 0; }) == 417);
  CHECK(with([](vnr_program& p) { p.lane_quantum = 2048; }) == 417);
  CHECK(with([](vnr_program& p) { p.det_level = 0; }) == 417);
  CHECK(with([](vnr_program& p) { p.det_level = 3; }) == 417);
  CHECK(with([](vnr_program& p) { p.token_block_max = 15; }) == 417);
  CHECK(with([](vnr_program& p) { p.token_block_max = 16; }) == 0);
  CHECK(with([](vnr_program& p) { p.amplification = 0; }) == 417);
  CHECK(with([](vnr_program& p) { p.amplification = 257; }) == 417);
  CHECK(with([](vnr_program& p) { p.flags = 1u << 30; }) == 417);
  CHECK(with([](vnr_program& p) {
          p.flags = VNR_TRANSFORMS_X;
          p.transform_unit = 0;
        }) == 417);
  CHECK(with([](vnr_program& p) { p.flags = VNR_LANEWISE_T; }) == 417);
  CHECK(with([](vnr_program& p) { p.prepare_units = UINT32_MAX; }) == 417);
  CHECK(with([](vnr_program& p) { p.prepared_bytes_per_token = 4; }) == 417);
  CHECK(with([](vnr_program& p) {
          p.prepare_units = 1;
          p.prepared_bytes_per_token = 4;
        }) == 0);
  CHECK(with([](vnr_program& p) { p.thread_scratch_bytes = UINT64_MAX; }) == 417);
  f.declaration.flags = VNR_KIND_ADDITIVE;
  CHECK(with([](vnr_program& p) { p.flags = VNR_SCALES_Y; }) == 417);
  f.declaration.flags = 0;
  f.limits.min_det = 2;
  CHECK(with([](vnr_program& p) { p.det_level = 1; }) == 417);
}

TEST_CASE("overlay: an absurd estimate is E417") {
  Fixture f;
  f.behaviour.opaque = UINT64_MAX;
  CHECK(f.Run() == 417);
}

TEST_CASE("overlay: the plugin's reason reaches the caller behind adapter and site, with a code of ours") {
  Fixture f;
  std::string text;
  f.behaviour.bind_code = VNR_E_INVALID;
  CHECK(f.Run(&text) == 404);
  CHECK(text.find("adapter bard (probe): model.layers.3.self_attn.q_proj index 7 of row 3 is out of range") != std::string::npos);
  f.behaviour.bind_code = VNR_E_UNSUPPORTED;
  CHECK(f.Run() == 401);
  f.behaviour.bind_code = VNR_E_NUMERIC;
  CHECK(f.Run() == 411);
  f.behaviour.bind_code = 4711;  // a code of a newer minor version
  CHECK(f.Run() == 417);
}

TEST_CASE("overlay: an exception that leaves a plugin is E417 and the host goes on") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  float w = 0;
  const auto status = (*binding)->WeightRows(0, 1, &w, 1);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::PLUGIN_FAULT);
  CHECK((*binding)->Describe());
}

TEST_CASE("overlay: a hot call that fails marks its binding") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  CHECK_FALSE((*binding)->faulted());
  (*binding)->hot().Apply(vnr_io{}, 0, 1);
  CHECK((*binding)->faulted());
}

TEST_CASE("overlay: rows of the predecessor are for kinds that declare it, inside the site, and errors stay inside") {
  Fixture f;
  int calls = 0;
  MemoryBudget budget(1 << 20);
  std::vector<std::int32_t> codes;
  f.behaviour.stage = [&codes](const vnr_host*, const vnr_base_rows* base, vnr_err*) -> std::int32_t {
    float rows[8];
    codes = {base->read(base->ctx, 0, 4, rows, 2), base->read(base->ctx, 3, 2, rows, 2), base->read(base->ctx, UINT64_MAX, 1, rows, 2),
             base->read(base->ctx, 0, 2, rows, 1)};
    return VNR_OK;
  };
  const auto try_stage = [&](const veneer::RowReader& reader) {
    auto artifact = f.Open(budget);
    REQUIRE(artifact);
    auto binding = (*artifact)->Bind(f.site, f.Source());
    REQUIRE(binding);
    return (*binding)->Stage(f.limits, reader);
  };
  const auto stage = [&](const veneer::RowReader& reader) { CHECK(try_stage(reader)); };
  const auto count = [&calls](std::uint64_t, std::uint64_t, float*, std::uint64_t) -> veneer::Status {
    ++calls;
    return {};
  };
  stage(count);
  CHECK(codes == std::vector<std::int32_t>(4, VNR_E_STATE));
  CHECK(calls == 0);
  f.declaration.flags = VNR_KIND_NEEDS_BASE_ROWS;
  stage(count);
  CHECK(codes == std::vector<std::int32_t>{VNR_OK, VNR_E_INVALID, VNR_E_INVALID, VNR_E_INVALID});
  CHECK(calls == 1);
  // The plugin above ignores what it is told; staging fails all the same, with the reader's own error.
  const auto threw = try_stage([](auto, auto, float*, auto) -> veneer::Status { throw std::runtime_error("read error"); });
  CHECK(codes[0] == VNR_E_INTERNAL);
  REQUIRE_FALSE(threw);
  CHECK(threw.error().code == Code::INTERNAL);
  const auto failed = try_stage([](auto, auto, float*, auto) { return veneer::Fail(Code::PLUGIN_FAULT, "the one before", "no rows"); });
  CHECK(codes[0] == VNR_E_INTERNAL);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == Code::PLUGIN_FAULT);
  CHECK(failed.error().at.find("the one before") != std::string::npos);
}

TEST_CASE("overlay: staging twice is an error") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  REQUIRE((*binding)->Stage(f.limits, nullptr));
  CHECK_FALSE((*binding)->Stage(f.limits, nullptr));
}

TEST_CASE("overlay: tensors are seen where they lie, and aligned when they do not lie so") {
  Fixture f;
  const float values[4] = {1, 2, 3, 4};
  MemoryBudget budget(1 << 20);
  for (const std::size_t offset : {0U, 1U, 2U, 16U}) {
    std::memcpy(f.bytes.data() + offset, values, sizeof values);
    auto artifact = f.Open(budget);
    REQUIRE(artifact);
    auto binding = (*artifact)->Bind(f.site, f.Source(offset));
    REQUIRE(binding);
    CHECK((f.behaviour.tensor_data == f.bytes.data() + offset) == (offset % 4 == 0));
    CHECK(reinterpret_cast<std::uintptr_t>(f.behaviour.tensor_data) % 4 == 0);
    REQUIRE((*binding)->Stage(f.limits, nullptr));
    CHECK(f.behaviour.values == std::vector<float>{1, 2, 3, 4});
  }
}

TEST_CASE("overlay: a kind that borrows gets tensors of its own that outlive the file, counted in the budget") {
  Fixture f;
  f.declaration.flags = VNR_KIND_BORROWS_TENSORS;
  const float values[4] = {1, 2, 3, 4};
  std::memcpy(f.bytes.data(), values, sizeof values);
  MemoryBudget budget(1 << 20);
  {
    auto artifact = f.Open(budget);
    REQUIRE(artifact);
    auto binding = (*artifact)->Bind(f.site, f.Source());
    REQUIRE(binding);
    CHECK(f.behaviour.tensor_data != f.bytes.data());
    CHECK(budget.used() == 64 + 64 + 16);
    f.bytes.fill('\xFF');
    REQUIRE((*binding)->Stage(f.limits, nullptr));
    CHECK(f.behaviour.values == std::vector<float>{1, 2, 3, 4});
    binding->reset();
    CHECK(std::memcmp(f.behaviour.tensor_data, values, sizeof values) == 0);  // until close
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("overlay: parallel_for runs every index once during setup and answers STATE outside of it") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  static std::vector<int> seen;
  seen.assign(5, 0);
  const auto body = [](void*, std::uint32_t i) { ++seen[i]; };
  f.behaviour.stage = [body](const vnr_host* host, const vnr_base_rows*, vnr_err*) { return host->parallel_for(host, 5, body, nullptr); };
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  REQUIRE((*binding)->Stage(f.limits, nullptr));
  CHECK(seen == std::vector<int>(5, 1));
  CHECK(f.behaviour.host->parallel_for(f.behaviour.host, 5, body, nullptr) == VNR_E_STATE);
  CHECK(f.behaviour.host->get_extension(f.behaviour.host, "veneer.gemm/1") == nullptr);
}

TEST_CASE("overlay: a description that is not JSON or endless is E417") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  auto binding = (*artifact)->Bind(f.site, f.Source());
  REQUIRE(binding);
  f.behaviour.description = R"({"rank":4})";
  CHECK((*binding)->Describe() == f.behaviour.description);
  f.behaviour.description = "{rank}";
  CHECK_FALSE((*binding)->Describe());
  f.behaviour.description = "\"" + std::string(1 << 17, 'x') + "\"";
  CHECK_FALSE((*binding)->Describe());
}

TEST_CASE("overlay: a source that breaks the declaration is refused before bind is called") {
  Fixture f;
  MemoryBudget budget(1 << 20);
  auto artifact = f.Open(budget);
  REQUIRE(artifact);
  OverlaySource source = f.Source();
  source.tensors[0].tensor.shape = {5};
  f.behaviour.tensor_data = nullptr;
  const auto binding = (*artifact)->Bind(f.site, source);
  REQUIRE_FALSE(binding);
  CHECK(binding.error().code == Code::SHAPE_MISMATCH);
  CHECK(f.behaviour.tensor_data == nullptr);
}
