#include "tests/core/decode/stack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/compose/replace_conflicts.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

// The plugins of this build tree, found by kind as the program finds them.
const Catalog& Plugins() {
  static const Catalog catalog = [] {
    CatalogOptions options;
    const std::filesystem::path build = VENEER_BINARY_DIR;
    options.directories = {build / "lib/veneer/overlays/abi1", build / "tests/core/decode/lib"};
    auto scanned = Catalog::Scan(options);
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

RoleTensor Tensor(const std::string& role, std::vector<std::uint64_t> shape, const std::vector<float>& values) {
  return {role, {role, VNR_F32, std::move(shape), std::as_bytes(std::span(values))}};
}

reference::Vector Wide(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace

const Site& Stack::SiteOf(const std::string& id) const {
  const Site* site = base_->sites().Find(id);
  if (site == nullptr) throw std::runtime_error("no site " + id);
  return *site;
}

const std::vector<float>& Stack::Numbers(std::uint64_t n, float low, float high) {
  std::vector<float>& values = numbers_.emplace_back(Uniform(n, 1.0F, 7000 + numbers_.size()));
  for (float& value : values) value = low + (high - low) * 0.5F * (value + 1);
  return values;
}

void Stack::Add(const std::string& kind, const std::string& site, std::vector<RoleTensor> tensors, std::vector<ParamValue> params) {
  AddAdapter(kind, {{site, {std::move(tensors), std::move(params)}, 0, std::nullopt}});
}

void Stack::AddAdapter(const std::string& kind, std::vector<AdapterSite> sites, std::vector<Replacement> replacements) {
  auto adapter = std::make_shared<Adapter>();
  adapter->kind = kind;
  adapter->format = "safetensors";
  adapter->sites = std::move(sites);
  adapter->replacements = std::move(replacements);
  StageAdapter& entry = adapters_.emplace_back();
  entry.name = "a" + std::to_string(adapters_.size());
  entry.adapter = std::move(adapter);
}

reference::Edit& Stack::AddEdit(const std::string& site) {
  last_site_ = site;
  return edits_[site].emplace_back();
}

Stack& Stack::AtStrength(double w) {
  adapters_.back().strength = w;
  std::vector<reference::Edit>& edits = edits_.at(last_site_);
  if (w == 0) {
    edits.pop_back();
    return *this;
  }
  reference::Edit& edit = edits.back();
  edit.scale *= w;
  for (reference::Vector* added : {&edit.d, &edit.bias})
    for (double& value : *added) value *= w;
  for (reference::Vector* factor : {&edit.g, &edit.t})
    for (double& value : *factor) value = 1 + w * (value - 1);
  return *this;
}

Stack& Stack::Sparse(const std::string& site, std::uint64_t entries, double scale) {
  const Site& at = SiteOf(site);
  const std::vector<float>& values = Numbers(entries, -0.5F, 0.5F);
  std::vector<std::int32_t> indices(2 * entries);
  reference::Edit& edit = AddEdit(site);
  edit.d.assign(at.out * at.in, 0);
  const std::uint64_t stride = at.out * at.in / entries;  // one place in each of `entries` equal parts
  for (std::uint64_t k = 0; k < entries; ++k) {
    const std::uint64_t place = k * stride + (k * 7919) % stride;
    indices[k] = static_cast<std::int32_t>(place / at.in);
    indices[entries + k] = static_cast<std::int32_t>(place % at.in);
    edit.d[place] = scale * static_cast<double>(values[k]);
  }
  const auto stored = std::as_bytes(std::span(indices));
  const std::vector<std::byte>& kept = bytes_.emplace_back(stored.begin(), stored.end());
  ParamValue param;
  param.path = "/scale";
  param.d = scale;
  Add("sparse-delta", site, {Tensor("values", {entries}, values), {"indices", {"indices", VNR_I32, {2, entries}, kept}}}, {param});
  return *this;
}

Stack& Stack::Dense(const std::string& site, DType dtype) {
  const Site& at = SiteOf(site);
  const std::vector<float>& values = Numbers(at.out * at.in, -0.05F, 0.05F);
  reference::Edit& edit = AddEdit(site);
  if (dtype == VNR_F32) {
    edit.d = Wide(values);
    Add("residual", site, {Tensor("weight", {at.out, at.in}, values)}, {});
    return *this;
  }
  std::vector<std::byte>& kept = bytes_.emplace_back(2 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t high = std::bit_cast<std::uint32_t>(values[i]) & 0xFFFF0000U;  // a bf16, rounded towards zero
    const auto half = static_cast<std::uint16_t>(high >> 16);
    std::memcpy(&kept[2 * i], &half, sizeof half);
    edit.d.push_back(static_cast<double>(std::bit_cast<float>(high)));
  }
  Add("residual", site, {{"weight", {"weight", VNR_BF16, {at.out, at.in}, kept}}}, {});
  return *this;
}

Stack& Stack::LowRank(const std::string& site, std::uint64_t rank, double scale, bool bias) {
  const Site& at = SiteOf(site);
  const bool is_embedding = at.shape_class == SiteClass::kEmbedding;
  const std::vector<float>& a = Numbers(rank * (is_embedding ? at.out : at.in), -1, 1);
  const std::vector<float>& b = Numbers((is_embedding ? at.in : at.out) * rank, -0.1F, 0.1F);
  std::vector<RoleTensor> tensors;
  tensors.push_back(Tensor(is_embedding ? "embedding_A" : "A", {rank, is_embedding ? at.out : at.in}, a));
  tensors.push_back(Tensor(is_embedding ? "embedding_B" : "B", {is_embedding ? at.in : at.out, rank}, b));
  reference::Edit& edit = AddEdit(site);
  edit.rank = rank;
  edit.scale = scale;
  if (is_embedding) {  // the table is [vocab, width]: D = scale * A^T B^T
    edit.a.resize(rank * at.in);
    edit.b.resize(at.out * rank);
    for (std::uint64_t u = 0; u < rank; ++u) {
      for (std::uint64_t k = 0; k < at.in; ++k) edit.a[u * at.in + k] = static_cast<double>(b[k * rank + u]);
      for (std::uint64_t v = 0; v < at.out; ++v) edit.b[v * rank + u] = static_cast<double>(a[u * at.out + v]);
    }
  } else {
    edit.a = Wide(a);
    edit.b = Wide(b);
  }
  if (bias) {
    const std::vector<float>& values = Numbers(at.out, -1, 1);
    tensors.push_back(Tensor("bias", {at.out}, values));
    edit.bias = Wide(values);
    for (double& value : edit.bias) value *= scale;
  }
  ParamValue param;
  param.path = "/scale";
  param.d = scale;
  Add("lora", site, std::move(tensors), {param});
  return *this;
}

Stack& Stack::Rescale(const std::string& site, Scales what) {
  const Site& at = SiteOf(site);
  const bool is_input = what == Scales::kInput;
  const std::vector<float>& l = Numbers(is_input ? at.in : at.out, 0.5F, 1.5F);
  reference::Edit& edit = AddEdit(site);
  (is_input ? edit.t : edit.g) = Wide(l);
  edit.scales_bias = !is_input;
  const std::vector<std::uint64_t> shape = is_input ? std::vector<std::uint64_t>{1, at.in} : std::vector<std::uint64_t>{at.out, 1};
  Add("ia3", site, {Tensor(is_input ? "l_in" : "l_out", shape, l)}, {});
  return *this;
}

Stack& Stack::Replace(const std::string& site, std::vector<std::uint64_t> rows) {
  const Site& at = SiteOf(site);
  const bool is_vector = at.shape_class == SiteClass::kVector;
  const std::uint64_t width = is_vector ? at.out : at.in, count = is_vector ? 1 : rows.empty() ? at.out : rows.size();
  const std::vector<float>& values = Numbers(count * width, is_vector ? 0.5F : -0.2F, is_vector ? 1.5F : 0.2F);
  Replacement replacement{site, Tensor("", {count, width}, values).tensor, {}};
  reference::Edit& edit = AddEdit(site);
  if (rows.empty()) edit.w = Wide(values);
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    replacement.rows.push_back({rows[i], i});
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i * width);
    edit.rows[rows[i]] = {first, first + static_cast<std::ptrdiff_t>(width)};
  }
  std::ranges::sort(replacement.rows, {}, &Replacement::Row::lane);
  AddAdapter(std::string(kReplaceKind), {}, {std::move(replacement)});
  return *this;
}

Stack& Stack::Probes(const std::vector<Probe>& probes, std::int64_t share_key, bool fails) {
  std::vector<AdapterSite> sites;
  for (const Probe& probe : probes) {
    std::vector<ParamValue> params(3);
    params[0].path = "/value";
    params[0].d = probe.value;
    params[1].path = "/share";
    params[1].type = VNR_PARAM_INT;
    params[1].i = share_key;
    params[2].path = "/fails";
    params[2].type = VNR_PARAM_BOOL;
    params[2].i = fails ? 1 : 0;
    sites.push_back({probe.site, {{}, std::move(params)}, 0, std::nullopt});
  }
  AddAdapter("test.probe", std::move(sites));
  return *this;
}

Stack& Stack::CallMarks(const std::string& site, std::int64_t level) {
  std::vector<ParamValue> params(1);
  params[0].path = "/marks";
  params[0].type = VNR_PARAM_INT;
  params[0].i = level;
  AddAdapter("test.probe", {{site, {{}, std::move(params)}, 0, std::nullopt}});
  return *this;
}

std::shared_ptr<const StagedComposition> Stack::Stage(ComputeMode mode) const {
  Composition composition;
  composition.base_model_hash = Sha256::Of(base_->bytes());
  composition.base_format = "gguf";
  for (const StageAdapter& adapter : adapters_) {
    AdapterEntry& entry = composition.adapters.emplace_back();
    entry.name = adapter.name;
    entry.kind = adapter.adapter->kind;
    entry.target_layers = EditedSites(*adapter.adapter);
  }
  StageOptions options;
  options.mode = mode;
  auto staged = StageComposition(base_, adapters_, composition, Plugins(), options);
  if (!staged) throw std::runtime_error(staged.error().Text());
  return *std::move(staged);
}

std::unique_ptr<Decoder> MakeDecoder(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options) {
  auto decoder = Decoder::Create(std::move(composition), options);
  if (!decoder) throw std::runtime_error(decoder.error().Text());
  return *std::move(decoder);
}

std::vector<float> LogitsOf(Decoder& decoder, const std::vector<TokenId>& tokens, const std::vector<std::size_t>& pieces) {
  std::vector<float> all;
  const auto take = [&all](std::size_t, std::span<const float> row) -> Status {
    all.insert(all.end(), row.begin(), row.end());
    return {};
  };
  std::size_t done = 0;
  for (std::size_t i = 0; done < tokens.size(); ++i) {
    const std::size_t n = std::min(i < pieces.size() ? pieces[i] : tokens.size(), tokens.size() - done);
    const Status fed = decoder.Feed(std::span(tokens).subspan(done, n), true, take);
    if (!fed) throw std::runtime_error(fed.error().Text());
    done += n;
  }
  return all;
}

std::vector<TokenId> SomeTokens(std::size_t n, std::uint32_t vocab) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<TokenId>((i * i * 31 + i * 17 + 5) % vocab));
  return tokens;
}

}  // namespace veneer
