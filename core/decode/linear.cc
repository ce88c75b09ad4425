#include "core/decode/linear.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace veneer {
namespace {

constexpr std::uint64_t kAlign = 64;
constexpr std::uint64_t kRowsAtOnce = kTileLanes * kRunTiles;  // of a call of the kernels: row pointers on the stack

constexpr std::uint64_t RoundUp(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }
std::uint64_t AlignUp(std::uint64_t n) { return RoundUp(n, kAlign); }
std::uint64_t Groups(std::uint64_t rows) { return (rows + kernels::kPackedTokens - 1) / kernels::kPackedTokens; }
std::uint64_t Blocks(std::uint64_t n) { return (n + kernels::kActivationBlock - 1) / kernels::kActivationBlock; }

// Tokens from which a type's rows are unpacked for all of them; the bits are the same on either side. Fewer than four tokens are multiplied
// faster one by one (measured: 4 tokens at 1.1 times that speed, 3 at 0.9), and unpacking a superblock's scales takes as long as
// multiplying some thirty tokens with them (kernels/README.md has the crossovers).
std::uint32_t PackedFrom(DType dtype) {
  constexpr std::uint32_t kSuperblockTokens = 32;
  return InfoOf(dtype).block_elements > kernels::kActivationBlock ? kSuperblockTokens : kernels::kPackedTokens;
}

// A pointer that walks one allocation, or none to learn its size; every part starts at a multiple of 64 bytes.
class Carver {
 public:
  explicit Carver(std::byte* data) : data_(data) {}
  template <class T>
  T* Take(std::uint64_t count) {
    T* part = data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + offset_);
    offset_ += AlignUp(count * sizeof(T));
    return part;
  }
  [[nodiscard]] std::uint64_t size() const { return offset_; }

 private:
  std::byte* data_;
  std::uint64_t offset_ = 0;
};

}  // namespace

void LinearNeeds::Include(const LinearNeeds& other) {
  x_floats = std::max(x_floats, other.x_floats);
  q_blocks = std::max(q_blocks, other.q_blocks);
  packed_blocks = std::max(packed_blocks, other.packed_blocks);
  prepared_bytes = std::max(prepared_bytes, other.prepared_bytes);
  tile_lanes = std::max(tile_lanes, other.tile_lanes);
  panel_lanes = std::max(panel_lanes, other.panel_lanes);
  plugin_bytes = std::max(plugin_bytes, other.plugin_bytes);
}

void LinearScratch::Free::operator()(std::byte* data) const { std::free(data); }

LinearNeeds LinearNeeds::OfPlainGroup(std::uint64_t in, ComputeMode mode) {
  LinearNeeds needs;
  needs.x_floats = AlignUp(in);
  needs.tile_lanes = kTileLanes;
  if (mode == ComputeMode::kFast) {
    needs.q_blocks = needs.packed_blocks = Blocks(in);
    needs.panel_lanes = kPanelLanes;
  }
  return needs;
}

std::uint64_t LinearScratch::Carve(std::byte* data, std::uint32_t rows, std::uint32_t n_workers) {
  Carver carver(data);
  x_ = carver.Take<float>(rows * needs_.x_floats);
  q_ = carver.Take<std::int8_t>(rows * needs_.q_blocks * kernels::kActivationBlock);
  d_ = carver.Take<float>(rows * needs_.q_blocks);
  sum_ = carver.Take<std::int32_t>(rows * needs_.q_blocks);
  packed_ = carver.Take<kernels::PackedBlock>(Groups(rows) * needs_.packed_blocks);
  prepared_ = carver.Take<std::byte>(rows * needs_.prepared_bytes);
  plugin_ = carver.Take<std::byte>(n_workers * needs_.plugin_bytes);
  tile_floats_ = RoundUp(std::max(needs_.tile_lanes * std::max<std::uint64_t>(std::min(rows, kTokenBlock), kRunTiles),
                                  needs_.panel_lanes * std::min(rows, kTileTokens)),
                         kAlign / sizeof(float));
  tile_ = carver.Take<float>(n_workers * tile_floats_);
  panel_ = carver.Take<std::byte>(needs_.panel_lanes == 0 ? 0 : n_workers * kernels::kTileScratchBytes);
  return carver.size();
}

