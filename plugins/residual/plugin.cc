#include "plugins/residual/overlay.h"

VENEER_OVERLAY(veneer_residual::ResidualOverlay, "veneer-residual", "1.0.0")
