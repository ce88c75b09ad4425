// Parameters of a kind that come as text: from a file's metadata or from a manifest.
#ifndef VENEER_CORE_ADAPTER_PARAMS_H_
#define VENEER_CORE_ADAPTER_PARAMS_H_

#include <string>
#include <string_view>

#include "core/adapter/adapter.h"
#include "core/plugin/kind_decl.h"
#include "core/plugin/schema.h"

namespace veneer {

// `text` as the type that the kind's schema gives the parameter `name`. E213 with what the kind knows.
Result<ParamValue> ParseParam(const KindDecl& kind, std::string_view name, const std::string& text, std::string_view at);

// The parameters of a request, typed, in their order: E213 one that the kind does not have or another type, E105 one given twice.
Result<std::vector<ParamValue>> ParseGivenParams(const Catalog& catalog, const std::string& kind,
                                                 const std::vector<std::pair<std::string, std::string>>& params);

// Sets the parameters on every site of the adapter, in place of what its files said. E213; also for the host's own kind, which has none.
Status OverrideParams(const Catalog& catalog, const std::vector<std::pair<std::string, std::string>>& params, Adapter& adapter);

// Fills in the scale of each site from its parameters.
void ReportScales(const Catalog& catalog, Adapter& adapter);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_PARAMS_H_
