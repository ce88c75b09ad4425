// The closed JSON-Schema subset that kinds describe their parameters in: an object with typed, bounded properties, nothing else.
#ifndef VENEER_CORE_PLUGIN_SCHEMA_H_
#define VENEER_CORE_PLUGIN_SCHEMA_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "veneer/abi.h"

namespace veneer {

struct ParamValue {  // typed by VNR_PARAM_*
  std::string path;  // "/scale"
  std::uint32_t type = VNR_PARAM_NUMBER;
  std::int64_t i = 0;
  double d = 0;
  std::string s;
};

// E417 when the schema is not of the subset; E203 for a required parameter that is missing, E213 for a wrong type, an unknown parameter
// or a value out of bounds. "/strength" is always allowed: the host adds it.
Status CheckParams(std::string_view schema, std::span<const ParamValue> params, std::string_view at);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_SCHEMA_H_