std::uint64_t LinearScratch::Bytes(const LinearNeeds& needs, std::uint32_t rows, std::uint32_t n_workers) {
  return LinearScratch(needs).Carve(nullptr, rows, n_workers);
}

LinearScratch::LinearScratch(const LinearNeeds& needs, std::uint32_t rows, std::uint32_t n_workers)
    : bytes_(Bytes(needs, rows, n_workers)), needs_(needs) {
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlign, bytes_)));
  if (!data_) throw std::bad_alloc();
  Carve(data_.get(), rows, n_workers);
}

LinearGroup::LinearGroup(const StagedComposition& composition, const std::vector<const Site*>& sites, const kernels::Table& kernels)
    : kernels_(&kernels), is_fast_(composition.mode() == ComputeMode::kFast), in_(sites.front()->in) {
  needs_.x_floats = AlignUp(in_);
  for (const Site* site : sites) PlanSite(composition, *site);
}

void LinearGroup::PlanSite(const StagedComposition& composition, const Site& site) {
  const StagedSite& staged = composition.at(site);
  const DType dtype = staged.weight.dtype;
  SitePlan plan{.out = site.out, .weight = staged.weight, .rows = staged.rows, .bias = staged.bias};
  plan.is_quantized = is_fast_ && kernels_->dot_rows_q8[dtype] != nullptr;
  plan.row_bytes = RowBytes(dtype, site.in);

  std::uint64_t quantum = 1, plugin_scratch = 0;
  for (const OverlayBinding* binding : staged.overlays) {
    const vnr_program& program = binding->program();
    quantum = std::lcm(quantum, std::uint64_t{program.lane_quantum});
    plugin_scratch = std::max(plugin_scratch, program.thread_scratch_bytes);
    plan.overlays.push_back(
        {.calls = binding->hot(), .binding = binding, .prepare_units = program.prepare_units, .det_level = program.det_level});
  }
  plan.tile = RoundUp(kTileLanes, quantum);
  const bool has_tiles = plan.is_quantized && kernels_->multiply_tile[dtype] != nullptr;
  plan.panel_tile = has_tiles ? RoundUp(kPanelLanes, quantum) : 0;
  plan.packed_from = has_tiles ? PackedFrom(dtype) : UINT32_MAX;
  packed_from_ = std::min(packed_from_, plan.packed_from);
  needs_.tile_lanes = std::max(needs_.tile_lanes, plan.tile);
  needs_.panel_lanes = std::max(needs_.panel_lanes, plan.panel_tile);
  needs_.plugin_bytes = std::max(needs_.plugin_bytes, AlignUp(plugin_scratch));
  PlanVersions(plan);
  PlanPrepared(plan);
  PlanQuantized(plan);
  plans_.push_back(std::move(plan));
}

// x_k = x; going back through the manifest, every transform makes the version that the overlays before it see.
void LinearGroup::PlanVersions(SitePlan& plan) {
  std::uint64_t version = 0;
  for (auto overlay = plan.overlays.rbegin(); overlay != plan.overlays.rend(); ++overlay) {
    overlay->x_offset = version;
    const vnr_program& program = overlay->binding->program();
    if ((program.flags & VNR_TRANSFORMS_X) == 0) continue;
    overlay->transform_units = static_cast<std::uint32_t>((in_ + program.transform_unit - 1) / program.transform_unit);
    version = needs_.x_floats;
    overlay->transformed_offset = version;
    needs_.x_floats += AlignUp(in_);
  }
  plan.x0_offset = version;
}

