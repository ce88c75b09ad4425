#include "tests/core/decode/group_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/decode/linear.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {

GroupRun RunGroup(const StagedComposition& staged, const std::vector<std::string>& names, std::uint32_t tokens, std::uint32_t threads,
                  std::uint32_t first_token) {
  std::vector<const Site*> sites;
  for (const std::string& name : names) sites.push_back(staged.base().sites().Find(name));
  const LinearGroup group(staged, sites, *kernels::Select());
  LinearScratch scratch(group.needs(), std::max(tokens, threads), threads);
  ThreadPool pool(threads);
  GroupRun run;
  const std::uint64_t in = sites[0]->in;
  run.x = Uniform((first_token + tokens) * in, 1.0F, 99);
  run.x.erase(run.x.begin(), run.x.begin() + static_cast<std::ptrdiff_t>(first_token * in));
  std::vector<LinearGroup::Output> outputs;
  for (const Site* site : sites) run.y.emplace_back(tokens * site->out);
  for (std::size_t s = 0; s < sites.size(); ++s) outputs.push_back({run.y[s].data(), sites[s]->out, false});
  pool.Run([&](std::uint32_t worker) {
    group.Run(
        pool, worker, tokens, [&](std::uint32_t t, float* row) { std::memcpy(row, &run.x[t * in], in * sizeof(float)); }, scratch, outputs);
  });
  return run;
}

double WorstError(const Stack& stack, const std::vector<std::string>& names, const GroupRun& run) {
  double worst = 0;
  for (std::size_t s = 0; s < names.size(); ++s) {
    const Site& site = *stack.base().sites().Find(names[s]);
    const auto found = stack.edits().find(names[s]);
    const std::vector<reference::Edit> edits = found == stack.edits().end() ? std::vector<reference::Edit>() : found->second;
    for (std::size_t t = 0; t < run.y[s].size() / site.out; ++t) {
      const auto product = reference::Multiply(site, stack.base().sites(), edits, std::span(run.x).subspan(t * site.in, site.in));
      for (std::uint64_t lane = 0; lane < site.out; ++lane) {
        const double error = std::abs(static_cast<double>(run.y[s][t * site.out + lane]) - product.y[lane]);
        worst = std::max(worst, error / (1.01 * product.depth * 0x1p-24 * product.magnitude[lane]));
      }
    }
  }
  return worst;
}

}  // namespace veneer
