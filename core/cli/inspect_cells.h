// Cells of the tables that `inspect` prints, from its JSON.
#ifndef VENEER_CORE_CLI_INSPECT_CELLS_H_
#define VENEER_CORE_CLI_INSPECT_CELLS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "core/cli/inspect_groups.h"
#include "core/cli/output.h"

namespace veneer::cli {

using Rows = std::vector<std::vector<std::string>>;

// "r=8, lora_alpha=16": members as they are, long ones cut.
std::string MembersText(const OutJson& object);
// A string as it is, null as "-", a number with six digits, anything else as JSON; safe for the terminal.
std::string CellText(const OutJson& value);
std::string ShapeCell(const OutJson& shape);     // "[64, 172]"
std::string SizeCell(const OutJson& bytes);      // "1.2 MiB"
std::string DTypesCell(const OutJson& tensors);  // "f32", or "A f16, B q8_0 (as f32)"
std::string NotesText(const OutJson& notes);     // a line each
// A heading and a row for each group: name, how many, the cells, bytes; and the sum when there are several.
Rows GroupRows(std::vector<std::string> heading, const std::vector<LayerRow>& rows);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_CELLS_H_
