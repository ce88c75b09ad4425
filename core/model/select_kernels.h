// The kernels of this process, or why there are none.
#ifndef VENEER_CORE_MODEL_SELECT_KERNELS_H_
#define VENEER_CORE_MODEL_SELECT_KERNELS_H_

#include "core/base/error.h"
#include "kernels/kernels.h"

namespace veneer {

// kernels::Select(), never null: E901 when VENEER_FORCE_ISA names what is unknown or cannot run here.
Result<const kernels::Table*> SelectKernels();

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_SELECT_KERNELS_H_
