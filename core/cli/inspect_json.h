// The facts that every report of `inspect` shares, as JSON: what a report says, its table shows a part of.
#ifndef VENEER_CORE_CLI_INSPECT_JSON_H_
#define VENEER_CORE_CLI_INSPECT_JSON_H_

#include <span>
#include <string>
#include <vector>

#include "core/cli/output.h"
#include "core/format/json.h"
#include "core/format/tensor_file.h"
#include "core/manifest/composition.h"
#include "core/model/site.h"

namespace veneer::cli {

// {"tensor", "dtype", "shape": [out, in], "bytes"}.
OutJson TensorFacts(const TensorView& tensor);
// {"site", "class": "linear" | "embedding" | "vector", "shape": [out, in], "dtype" of the base}.
OutJson SiteFactsJson(const Site& site);
// A parsed document; numbers keep their value.
OutJson ToOutJson(const Json& json);
// {name: value}.
OutJson ParamsJson(std::span<const ManifestParam> params);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_JSON_H_
