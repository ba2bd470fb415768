#!/usr/bin/env bash
# Builds every fuzz target into $OUT, each with its corpus. Runs in ClusterFuzzLite's container,
# and anywhere else with OUT (and SRC, if the checkout is in $SRC/extentwise) set.
set -euo pipefail

: "${OUT:?the folder that the targets go to}"
SANITIZER="${SANITIZER:-address}"

root="${SRC:-}/extentwise"
if [ ! -e "$root/fuzz/Cargo.toml" ]; then
    root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
fi
cd "$root"
mkdir -p "$OUT"

# The container has a nightly toolchain as its own, and names it by RUSTUP_TOOLCHAIN.
case "$SANITIZER" in
address | none) sanitizer="$SANITIZER" ;;
# Its flags come in by RUSTFLAGS.
coverage) sanitizer=none ;;
*)
    echo "sanitizer $SANITIZER: only address, none and coverage are known" >&2
    exit 1
    ;;
esac
target="${FUZZ_TARGET_DIR:-$root/fuzz/target}"
RUSTUP_TOOLCHAIN="${RUSTUP_TOOLCHAIN:-nightly}" cargo fuzz build \
    --sanitizer "$sanitizer" --target-dir "$target"
built="$target/$(rustc -vV | sed -n 's/^host: //p')/release"

for file in fuzz/fuzz_targets/*.rs; do
    name="$(basename "$file" .rs)"
    # The canary crashes by design.
    [ "$name" != canary ] || continue
    cp "$built/$name" "$OUT/$name"
    printf '[libfuzzer]\nmax_len = 2048\n' >"$OUT/$name.options"
    if [ -d "fuzz/corpus/$name" ]; then
        python3 - "fuzz/corpus/$name" "$OUT/${name}_seed_corpus.zip" <<'PYTHON'
import pathlib, sys, zipfile
folder, archive = sys.argv[1:]
with zipfile.ZipFile(archive, "w") as out:
    for path in sorted(pathlib.Path(folder).iterdir()):
        out.write(path, path.name)
PYTHON
    fi
done
ls -l "$OUT"