void LinearGroup::PlanPrepared(SitePlan& plan) {
  const auto shares = [](const OverlayPlan& mine) {
    return [&mine](const OverlayPlan& other) { return other.x_offset == mine.x_offset && other.binding->SharesPrepared(*mine.binding); };
  };
  for (OverlayPlan& mine : plan.overlays) {
    const OverlayPlan* same = nullptr;
    for (const SitePlan& earlier : plans_)
      if (const auto found = std::ranges::find_if(earlier.overlays, shares(mine)); found != earlier.overlays.end()) same = &*found;
    mine.prepared_offset = same == nullptr ? needs_.prepared_bytes : same->prepared_offset;
    if (same == nullptr) {
      needs_.prepared_bytes += AlignUp(mine.binding->program().prepared_bytes_per_token);
    } else {
      mine.prepare_units = 0;
    }
    prepare_units_ += mine.prepare_units;
  }
}

// Sites with the same x_0 share its quantization.
void LinearGroup::PlanQuantized(SitePlan& plan) {
  if (!plan.is_quantized) return;
  const auto same = std::ranges::find_if(plans_, [&](const SitePlan& p) { return p.is_quantized && p.x0_offset == plan.x0_offset; });
  plan.quantizes = same == plans_.end();
  plan.q_offset = plan.quantizes ? needs_.q_blocks : same->q_offset;
  if (plan.quantizes) needs_.q_blocks += Blocks(in_);
  if (needs_.panel_lanes > 0) needs_.packed_blocks = needs_.q_blocks;
}

vnr_io LinearGroup::IoAt(const OverlayPlan& plan, std::uint32_t x_row, std::uint32_t prepared_row, std::uint32_t tokens,
                         std::uint32_t worker, LinearScratch& scratch) const {
  vnr_io io{};
  io.struct_size = sizeof io;
  io.tokens = tokens;
  io.x = scratch.x_ + x_row * scratch.needs_.x_floats + plan.x_offset;
  io.x_out = scratch.x_ + x_row * scratch.needs_.x_floats + plan.transformed_offset;
  io.x_stride = io.x_out_stride = scratch.needs_.x_floats;
  io.prepared = scratch.prepared_ + prepared_row * scratch.needs_.prepared_bytes + plan.prepared_offset;
  io.prepared_stride = scratch.needs_.prepared_bytes;
  io.scratch = scratch.plugin_ + worker * scratch.needs_.plugin_bytes;
  return io;
}

void LinearGroup::MakeVersions(std::uint32_t row, std::uint32_t tokens, std::uint32_t worker, LinearScratch& scratch) const {
  for (const SitePlan& plan : plans_) {
    for (auto overlay = plan.overlays.rbegin(); overlay != plan.overlays.rend(); ++overlay) {
      if (overlay->transform_units > 0)
        overlay->calls.Transform(IoAt(*overlay, row, 0, tokens, worker, scratch), 0, overlay->transform_units);
    }
  }
}

void LinearGroup::Quantize(std::uint32_t row, std::uint32_t tokens, LinearScratch& scratch) const {
  const LinearNeeds& needs = scratch.needs_;
  for (const SitePlan& plan : plans_) {
    if (!plan.quantizes) continue;
    for (std::uint64_t t = row; t < row + tokens; ++t)
      kernels_->quantize_activations(scratch.x_ + t * needs.x_floats + plan.x0_offset, in_,
                                     scratch.q_ + (t * needs.q_blocks + plan.q_offset) * kernels::kActivationBlock,
                                     scratch.d_ + t * needs.q_blocks + plan.q_offset, scratch.sum_ + t * needs.q_blocks + plan.q_offset);
  }
}

// The quantized x_0 of a site from token row `row` on.
kernels::QuantizedActivations LinearGroup::QuantizedAt(const SitePlan& plan, std::uint64_t row, const LinearScratch& scratch) {
  const std::uint64_t stride = scratch.needs_.q_blocks, at = row * stride + plan.q_offset;
  return {scratch.q_ + at * kernels::kActivationBlock, scratch.d_ + at, scratch.sum_ + at, stride * kernels::kActivationBlock, stride};
}

