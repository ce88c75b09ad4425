#include "plugins/ia3/overlay.h"

VENEER_OVERLAY(veneer_ia3::Ia3Overlay, "veneer-ia3", "1.0.0")
