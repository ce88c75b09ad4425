# What a session may use beside the program. Sourced before each of its lines.

# blob FILE: the place in the store of the blob with this file's bytes
blob() { printf '%s/blobs/sha256/%s' "$VENEER_STORE" "$(sha256sum "$1" | cut -d' ' -f1)"; }
# id MANIFEST: the composition it seals to
id() { veneer validate "$1" | sed 's/.*composition=//'; }
# damage PATH: changes one byte and keeps mode and size
damage() { chmod u+w "$1" && printf X | dd of="$1" bs=1 seek=9 conv=notrunc 2>/dev/null && chmod a-w "$1"; }
# brief COMMAND...: the command, with error lines up to their place; what follows depends on the machine
brief() {
  "$@" 2>brief.err
  set -- $?
  sed 's/\( at=[^ ]*\).*/\1/' brief.err >&2
  return "$1"
}