// `row` is a multiple of kPackedTokens.
void LinearGroup::Pack(std::uint32_t row, std::uint32_t tokens, LinearScratch& scratch) const {
  for (const SitePlan& plan : plans_) {
    if (!plan.quantizes) continue;
    for (std::uint32_t t = 0; t < tokens; t += kernels::kPackedTokens)
      kernels_->pack_activations(QuantizedAt(plan, row + t, scratch), std::min(kernels::kPackedTokens, tokens - t), Blocks(in_),
                                 scratch.packed_ + Groups(row + t) * scratch.needs_.packed_blocks + plan.q_offset);
  }
}

std::uint64_t LinearGroup::TileOf(const SitePlan& plan, std::uint32_t tokens) {
  return IsPacked(plan, tokens) ? plan.panel_tile : plan.tile;
}

std::uint64_t LinearGroup::TilesOf(const SitePlan& plan, std::uint32_t tokens) {
  const std::uint64_t tile = TileOf(plan, tokens);
  return (plan.out + tile - 1) / tile;
}

// y = W_0 x_0 of the part's lanes and tokens. With a panel, rows are unpacked there and packed activations multiplied.
void LinearGroup::Multiply(const Part& part, const LinearScratch& scratch, std::byte* panel) const {
  const SitePlan& plan = *part.plan;
  const StoredWeight& weight = plan.weight;
  const LinearNeeds& needs = scratch.needs_;
  const float* x0 = scratch.x_ + part.x_row * needs.x_floats + plan.x0_offset;
  std::array<const void*, kRowsAtOnce> rows;
  std::array<kernels::ScaledRow, kRowsAtOnce> scaled;  // what rows of types with scales in other tensors point at
  for (std::uint64_t first = part.lane0; first < part.lane1; first += kRowsAtOnce) {
    const auto n = static_cast<std::uint32_t>(std::min(kRowsAtOnce, part.lane1 - first));
    RowPointers(weight, in_, plan.row_bytes, first, n, rows.data(), scaled.data());
    float* y = part.y + (first - part.lane0);
    if (panel != nullptr) {
      kernels_->multiply_tile[weight.dtype](rows.data(), n, in_, scratch.packed_ + Groups(part.x_row) * needs.packed_blocks + plan.q_offset,
                                            needs.packed_blocks, part.tokens, panel, y, part.stride);
    } else if (plan.is_quantized) {
      kernels_->dot_rows_q8[weight.dtype](rows.data(), n, in_, QuantizedAt(plan, part.x_row, scratch), part.tokens, y, part.stride);
    } else {
      kernels_->dot_rows[weight.dtype](rows.data(), n, in_, x0, needs.x_floats, part.tokens, y, part.stride);
    }
  }
  auto replaced = std::ranges::lower_bound(plan.rows, part.lane0, {}, &StoredRow::lane);
  for (; replaced != plan.rows.end() && replaced->lane < part.lane1; ++replaced) {
    const void* data = replaced->data;
    float* y = part.y + (replaced->lane - part.lane0);
    kernels_->dot_rows[replaced->dtype](&data, 1, in_, x0, needs.x_floats, part.tokens, y, part.stride);
  }
}

