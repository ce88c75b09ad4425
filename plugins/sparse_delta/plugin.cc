#include "plugins/sparse_delta/overlay.h"

VENEER_OVERLAY(veneer_sparse_delta::SparseDeltaOverlay, "veneer-sparse-delta", "1.0.0")
