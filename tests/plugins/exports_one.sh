# sh exports_one.sh NM LIBRARY: the dynamic symbols are one data object, veneer_overlay_entry_v1, in relocated read-only memory.
symbols=$("$1" -D --defined-only "$2" | sed 's/^[0-9a-f]* //')
[ "$symbols" = "D veneer_overlay_entry_v1" ] || [ "$symbols" = "R veneer_overlay_entry_v1" ] || { echo "exports: $symbols"; exit 1; }
