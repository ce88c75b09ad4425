#include "core/manifest/write_toml.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/format/json.h"

namespace veneer {
namespace {

constexpr std::string_view kIntroduction =
    R"(# A veneer manifest: one base model and the adapters laid over it, in order. `veneer seal` turns it into a composition, whose
# SHA-256 is its identity. Required are schema, base_model_hash, timestamp_utc and, for each adapter, name, file_hash, load_order and
# merge_weight. Everything else is an optional claim: sealing fills what is left out and refuses what the files contradict.
# Grammar and limits: core/manifest/FORMAT.md.
)";

// A basic string of TOML: JSON's escapes, and DEL, which TOML wants escaped too.
std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : JsonQuote(text)) {
    if (c == 0x7F)
      quoted += "\\u007f";
    else
      quoted += c;
  }
  return quoted;
}

std::string Inline(const Json& value) {
  std::string out;
  switch (value.type) {
    case Json::Type::kString:
      return Quoted(value.text);
    case Json::Type::kArray:
      for (const Json& element : value.elements) out += (out.empty() ? "" : ", ") + Inline(element);
      return "[" + out + "]";
    case Json::Type::kObject:
      for (const auto& [key, member] : value.members) out += (out.empty() ? "" : ", ") + Quoted(key) + " = " + Inline(member);
      return "{" + out + "}";
    case Json::Type::kNumber:
    case Json::Type::kBool:
    case Json::Type::kNull:
      break;
  }
  return value.text;  // a number; statements hold neither booleans nor null
}

// Lines "name = value  # comment" of one table.
class Writer {
 public:
  void Verbatim(std::string_view text) { out_ += text; }
  void Line(std::string_view name, std::string_view value, std::string_view comment = "") {
    fmt::format_to(std::back_inserter(out_), "{} = {}", name, value);
    if (!comment.empty()) fmt::format_to(std::back_inserter(out_), "  # {}", comment);
    out_ += '\n';
  }
  void Text(std::string_view name, const std::optional<std::string>& text, std::string_view comment = "") {
    if (text) Line(name, Quoted(*text), comment);
  }
  void Hash(std::string_view name, const std::optional<Digest>& digest, std::string_view comment = "") {
    if (digest) Line(name, Quoted(digest->Text()), comment);
  }
  void Integer(std::string_view name, const std::optional<std::uint64_t>& value, std::string_view comment = "") {
    if (value) Line(name, fmt::format("{}", *value), comment);
  }
  std::string Take() && { return std::move(out_); }

 private:
  std::string out_;
};

void WriteStatement(const Manifest& manifest, Writer& writer) {
  writer.Verbatim("\n# Signed with the composition, not part of its identity.\n");
  writer.Text("timestamp_utc", manifest.timestamp_utc, "UTC, to the second");
  writer.Text("channel", manifest.channel, "the stream of releases this belongs to");
  writer.Integer("sequence", manifest.sequence, "rises within the channel; an older one is a replay");
  writer.Text("expires_utc", manifest.expires_utc);
  for (const auto& [name, text] : manifest.extra) {
    const auto value = ParseJson(text);
    if (value) writer.Line(name, Inline(*value));
  }
}

void WriteAdapter(const AuthoredAdapter& adapter, Writer& writer) {
  writer.Verbatim("\n[[adapters]]\n");
  writer.Text("name", adapter.name, "unique in this manifest");
  writer.Hash("file_hash", adapter.file_hash, "SHA-256 of the weights");
  writer.Integer("load_order", adapter.load_order, "unique; a lower one is applied first");
  writer.Line("merge_weight", Quoted(adapter.merge_weight.text()), "strength: 1 as trained, 0 off");
  writer.Text("kind", adapter.kind, "which overlay plugin reads it");
  writer.Text("format", adapter.format);
  writer.Integer("file_size", adapter.file_size, "bytes");
  writer.Hash("config_hash", adapter.config_hash, "SHA-256 of the configuration that holds its scaling");
  writer.Integer("config_size", adapter.config_size, "bytes");
  writer.Integer("rank", adapter.rank, "the largest in the file; 0 for kinds without one");
  if (adapter.sparsity) writer.Line("sparsity", Quoted(adapter.sparsity->text()), "zeros / elements");
  if (adapter.target_layers) {
    writer.Verbatim("target_layers = [  # the sites it edits\n");
    for (const std::string& target : *adapter.target_layers) writer.Verbatim(fmt::format("  {},\n", Quoted(target)));
    writer.Verbatim("]\n");
  }
  if (adapter.plugin) {
    writer.Verbatim("[adapters.plugin]  # only this plugin may read it\n");
    writer.Text("name", adapter.plugin->name);
    if (!adapter.plugin->version.empty()) writer.Text("version", adapter.plugin->version);
    writer.Hash("sha256", adapter.plugin->sha256, "of the plugin's file");
  }
  if (adapter.params.empty()) return;
  writer.Verbatim("[adapters.params]  # parameters of the kind that change the result\n");
  for (const auto& [key, value] : adapter.params) {
    const auto* const number = std::get_if<std::uint64_t>(&value);
    writer.Line(Quoted(key), number != nullptr ? fmt::format("{}", *number) : Quoted(std::get<std::string>(value)));
  }
}

}  // namespace

std::string WriteManifestToml(const Manifest& manifest) {
  Writer writer;
  writer.Verbatim(kIntroduction);
  writer.Line("schema", Quoted("veneer.manifest/1"));
  writer.Hash("base_model_hash", manifest.base_model_hash, "SHA-256 of the base");
  writer.Integer("base_model_size", manifest.base_model_size, "bytes");
  writer.Text("base_format", manifest.base_format, "gguf or hf");
  writer.Text("tokenizer_id", manifest.tokenizer_id);
  writer.Hash("tokenizer_hash", manifest.tokenizer_hash);
  writer.Integer("tokenizer_size", manifest.tokenizer_size, "bytes");
  writer.Text("tied_weights", manifest.tied_weights, "separate: input and output embedding are two sites; forbid: nobody may edit them");
  WriteStatement(manifest, writer);
  if (manifest.quantization) {
    writer.Verbatim("\n[quantization]  # what the base's matrices mostly are\n");
    writer.Text("dtype", manifest.quantization->dtype);
    writer.Text("scheme", manifest.quantization->scheme);
    writer.Integer("block_size", manifest.quantization->block_size, "weights that share a scale");
  }
  if (manifest.runtime) {
    writer.Verbatim("\n[runtime]  # the numeric contract\n");
    writer.Text("name", manifest.runtime->first);
    writer.Text("version", manifest.runtime->second);
  }
  for (const AuthoredAdapter& adapter : manifest.adapters) WriteAdapter(adapter, writer);
  return std::move(writer).Take();
}

}  // namespace veneer
