// inspect, plan, plugin: looking without touching.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/cli/command.h"
#include "core/cli/inspect_composition.h"
#include "core/cli/inspect_subject.h"
#include "core/cli/inspect_text.h"
#include "core/cli/output.h"
#include "core/cli/session.h"

namespace veneer::cli {
namespace {

Result<OutJson> Diff(Session& session) {
  VENEER_ASSIGN(const Session::Named a, ResolveComposition(session, session.word(0)));
  VENEER_ASSIGN(const Session::Named b, ResolveComposition(session, session.word(1)));
  return DiffJson(a.validated.composition(), b.validated.composition());
}

Result<int> RunInspect(Session& session) {
  const std::size_t most = session.options().diff ? 2 : 1, least = session.options().diff ? 2 : 0;
  if (session.words() < least || session.words() > most)
    return Fail(Code::USAGE, "inspect", "write: veneer inspect [WHAT], or veneer inspect --diff A B");
  VENEER_ASSIGN(const OutJson facts, session.options().diff ? Diff(session) : InspectSubject(session));
  session.options().json ? PrintJson(facts) : Print(FactsText(facts));
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
    "inspect [FILE|DIR|ID|NAME] [--base FILE|DIR] [--params k=v] | inspect --diff A B",
    "tell what a base, adapter, manifest or composition is, or how two compositions differ",
    "An adapter (PEFT directory, GGUF adapter, safetensors file, or its name in the store): kind, digests, configuration, and on a base\n"
    "each site with its rank, final scale and tensors, what is replaced, what is ignored and why. The base is --base, that of --manifest,\n"
    "or the active composition's when it takes the adapter; without one, the tensors as they are.\n"
    "A composition (manifest, id, or name; nothing: the active one): base, tokenizer, ordered adapters, and each site's stack with the\n"
    "effective scale, strength x scale. A base: architecture, types, sites. A name that several things have is the composition's;\n"
    "adapter/NAME, base/NAME and composition/NAME say which.\n"
    "--diff A B: what turns composition A into B; equal ones say so. Tables put equal layers on one line, --json lists every site.\n"
    "Changes nothing and runs no plugin code.\n",
    0,
    2,
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
