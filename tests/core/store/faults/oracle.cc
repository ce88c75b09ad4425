#include "tests/core/store/faults/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

using veneer::Digest;
using veneer::Sha256;

namespace {

constexpr std::uint64_t kRetained = 3;  // the last K generations, I5
constexpr std::size_t kHexSize = 64;

std::string Path(std::string_view below) { return fmt::format("{}/{}", kStore, below); }

// The value of the line "<name> <value>".
std::optional<std::string> LineValue(std::string_view text, std::string_view name) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') return std::string(line.substr(name.size() + 1));
    start = end + 1;
  }
  return std::nullopt;
}

// Every "sha256:<64 hex>" in the text.
std::vector<std::string> HexDigests(std::string_view text) {
  std::vector<std::string> digests;
  constexpr std::string_view kPrefix = "sha256:";
  for (std::size_t at = text.find(kPrefix); at != std::string_view::npos; at = text.find(kPrefix, at + 1)) {
    const std::string_view hex = text.substr(at + kPrefix.size(), kHexSize);
    if (hex.size() == kHexSize && hex.find_first_not_of("0123456789abcdef") == std::string_view::npos) digests.emplace_back(hex);
  }
  return digests;
}

std::optional<Digest> DigestOfLine(const std::optional<std::string>& value) {
  if (!value) return std::nullopt;
  const auto digest = veneer::ParseDigest(*value, "");
  return digest ? std::optional(*digest) : std::nullopt;
}

// The second of the three lines.
std::string RecordOfRef(std::string_view text) {
  constexpr std::string_view kFirst = "veneer-ref 1\n";
  if (!text.starts_with(kFirst) || !text.ends_with('\n') || std::ranges::count(text, '\n') != 3 || !LineValue(text, "crc")) return "(torn)";
  text.remove_prefix(kFirst.size());
  return std::string(text.substr(0, text.find('\n')));
}

class TruthCheck {
 public:
  explicit TruthCheck(const SimImage& image) : image_(image) {}

  void Blob(const std::string& hex, std::string_view who, std::string_view invariant) {
    const auto bytes = image_.Read(Path("blobs/sha256/" + hex));
    if (!bytes) return Say(invariant, fmt::format("{} needs blob {}, which is missing", who, hex));
    if (Sha256::Of(*bytes).Hex() != hex) Say(invariant, fmt::format("{} needs blob {}, which holds other bytes", who, hex));
  }

  void Composition(const std::string& hex, std::string_view who, std::string_view invariant) {
    Blob(hex, who, invariant);
    const auto text = image_.Read(Path("blobs/sha256/" + hex));
    if (!text) return;
    for (const std::string& needed : HexDigests(*text)) Blob(needed, fmt::format("composition {} of {}", hex, who), invariant);
  }

  void Say(std::string_view invariant, std::string_view what) { violations.push_back(fmt::format("{}: {}", invariant, what)); }

  std::vector<std::string> violations;

 private:
  const SimImage& image_;
};

// I4, I5: what the current generation and those before it activate is there; the records form a chain.
void CheckGenerations(const SimImage& image, const Facts& facts, TruthCheck& check) {
  std::string prev = "none";
  for (std::uint64_t generation = 1; generation <= facts.generation; ++generation) {
    const auto record = image.Read(Path(fmt::format("veneer/gen/{}", generation)));
    const std::string_view invariant = generation == facts.generation ? "I4" : "I5";
    if (!record) {
      check.Say(invariant, fmt::format("the record of generation {} is missing", generation));
      continue;
    }
    if (LogLine{*record}.Get("prev_record") != prev || LogLine{*record}.Get("gen") != std::to_string(generation))
      check.Say(invariant, fmt::format("the record of generation {} does not follow the one before it", generation));
    prev = Sha256::Of(*record).Text();
    const std::string composition = LogLine{*record}.Get("composition");
    if (generation + kRetained >= facts.generation && composition.starts_with("sha256:"))
      check.Composition(composition.substr(7), fmt::format("generation {}", generation), invariant);
  }
  const auto current = image.Read(Path("veneer/state/CURRENT"));
  if (facts.generation > 0 && LineValue(*current, "record") != prev) check.Say("I4", "CURRENT names another record than the one stored");
}

}  // namespace

std::string LogLine::Get(const std::string& name) const {
  const std::string key = "\"" + name + "\":";
  const std::size_t at = json.find(key);
  if (at == std::string::npos) return {};
  std::size_t start = at + key.size();
  const bool quoted = json[start] == '"';
  start += quoted ? 1 : 0;
  return json.substr(start, json.find_first_of(quoted ? "\"" : ",}", start) - start);
}

std::optional<Facts> ReadFacts(const SimImage& image) {
  Facts facts;
  if (const auto ref = image.Read(Path("veneer/refs/adapter/new"))) facts.ref = RecordOfRef(*ref);
  const auto text = image.Read(Path("veneer/state/CURRENT"));
  if (!text) return facts;
  const auto generation = LineValue(*text, "gen");
  const auto composition = LineValue(*text, "composition");
  const bool whole = text->starts_with("veneer-current 1\n") && text->ends_with('\n') && std::ranges::count(*text, '\n') == 6 &&
                     generation && composition && DigestOfLine(LineValue(*text, "record")) && LineValue(*text, "tx") &&
                     LineValue(*text, "crc");
  if (!whole || generation->empty() || generation->find_first_not_of("0123456789") != std::string::npos || generation->size() > 9)
    return std::nullopt;
  facts.generation = std::stoull(*generation);
  facts.composition = DigestOfLine(composition);
  if (!facts.composition && *composition != "none") return std::nullopt;
  return facts;
}