// The overlays on the base's product, the bias, and the sum with what the output had. A part is some tiles: level 2 promises that they may
// be one call; others need the grid.
void LinearGroup::Finish(const Part& part, std::uint64_t tile, std::uint32_t worker, LinearScratch& scratch) const {
  const std::uint64_t lanes = part.lane1 - part.lane0;
  for (std::uint32_t t = 0; t < part.tokens; t += kTokenBlock) {
    for (const OverlayPlan& overlay : part.plan->overlays) {
      vnr_io io = IoAt(overlay, part.x_row + t, part.t0 + t, std::min(kTokenBlock, part.tokens - t), worker, scratch);
      io.y = part.y + t * part.stride - part.lane0;  // apply writes y[lane]
      io.y_stride = part.stride;
      const std::uint64_t step = overlay.det_level >= 2 ? lanes : tile;
      for (std::uint64_t first = part.lane0; first < part.lane1; first += step)
        overlay.calls.Apply(io, first, std::min(first + step, part.lane1));
    }
  }
  for (std::uint32_t t = 0; t < part.tokens; ++t) {
    float* y = part.y + t * part.stride;
    if (!part.plan->bias.empty()) kernels_->add(part.plan->bias.data() + part.lane0, y, lanes);
    if (part.output->accumulate) kernels_->add(y, part.output->y + (part.t0 + t) * part.output->stride + part.lane0, lanes);
  }
}

// The units of all overlays are one row that the workers cut into equal parts: fewer calls, of more units each, than a part of every
// overlay.
void LinearGroup::PrepareOne(ThreadPool& pool, std::uint32_t worker, Input input, LinearScratch& scratch) const {
  input(0, scratch.x_ + worker * scratch.needs_.x_floats);
  MakeVersions(worker, 1, worker, scratch);
  Quantize(worker, 1, scratch);
  const ThreadPool::Range mine = pool.Share(prepare_units_, worker);
  std::uint64_t first = 0;  // unit of the overlay looked at
  for (const SitePlan& plan : plans_) {
    for (const OverlayPlan& overlay : plan.overlays) {
      const std::uint64_t begin = std::max(first, mine.begin), end = std::min(first + overlay.prepare_units, mine.end);
      if (begin < end)
        overlay.calls.Prepare(IoAt(overlay, worker, 0, 1, worker, scratch), static_cast<std::uint32_t>(begin - first),
                              static_cast<std::uint32_t>(end - first));
      first += overlay.prepare_units;
    }
  }
}

void LinearGroup::PrepareBlocks(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch) const {
  const auto blocks = pool.Share((tokens + kTokenBlock - 1) / kTokenBlock, worker);
  for (std::uint64_t block = blocks.begin; block < blocks.end; ++block) {
    const auto t0 = static_cast<std::uint32_t>(block * kTokenBlock);
    const std::uint32_t n = std::min(kTokenBlock, tokens - t0);
    for (std::uint32_t t = t0; t < t0 + n; ++t) input(t, scratch.x_ + t * scratch.needs_.x_floats);
    MakeVersions(t0, n, worker, scratch);
    Quantize(t0, n, scratch);
    if (tokens >= packed_from_) Pack(t0, n, scratch);
    for (const SitePlan& plan : plans_)
      for (const OverlayPlan& overlay : plan.overlays)
        if (overlay.prepare_units > 0) overlay.calls.Prepare(IoAt(overlay, t0, t0, n, worker, scratch), 0, overlay.prepare_units);
  }
}

// Calls body(site, first lane, lane after the last) for tiles of one site, until the workers have shared out all tiles of the group.
template <class Body>
void LinearGroup::ClaimTiles(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, std::uint64_t at_once, const Body& body) const {
  const std::uint64_t n_tiles = std::accumulate(plans_.begin(), plans_.end(), std::uint64_t{0},
                                                [&](std::uint64_t sum, const SitePlan& plan) { return sum + TilesOf(plan, tokens); });
  for (auto mine = pool.Claim(n_tiles, at_once, worker); mine.begin < mine.end; mine = pool.Claim(n_tiles, at_once, worker)) {
    std::size_t site = 0;     // of the tile looked at
    std::uint64_t first = 0;  // number of that site's first tile in the group
    for (std::uint64_t tile = mine.begin; tile < mine.end;) {
      while (tile >= first + TilesOf(plans_[site], tokens)) first += TilesOf(plans_[site++], tokens);
      const std::uint64_t last = std::min(mine.end, first + TilesOf(plans_[site], tokens)), lanes = TileOf(plans_[site], tokens);
      body(site, (tile - first) * lanes, std::min((last - first) * lanes, plans_[site].out));
      tile = last;
    }
  }
}

