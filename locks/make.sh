#!/usr/bin/env bash
# Makes the locks from pyproject.toml and constraints.txt. Needs uv. Versions that still fit stay; RAISE='name …' takes the
# newest of some packages that constraints.txt does not pin.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# torch is installed beside the locks: it is left out, and what each of its builds needs is named.
echo 'torch ; python_version < "3"' > "$scratch/override.txt"
printf '%s\n' filelock fsspec jinja2 networkx setuptools sympy typing-extensions > "$scratch/torch.in"
grep -v '^torch==' constraints.txt > "$scratch/constraints.txt"
lock() { # file, extras
  local extras=() extra package
  for extra in "${@:2}"; do extras+=(--extra "$extra"); done
  for package in ${RAISE:-}; do extras+=(--upgrade-package "$package"); done
  cp "locks/$1" "$scratch/lock"
  "$uv" pip compile --quiet pyproject.toml "$scratch/torch.in" "${extras[@]}" --universal --python-version 3.11 \
    --generate-hashes -c "$scratch/constraints.txt" --override "$scratch/override.txt" --no-annotate --no-header \
    --no-emit-index-url --no-emit-find-links --allow-unsafe -o "$scratch/lock" > /dev/null
  { echo "# Made by locks/make.sh; see locks/README.md."; cat "$scratch/lock"; } > "$scratch/whole"
  mv "$scratch/whole" "locks/$1"
}
lock run.txt torch serve
lock dev.txt dev
