// oneDNN as this project uses it: f32, one thread, strict arithmetic, our own scratch memory. Nothing of dnnl.hpp leaves this folder.
//
// Threads: distributions build oneDNN with OpenMP, and a call from a host worker would start a team of its own. Every call here runs
// under OneThread. The number of threads is state of the calling thread alone and is put back afterwards.
#ifndef VENEER_KERNELS_ONEDNN_ENGINE_H_
#define VENEER_KERNELS_ONEDNN_ENGINE_H_

namespace veneer::kernels::onednn {

class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace veneer::kernels::onednn

#endif  // VENEER_KERNELS_ONEDNN_ENGINE_H_