std::vector<std::string> CheckTruth(const SimImage& image, const Expectation& expected, Ack ack) {
  TruthCheck check(image);
  const auto facts = ReadFacts(image);
  if (!facts) {
    check.Say("I1", "CURRENT is not whole");
    return check.violations;
  }
  const auto shown = [](const Facts& f) {
    return fmt::format("generation {}, {}, ref of {} bytes", f.generation, f.composition ? f.composition->Hex().substr(0, 8) : "none",
                       f.ref.size());
  };
  if (facts->generation == 0 && expected.before.generation > 0) check.Say("I1", "CURRENT is gone");
  if (*facts != expected.before && *facts != expected.after)
    check.Say("I2", fmt::format("{}: neither before ({}) nor after ({})", shown(*facts), shown(expected.before), shown(expected.after)));
  if (ack == Ack::kDone && *facts != expected.after) check.Say("I3", "success was reported, and it is lost");
  if (ack == Ack::kRefused && expected.refusal_decides && *facts != expected.before)
    check.Say("I3", "an error was reported, and it is in force");
  CheckGenerations(image, *facts, check);
  for (const std::string kind : {"base", "adapter", "composition"}) {
    const std::string dir = Path("veneer/refs/" + kind);
    for (const std::string& name : image.List(dir)) {
      if (name.find('~') != std::string::npos) continue;
      for (const std::string& hex : HexDigests(*image.Read(dir + "/" + name))) check.Blob(hex, "name " + name, "I5");
    }
  }
  for (const std::string& hex : image.List(Path("blobs/sha256"))) {
    if (hex != expected.damaged) check.Blob(hex, "its own name", "I4");
    if (image.Permissions(Path("blobs/sha256/" + hex)) != 0444u) check.Say("I4", fmt::format("blob {} may be written", hex));
  }
  return check.violations;
}

std::vector<LogLine> ReadLogLines(const SimImage& image, std::vector<std::string>& violations) {
  std::vector<LogLine> lines;
  const auto segments = image.List(Path("veneer/audit"));
  std::string prev = "none";
  for (std::size_t k = 1; k <= segments.size(); ++k) {
    const auto bytes = image.Read(Path(fmt::format("veneer/audit/seg-{}", k)));
    if (!bytes) {
      violations.push_back(fmt::format("I6: segment {} of the log is missing", k));
      return lines;
    }
    std::size_t start = 0;
    while (start + 15 <= bytes->size()) {
      const std::size_t size = std::strtoull(bytes->substr(start, 4).c_str(), nullptr, 16);
      if (start + 14 + size >= bytes->size() || (*bytes)[start + 14 + size] != '\n') break;
      LogLine line{bytes->substr(start + 14, size)};
      if (line.Get("prev") != prev) violations.push_back(fmt::format("I6: a record of segment {} does not follow the one before it", k));
      prev = Sha256::Of(line.json).Text();
      lines.push_back(std::move(line));
      start += 15 + size;
    }
    if (start != bytes->size() && k == segments.size()) violations.push_back("I6: the log ends in a torn record");
  }
  return lines;
}

std::vector<std::string> CheckRecovered(const SimImage& image) {
  std::vector<std::string> violations;
  const auto lines = ReadLogLines(image, violations);
  const auto current = image.Read(Path("veneer/state/CURRENT")).value_or("");
  const auto tx = LineValue(current, "tx").value_or("?");
  const std::string generation = LineValue(current, "gen").value_or("0");
  std::map<std::string, std::string> ends;  // by tx; "" while it is open
  for (const LogLine& line : lines) {
    const std::string type = line.Get("type"), id = line.Get("tx");
    if (type == "begin" && !ends.emplace(id, "").second) violations.push_back("I6: a transaction begins twice");
    if (type != "commit" && type != "abort") continue;
    const auto begun = ends.find(id);
    if (begun == ends.end() || !begun->second.empty()) {
      violations.push_back("I6: a transaction ends without a begin, or twice");
    } else {
      begun->second = type;
    }
    if (type == "commit" && std::stoull(line.Get("gen")) > std::stoull(generation))
      violations.push_back("I8: the log knows a later generation than CURRENT");
  }
  for (const auto& [id, end] : ends) {
    if (end.empty()) violations.push_back(fmt::format("I6: transaction {} has no end", id));
    if (id == tx && end == "abort") violations.push_back("I6: the active generation is aborted in the log");
  }
  if (!ends.contains(tx)) violations.push_back("I6: the active generation is not in the log");
  // An end that the log gives agrees with the records: a committed transaction is the tx of the record of its generation.
  for (const LogLine& line : lines) {
    if (line.Get("type") != "commit") continue;
    const auto record = image.Read(Path("veneer/gen/" + line.Get("gen")));
    if (!record || LogLine{*record}.Get("tx") != line.Get("tx"))
      violations.push_back("I6: a commit names a generation that is not its own");
  }
  for (const char* dir : {"", "veneer", "veneer/state", "veneer/refs/base", "veneer/refs/adapter", "veneer/refs/composition"})
    for (const std::string& name : image.List(*dir == '\0' ? kStore : Path(dir)))
      if (name.find('~') != std::string::npos) violations.push_back(fmt::format("I7: {}/{} outlives recovery", dir, name));
  if (!image.List(Path("veneer/staging")).empty()) violations.push_back("I7: a file of staging/ outlives recovery");
  for (const std::string& name : image.List(Path("veneer/gen")))
    if (std::stoull(name) > std::stoull(generation)) violations.push_back(fmt::format("I7: gen/{} outlives recovery", name));
  return violations;
}
