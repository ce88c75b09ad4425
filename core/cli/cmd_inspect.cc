// inspect, plan, plugin: looking without touching.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "core/adapter/gguf_reader.h"
#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/compose/path_source.h"
#include "core/format/gguf.h"
#include "core/format/safetensors.h"

namespace veneer::cli {
namespace {

void PrintFacts(const OutJson& facts, bool json) {
  if (json) {
    PrintJson(facts);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : facts.items())
    if (!value.is_structured()) rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  Print(Table(rows));
  for (const auto& [name, value] : facts.items()) {
    if (!value.is_array() || value.empty() || !value[0].is_object()) continue;
    std::vector<std::vector<std::string>> table(1);
    for (const auto& [column, cell] : value[0].items()) table[0].push_back(column);
    for (const auto& row : value) {
      auto& cells = table.emplace_back();
      for (const auto& [column, cell] : row.items()) cells.push_back(cell.is_string() ? cell.get<std::string>() : cell.dump());
    }
    Print(fmt::format("\n{}:\n{}", name, Table(table)));
  }
}

Result<OutJson> InspectBase(const std::filesystem::path& path) {
  VENEER_ASSIGN(FileBytes file, FileBytes::Map(path));
  VENEER_ASSIGN(const auto base, Base::OpenGguf(std::move(file)));
  const ModelConfig& config = base->config();
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> types;  // name -> sites, bytes
  for (const Site& site : base->sites().sites()) {
    auto& [count, bytes] = types[std::string(InfoOf(site.weight.dtype).name)];
    ++count;
    bytes += site.weight.bytes.size();
  }
  OutJson facts{{"what", "base"},
                {"format", base->format()},
                {"bytes", base->bytes().size()},
                {"sha256", HashBytes(base->bytes(), {}).Hex()},
                {"architecture", config.arch},
                {"layers", config.n_layers},
                {"hidden", config.hidden},
                {"ffn", config.ffn},
                {"heads", config.n_heads},
                {"kv_heads", config.n_kv_heads},
                {"head_dim", config.head_dim},
                {"vocab", config.vocab},
                {"context", config.context_length},
                {"tied_head", config.tied_head},
                {"quantization",
                 fmt::format("{} {} block {}", base->quantization().dtype, base->quantization().scheme, base->quantization().block_size)},
                {"tokenizer", base->tokenizer().id}};
  facts["types"] = OutJson::array();
  for (const auto& [name, entry] : types) facts["types"].push_back({{"type", name}, {"sites", entry.first}, {"bytes", entry.second}});
  return facts;
}

// With a base to read it against: kind, sites, ranks and scales. Without one: the tensors as they are.
Result<OutJson> InspectAdapter(Session& session, const std::string& path) {
  VENEER_ASSIGN(AdapterBlobs blobs, OpenAdapterBlobs(path));
  OutJson facts{{"what", "adapter"}, {"file_hash", blobs.file_hash.Text()}, {"bytes", blobs.file_size}};
  if (blobs.config_hash) facts["config_hash"] = blobs.config_hash->Text();
  if (session.options().base || session.options().manifest) {
    VENEER_ASSIGN(const auto base, session.SelectedBase());
    VENEER_ASSIGN(Catalog * catalog, session.catalog());
    VENEER_ASSIGN(const Adapter adapter,
                  ReadAdapter(std::move(blobs.files), *base, *catalog, {.kind = session.options().kind.value_or("")}));
    facts["kind"] = adapter.kind;
    facts["format"] = adapter.format;
    facts["rank"] = adapter.rank;
    for (std::size_t i = 0; i < adapter.notes.size(); ++i) facts[fmt::format("note {}", i + 1)] = adapter.notes[i];
    facts["sites"] = OutJson::array();
    for (const AdapterSite& site : adapter.sites)
      facts["sites"].push_back({{"site", site.site}, {"rank", site.rank}, {"scale", site.scale ? OutJson(*site.scale) : OutJson("-")}});
    if (!adapter.replacements.empty()) facts["replaces"] = OutJson::array();
    for (const Replacement& one : adapter.replacements)
      facts["replaces"].push_back({{"site", one.site},
                                   {"type", InfoOf(one.tensor.dtype).name},
                                   {"rows", one.rows.empty() ? OutJson("all") : OutJson(one.rows.size())}});
    return facts;
  }
  std::vector<TensorView> tensors;
  if (FormatOf(blobs.files) == "gguf") {
    VENEER_ASSIGN(const GgufFile file, GgufFile::Parse(blobs.files.weights.bytes()));
    tensors = file.tensors();
  } else {
    VENEER_ASSIGN(SafetensorsFile file, SafetensorsFile::Parse(blobs.files.weights.bytes()));
    tensors = std::move(file.tensors);
  }
  facts["format"] = FormatOf(blobs.files);
  facts["tensors"] = OutJson::array();
  for (const TensorView& tensor : tensors)
    facts["tensors"].push_back(
        {{"tensor", Printable(tensor.name)}, {"type", InfoOf(tensor.dtype).name}, {"shape", ShapeText(tensor.shape)}});
  return facts;
}

// A GGUF is a base unless it says that it is an adapter.
Result<OutJson> InspectGguf(Session& session, const std::string& path) {
  VENEER_ASSIGN(const FileBytes file, FileBytes::Map(path));
  const auto parsed = GgufFile::Parse(file.bytes());
  return parsed && IsGgufAdapter(*parsed) ? InspectAdapter(session, path) : InspectBase(path);
}

OutJson InspectComposition(const Composition& composition) {
  OutJson facts{{"what", "composition"},
                {"composition", composition.Id().Text()},
                {"base", composition.base_model_hash.Text()},
                {"tokenizer", composition.tokenizer_id},
                {"quantization", fmt::format("{} {} block {}", composition.quantization.dtype, composition.quantization.scheme,
                                             composition.quantization.block_size)},
                {"tied_weights", composition.tied_weights}};
  facts["adapters"] = OutJson::array();
  for (const AdapterEntry& entry : composition.adapters)
    facts["adapters"].push_back({{"name", entry.name},
                                 {"kind", entry.kind},
                                 {"strength", entry.merge_weight.text()},
                                 {"rank", entry.rank},
                                 {"sites", entry.target_layers.size()},
                                 {"file_hash", entry.file_hash.Text()}});
  return facts;
}

Result<int> RunInspect(Session& session) {
  const std::string& what = session.word(0);
  const bool json = session.options().json;
  const std::filesystem::path path = what;
  if (std::filesystem::exists(path)) {
    const std::string extension = path.extension().string();
    if (extension == ".toml" || extension == ".json") {
      VENEER_ASSIGN(const Session::Named named, session.Resolve(what));
      PrintFacts(InspectComposition(named.validated.composition()), json);
      return 0;
    }
    VENEER_ASSIGN(const OutJson facts, extension == ".gguf" ? InspectGguf(session, what) : InspectAdapter(session, what));
    PrintFacts(facts, json);
    return 0;
  }
  VENEER_ASSIGN(const Session::Named named, session.Resolve(what));
  PrintFacts(InspectComposition(named.validated.composition()), json);
  return 0;
}

Result<int> RunPlan(Session& session) {
  if (session.words() == 1) {
    VENEER_ASSIGN(const Session::Named named, session.Resolve(session.word(0)));
    return session.PrintPlan(named.validated);
  }
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  return session.PrintPlan(selected);
}

Result<int> RunPlugin(Session& session) {
  if (session.word(0) != "list") return Fail(Code::USAGE, session.word(0), "write: veneer plugin list [--all]");
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  OutJson plugins = OutJson::array();
  std::vector<std::vector<std::string>> rows{{"NAME", "VERSION", "ABI", "KINDS", "STATE"}};
  for (const CatalogEntry& entry : catalog->entries()) {
    if (entry.refusal && !session.options().all && !session.options().json) continue;
    std::vector<std::string> kinds;
    for (const KindDecl& kind : entry.card.kinds) kinds.push_back(kind.id);
    const std::string state = entry.refusal ? "refused: " + entry.refusal->Text() : "ok";
    plugins.push_back({{"name", entry.card.name}, {"version", entry.card.version}, {"kinds", kinds}, {"state", state}});
    rows.push_back({entry.card.name, entry.card.version, fmt::format("{}.{}", entry.card.abi_major, entry.card.abi_minor_min),
                    fmt::format("{}", fmt::join(kinds, " ")), Printable(state)});
  }
  if (session.options().json) {
    PrintJson({{"plugins", plugins}});
  } else {
    Print(Table(rows));
  }
  return 0;
}

}  // namespace

constinit const Command kInspectCommand{
    "inspect",
    "inspect FILE|DIR|ID|NAME [--base FILE]",
    "tell what a base, adapter, manifest or composition is",
    "A .gguf file: architecture, sizes, types, digest. An adapter: kind, sites, ranks and final scales when --base says for which base, "
    "its\n"
    "tensors otherwise. A manifest, a composition id or a name in the store: its base and ordered adapters. Changes nothing.\n",
    1,
    1,
    RunInspect};

constinit const Command kPlanCommand{
    "plan",
    "plan [MANIFEST|ID|NAME] [-c CTX] [options]",
    "print what running a composition will take, before it does",
    "Prints the terms of P = runtime + base + adapters + scratch + K/V. Stages the overlays, since only then they say what scratch they\n"
    "need; allocates neither that scratch nor K/V.\n"
    "`generate` and `logits` refuse (E501) what --memory-budget does not allow by the same terms.\n",
    0,
    1,
    RunPlan};

constinit const Command kPluginCommand{
    "plugin",
    "plugin list [--all]",
    "list the overlay plugins",
    "Reads the cards beside the plugin libraries; runs no plugin code. --all shows refused ones and why.\n",
    1,
    1,
    RunPlugin};

}  // namespace veneer::cli
