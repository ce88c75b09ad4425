#include "core/model/select_kernels.h"

namespace veneer {

Result<const kernels::Table*> SelectKernels() {
  const kernels::Table* const table = kernels::Select();
  if (table != nullptr) return table;
  return Fail(Code::USAGE, "VENEER_FORCE_ISA", "names an instruction set that is unknown or cannot run here; unset it or write scalar");
}

}  // namespace veneer
