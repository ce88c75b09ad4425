// Names that differ in the number of their layer alone, told as one: "model.layers.{0-27}.mlp.up_proj".
#ifndef VENEER_CORE_CLI_INSPECT_GROUPS_H_
#define VENEER_CORE_CLI_INSPECT_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace veneer::cli {

struct LayerRow {
  std::string name;                // a site or a tensor; its first part of digits alone is the layer
  std::vector<std::string> cells;  // what must be equal within a group
  std::uint64_t bytes = 0;
};

struct LayerGroup {
  std::string name;  // "a.{0-3,7}.b"; a single layer keeps its plain number
  std::size_t count = 0;
  std::vector<std::string> cells;
  std::uint64_t bytes = 0;  // of all of them
};

// Groups in the order in which their names first appear, by lowest layer where one name falls apart.
std::vector<LayerGroup> GroupLayers(std::span<const LayerRow> rows);

// The same for names alone.
std::vector<std::string> GroupNames(std::span<const std::string> names);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_GROUPS_H_