// A worker multiplies all its rows of the base before it applies overlays to them: every change between the two begins with a wait for
// memory, and by then the others have prepared their units. Parts wait in the output itself, or in the tile where that has something.
void LinearGroup::RunOne(ThreadPool& pool, std::uint32_t worker, Input input, LinearScratch& scratch,
                         std::span<const Output> outputs) const {
  PrepareOne(pool, worker, input, scratch);
  const ThreadPool::Arrival prepared = pool.Arrive();

  constexpr std::size_t kPartsHeld = 32;
  std::array<Part, kPartsHeld> held;
  std::size_t n_held = 0;
  float* const tile = scratch.tile_ + worker * scratch.tile_floats_;
  std::uint64_t used = 0;  // floats of the tile
  const auto finish = [&] {
    if (n_held > 0) pool.Await(prepared);
    for (std::size_t i = 0; i < n_held; ++i) Finish(held[i], held[i].plan->tile, worker, scratch);
    n_held = 0;
    used = 0;
  };
  ClaimTiles(pool, worker, 1, kRunTiles, [&](std::size_t site, std::uint64_t lane0, std::uint64_t lane1) {
    const Output& output = outputs[site];
    const std::uint64_t lanes = lane1 - lane0;
    if (n_held == held.size() || (output.accumulate && used + lanes > scratch.tile_floats_)) finish();
    const Part part{&plans_[site], &output, lane0, lane1, 0, 1, worker, output.accumulate ? tile + used : output.y + lane0, lanes};
    Multiply(part, scratch, nullptr);
    if (part.plan->overlays.empty() && part.plan->bias.empty() && !output.accumulate) return;
    if (output.accumulate) used += lanes;
    if (Part* last = n_held == 0 ? nullptr : &held[n_held - 1]; last != nullptr && last->plan == part.plan && last->lane1 == lane0) {
      last->lane1 = lane1;  // y goes on there, too
      last->stride += lanes;
    } else {
      held[n_held++] = part;
    }
  });
  finish();
}

void LinearGroup::RunBlocks(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch,
                            std::span<const Output> outputs) const {
  PrepareBlocks(pool, worker, tokens, input, scratch);
  pool.Barrier();
  ClaimTiles(pool, worker, tokens, 1, [&](std::size_t site, std::uint64_t lane0, std::uint64_t lane1) {
    const SitePlan& plan = plans_[site];
    const Output& output = outputs[site];
    const bool is_packed = IsPacked(plan, tokens);
    const std::uint32_t step = is_packed ? kTileTokens : kTokenBlock;
    std::byte* panel = is_packed ? scratch.panel_ + worker * kernels::kTileScratchBytes : nullptr;
    for (std::uint32_t t0 = 0; t0 < tokens; t0 += step) {
      float* y = output.accumulate ? scratch.tile_ + worker * scratch.tile_floats_ : output.y + t0 * output.stride + lane0;
      const Part part{
          &plan, &output, lane0, lane1, t0, std::min(step, tokens - t0), t0, y, output.accumulate ? lane1 - lane0 : output.stride};
      Multiply(part, scratch, panel);
      Finish(part, TileOf(plan, tokens), worker, scratch);
    }
  });
}

void LinearGroup::Run(ThreadPool& pool, std::uint32_t worker, std::uint32_t tokens, Input input, LinearScratch& scratch,
                      std::span<const Output> outputs) const {
  if (tokens == 1) {
    RunOne(pool, worker, input, scratch, outputs);
  } else {
    RunBlocks(pool, worker, tokens, input, scratch, outputs);
  }
}

}  // namespace veneer
