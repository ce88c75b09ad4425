// embed PLUGIN_DIR BASE [ADAPTER[=W]]...: prints the base's digest and the composition's identity, then decodes eight tokens greedily.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "core/compose/path_source.h"
#include "core/compose/validate.h"
#include "core/decode/generate.h"
#include "core/plugin/catalog.h"

namespace {

constexpr char kPrompt[] = "And the king said";
constexpr std::uint32_t kTokens = 8;

veneer::Status Run(const std::filesystem::path& plugin_dir, const std::filesystem::path& base, const std::vector<std::string>& adapters) {
  using namespace veneer;
  VENEER_ASSIGN(const Catalog catalog, Catalog::Scan({.directories = {plugin_dir}, .overrides = {}}));
  std::vector<AdapterPath> paths;
  for (const std::string& text : adapters) {
    VENEER_ASSIGN(paths.emplace_back(), ParseAdapterPath(text));
  }
  VENEER_ASSIGN(PathSource source, PathSource::Open(base, paths, nullptr));
  VENEER_ASSIGN(const ValidatedComposition validated, SealAndValidate(source.manifest(), source, catalog));
  std::printf("base %s\ncomposition %s\n", Sha256::Of(validated.base()->bytes()).Text().c_str(),
              validated.composition().Id().Text().c_str());

  VENEER_ASSIGN(BoundComposition bound, Bind(validated, catalog, {.mode = ComputeMode::kExact}));
  VENEER_ASSIGN(auto staged, std::move(bound).Stage());
  VENEER_ASSIGN(auto decoder, Decoder::Create(std::move(staged), {}));
  VENEER_ASSIGN(const Tokenizer tokenizer, OpenTokenizer(*validated.base()));
  const std::vector<TokenId> prompt = tokenizer.Encode(kPrompt);
  GenerateOptions options{.max_tokens = kTokens, .stops = {}, .sampling = {}};
  options.sampling.temperature = 0;
  Generated generated;
  VENEER_TRY(Generate(*decoder, &tokenizer, prompt, options, nullptr, generated));
  std::printf("text %s\n", generated.text.c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto status = Run(argv[1], argv[2], {argv + 3, argv + argc});
  if (!status) std::fprintf(stderr, "%s\n", status.error().Text().c_str());
  return status ? 0 : 1;
}
