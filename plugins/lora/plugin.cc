#include "plugins/lora/overlay.h"

VENEER_OVERLAY(veneer_lora::LoraOverlay, "veneer-lora", "1.0.0")
