#include "kernels/onednn/engine.h"

// Resolved at load time when the oneDNN at hand brings an OpenMP runtime, NULL when it was built sequential or with its own thread pool.
extern "C" {
__attribute__((weak)) int omp_get_max_threads(void);
__attribute__((weak)) void omp_set_num_threads(int);
}

namespace veneer::kernels::onednn {

OneThread::OneThread() : before_(0) {
  if (omp_get_max_threads == nullptr || omp_set_num_threads == nullptr) return;
  before_ = omp_get_max_threads();
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ > 1) omp_set_num_threads(before_);
}

}  // namespace veneer::kernels::onednn
