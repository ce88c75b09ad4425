// Prints the instruction sets whose kernels can run here, best first, one a line.
#include <cstddef>
#include <cstdio>

#include "kernels/kernels.h"

int main() {
  const veneer::kernels::TableList list = veneer::kernels::Runnable();
  for (std::size_t i = 0; i < list.count; ++i) std::puts(list.tables[i]->isa);
}
