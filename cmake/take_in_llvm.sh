#!/usr/bin/env bash
# take_in_llvm.sh ARCHIVE LLVM_ARCHIVE...: puts what ARCHIVE needs of LLVM's archives into it.
# Environment: AR, CXX, LD, NM, OBJCOPY.
#
# Afterwards llvm::Value is telamon_llvm::Value to Telamon's objects and LLVM's, so a program may hold another
# LLVM besides. Only the standard library's templates keep their names. All new names are hidden: a shared
# library with Telamon inside exports none. LLVM's globals are initialised before Telamon's
# (.init_array.00200), and those before the program's own.
set -eu -o pipefail
archive=$(realpath "$1")
shift
work=$(mktemp -d "$archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# A line `ARCHIVE MEMBER` for each member that a link takes; ld says (ARCHIVE)MEMBER, lld ARCHIVE(MEMBER).
"$LD" -r -t -t -o all.o --whole-archive "$archive" --no-whole-archive --start-group "$@" --end-group |
  sed -n -e 's/^(\(.*\))\(.*\)$/\1\t\2/p' -e 's/^\([^(].*\)(\(.*\))$/\1\t\2/p' |
  awk -F '\t' -v own="$archive" '$1 != own' > members
rm all.o
cut -f 1 members | uniq | sort -u > from
while IFS= read -r file; do
  folder=objects/$(basename "$file" .a)
  mkdir -p "$folder"
  awk -F '\t' -v file="$file" '$1 == file { print $2 }' members | (cd "$folder" && xargs "$AR" x "$file")
done < from
count=$(find objects -type f | wc -l)
if [ "$count" = 0 ] || [ "$count" != "$(wc -l < members)" ]; then
  echo "$0: of $(wc -l < members) members of LLVM's archives $count could be taken out" >&2
  exit 1
fi

find objects -type f | sort > files
xargs "$NM" -P < files > llvm.symbols 2> /dev/null
"$NM" -P "$archive" > own.symbols 2> /dev/null
awk '
  function renamed(name) {  # it is the first part of nested names: N4llvm, NK4llvm if const
    while (match(name, /N[rVKRO]*4llvm/)) {
      name = substr(name, 1, RSTART + RLENGTH - 6) "12telamon_llvm" substr(name, RSTART + RLENGTH)
    }
    return name
  }
  function defined(type) { return type ~ /[A-TV-Zu]/ }
  function of_std(name) {
    return name ~ /^_Z(T[ISV]|GV|GR|Z)?P?K?N?[rVKRO]*(St|S[absiod]|9__gnu_cxx|10__cxxabiv1)/
  }
  NF < 2 { next }
  {
    name = renamed($1)
    if (name == $1 && FILENAME == "llvm.symbols" && defined($2) && !($2 ~ /[VWu]/ && of_std($1))) {
      name = "telamon_llvm_" $1
    }
    if (name == $1) next
    if (!named[name]++) print $1, name > "names"
    if (defined($2) && !hidden[name]++) print ".hidden " name > "hidden.s"
  }
  END { print ".section .note.GNU-stack,\"\",%progbits" > "hidden.s" }
' llvm.symbols own.symbols
"$CXX" -c -x assembler hidden.s -o telamon_llvm_hidden.o

# In this order: of an inline function the linker keeps the first copy, and LLVM's know nothing of exceptions.
cp "$archive" all.a
xargs "$AR" qS all.a < files
"$AR" q all.a telamon_llvm_hidden.o
"$OBJCOPY" --redefine-syms=names --rename-section .init_array=.init_array.00150 all.a "$archive"
