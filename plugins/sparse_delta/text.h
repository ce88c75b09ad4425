// Numbers in messages.
#ifndef VENEER_PLUGINS_SPARSE_DELTA_TEXT_H_
#define VENEER_PLUGINS_SPARSE_DELTA_TEXT_H_

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

namespace veneer_sparse_delta {

// Nine digits, enough to tell every f32; JSON whatever the locale.
inline std::string NumberText(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  std::replace(text, text + std::strlen(text), ',', '.');
  return text;
}

}  // namespace veneer_sparse_delta

#endif  // VENEER_PLUGINS_SPARSE_DELTA_TEXT_H_
