#!/usr/bin/env bash
# Finds the two real engines that local mode, the demo and the tests run on, or gets them into a cache folder.
#
#   ollama                        at least 0.34: TANDEM_OLLAMA, PATH, Homebrew; else built with `go install`
#   llama-server, llama-quantize  TANDEM_LLAMA_SERVER, PATH, Homebrew; else Debian packages unpacked into the
#                                 cache (no root, the system stays untouched), or `brew install llama.cpp`
#
# With the argument "backends" it does that for the llama-servers on which tests compare backends: on Vulkan (Mesa's
# lavapipe, which needs no GPU), on BLAS, and with the plainest kernels for the processor, all from Debian packages of one
# version in a folder of its own. Where there is no apt-get it gives none.
#
# With the argument "python" it gets a Python with the packages ollama and openai, which tests of the gateway run, from Debian packages in a
# folder of its own. Where there is no apt-get it gives none.
#
# Stdout has one KEY=VALUE line per result; all else goes to stderr. The cache is $TANDEM_CACHE, else
# ${XDG_CACHE_HOME:-~/.cache}/tandem; delete its engines folder to fetch again. Runs on bash 3.2 (macOS).
set -euo pipefail

readonly ollama_min=0.34.0 ollama_build=0.34.0
cache="${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}/engines"
case $cache in /*) ;; *) cache="$PWD/$cache" ;; esac
readonly cache
libs="" loader="" # of unpacked packages, see locate
readonly archive_keys=/usr/share/keyrings/debian-archive-keyring.gpg # every Debian has it, with the keys of its day
readonly brews="/opt/homebrew/bin /usr/local/bin /home/linuxbrew/.linuxbrew/bin"

say() { printf 'engines: %s\n' "$*" >&2; }
die() { # die WHAT REMEDY...
  printf 'engines: %s\n' "$1" >&2; shift
  printf '  remedy: %s\n' "$@" >&2
  exit 1
}

# find_program NAME: its path, from PATH or Homebrew's folders.
find_program() {
  local dir
  command -v "$1" && return
  for dir in $brews; do
    if [ -x "$dir/$1" ]; then echo "$dir/$1"; return; fi
  done
  return 1
}

# logged FILE COMMAND...: the command's output is shown only if it fails.
logged() {
  local log=$1; shift
  "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
}

# publish WORK FINAL: makes the finished folder appear whole.
publish() { rm -rf "$2" && mv "$1" "$2"; }

# lock NAME: only one run at a time does the work. What is published is renamed into place whole, so a lock
# wrongly taken over costs double work, no more. A symlink holds its owner's pid from the moment it exists.
lock() {
  local link="$cache/$1.lock" owner said=""
  until ln -s $$ "$link" 2>/dev/null; do
    [ -w "$cache" ] || die "cannot write to the cache folder $cache" "make it writable, or name another one in TANDEM_CACHE"
    owner=$(readlink "$link" || true)
    if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then rm -rf "$link" "$cache/tmp.$1.$owner".*; continue; fi
    [ -n "$said" ] || { say "waiting for process $owner, which is preparing $1"; said=1; }
    sleep 0.2
  done
}

# have FIND GET NAME: what FIND finds is there afterwards, by GET if need be. Call it in a subshell of its own.
have() {
  local find=$1 get=$2
  name=$3 # not local: the trap runs after the function
  if "$find" >/dev/null; then return; fi
  mkdir -p "$cache" || die "cannot make the cache folder $cache" "name one that can be made in TANDEM_CACHE"
  lock "$name"
  trap 'rm -rf "$cache/$name.lock" "$cache/tmp.$name.$$".*' EXIT
  "$find" >/dev/null || "$get"
}

# ---- Ollama ---------------------------------------------------------------------------------------------

# ollama_version FILE: asks the program itself; the closed port keeps a running server's version out.
ollama_version() {
  OLLAMA_HOST=127.0.0.1:1 "$1" --version 2>&1 | sed -n 's/.*version is \([0-9][0-9.]*\).*/\1/p' | tail -n 1
}

# new_enough VERSION: at least ollama_min, field by field.
new_enough() {
  local have want i
  IFS=. read -r -a have <<<"$1"
  IFS=. read -r -a want <<<"$ollama_min"
  for i in 0 1 2; do
    if ((10#${have[i]:-0} != 10#${want[i]})); then ((10#${have[i]:-0} > 10#${want[i]})); return; fi
  done
}

find_ollama() {
  local found version
  if [ -n "${TANDEM_OLLAMA:-}" ]; then
    version=$(ollama_version "$TANDEM_OLLAMA" || true)
    new_enough "${version:-0}" || die "TANDEM_OLLAMA=$TANDEM_OLLAMA says version '${version}', and at least $ollama_min is needed" \
      "name a newer one, or unset TANDEM_OLLAMA to have one found or built"
    echo "$TANDEM_OLLAMA"; return
  fi
  if found=$(find_program ollama); then
    version=$(ollama_version "$found" || true)
    if new_enough "${version:-0}"; then echo "$found"; return; fi
    say "passing over $found: version '${version}' is older than $ollama_min"
  fi
  found="$cache/ollama-$ollama_build/ollama"
  [ -x "$found" ] && echo "$found"
}

build_ollama() {
  local work compiler
  local other="or install Ollama $ollama_min or newer (macOS: brew install ollama) and have it in PATH or name it in TANDEM_OLLAMA"
  command -v go >/dev/null || die "no ollama >= $ollama_min in PATH or Homebrew, and no go to build one" "install Go" "$other"
  for compiler in "$(go env CC)" "$(go env CXX)"; do # its link needs the C++ library
    command -v "${compiler%% *}" >/dev/null || die "no ollama >= $ollama_min in PATH or Homebrew, and no $compiler to build one" \
      "install a C and a C++ compiler (Debian: apt-get install gcc g++ libc6-dev; macOS: xcode-select --install)" "$other"
  done
  say "building ollama $ollama_build with go install (one to three minutes, once)"
  work=$(mktemp -d "$cache/tmp.ollama.$$.XXXXXX")
  # -O0 is for the C half only, an SQLite that `ollama serve` never opens: it saves a minute of compiling.
  # Our own GOFLAGS: the caller's are meant for its own build. -modcacherw lets a temporary HOME be removed.
  (cd "$work" && logged "$work/log" env -u GOOS -u GOARCH CGO_ENABLED=1 CGO_CFLAGS=-O0 CGO_CXXFLAGS=-O0 GOFLAGS=-modcacherw GOBIN="$work" \
    go install -ldflags "-s -w -X github.com/ollama/ollama/version.Version=$ollama_build" "github.com/ollama/ollama@v$ollama_build") ||
    die "go install github.com/ollama/ollama@v$ollama_build failed (its last lines are above)" \
      "check that the Go module proxy (go env GOPROXY) can be reached" "$other"
  rm "$work/log"
  publish "$work" "$cache/ollama-$ollama_build"
}

# ---- llama.cpp ------------------------------------------------------------------------------------------

llama_version() { "$1" --version 2>&1 | sed -n 's/^version: *\([^ ]*\).*/\1/p' | head -n 1; }

# find_llama: the path of llama-server; where llama-quantize is follows from it (quantize_beside).
find_llama() {
  local found
  if [ -n "${TANDEM_LLAMA_SERVER:-}" ]; then
    [ -n "$(llama_version "$TANDEM_LLAMA_SERVER" || true)" ] || die "TANDEM_LLAMA_SERVER=$TANDEM_LLAMA_SERVER does not run" \
      "try '$TANDEM_LLAMA_SERVER --version'" "or unset TANDEM_LLAMA_SERVER to have one found or fetched"
    echo "$TANDEM_LLAMA_SERVER"; return
  fi
  if found=$(find_program llama-server); then
    if [ -n "$(llama_version "$found" || true)" ]; then echo "$found"; return; fi
    say "passing over $found: it does not run"
  fi
  for found in "$cache"/llama.cpp-*/llama-server; do
    if [ -x "$found" ] && [ -n "$(llama_version "$found" || true)" ]; then echo "$found"; return; fi
  done
  return 1
}

quantize_beside() {
  if [ -n "${TANDEM_LLAMA_QUANTIZE:-}" ]; then echo "$TANDEM_LLAMA_QUANTIZE"; return; fi
  if [ -x "$(dirname "$1")/llama-quantize" ]; then echo "$(dirname "$1")/llama-quantize"; return; fi
  find_program llama-quantize || die "$1 has no llama-quantize beside it, and PATH has none" \
    "install it from the same build (Debian: llama.cpp-tools; Homebrew: llama.cpp), or name it in TANDEM_LLAMA_QUANTIZE"
}

get_llama() {
  if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    fetch_debian_llama
  elif command -v brew >/dev/null; then
    say "running: brew install llama.cpp"
    brew install llama.cpp >&2
  else
    die "no llama-server in PATH or Homebrew, and neither apt-get nor brew to get it" \
      "install Homebrew and run 'brew install llama.cpp', or build llama.cpp, and name llama-server in TANDEM_LLAMA_SERVER"
  fi
}

# debian_mirrors: where this machine's own apt sources get its Debian release from; apt itself reads them,
# so every format counts (.sources, .list). Nothing on an Ubuntu machine, unless Debian is configured there too.
debian_mirrors() {
  local codename="" os=/etc/os-release
  [ -r $os ] && codename=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016 # apt-get, not the shell, replaces these names
  apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v codename="$codename" '$2 == "main" && ($1 == codename || $1 ~ /^(stable|testing|unstable|sid)$/) && !seen[$3]++ { print $3 }'
}

# private_apt WORK ARGUMENT...: apt-get with its own lists and state under WORK. The system's proxy settings stay
# in force; its hooks do not run. No sandbox user: it could not write into a private folder.
private_apt() {
  local work=$1; shift
  mkdir -p "$work/state" "$work/lists/partial" "$work/apt/archives/partial"
  touch "$work/state/status"
  cat >"$work/apt.conf" <<-CONF
	Dir::State "$work/state"; Dir::State::lists "$work/lists"; Dir::State::status "$work/state/status"; Dir::Cache "$work/apt";
	Acquire::Languages "none"; Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	APT::Sandbox::User "root"; APT::Install-Recommends "false";
	#clear APT::Update::Pre-Invoke;
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
	CONF
  logged "$work/log" apt-get -c "$work/apt.conf" -qq "$@"
}

# download_testing WORK MIRROR KEYRING PACKAGE...: these and all they need, from MIRROR's testing suite.
download_testing() {
  local work=$1 source=$1/sources.list
  echo "deb [signed-by=$3] $2 testing main" >"$source"
  shift 3
  private_apt "$work" -o Dir::Etc::sourcelist="$source" -o Dir::Etc::sourceparts=- update &&
    private_apt "$work" -o Dir::Etc::sourcelist="$source" -o Dir::Etc::sourceparts=- -y install --download-only "$@"
}

# newest_keyring WORK: the keys of the newest debian-archive-keyring package, fetched and verified with the
# machine's own sources, for a machine whose installed keys are older than testing's signature.
newest_keyring() {
  mkdir -p "$1/keys"
  (cd "$1/keys" && private_apt "$1/keys" update && private_apt "$1/keys" download debian-archive-keyring && dpkg -x debian-archive-keyring_*.deb root) &&
    echo "$1/keys/root$archive_keys"
}

fetch_debian_llama() {
  local work version
  local other="or install llama.cpp otherwise (apt-get install llama.cpp-tools where your release has it; Homebrew: brew install llama.cpp) and name its llama-server in TANDEM_LLAMA_SERVER"
  work=$(mktemp -d "$cache/tmp.llama.cpp.$$.XXXXXX")
  unpack_testing "$work" "$other" llama.cpp-tools
  version=$(tools_version "$work")
  write_programs "$work" "$cache/llama.cpp-$version" || die "llama.cpp-tools $version was fetched, but none of its processor variants runs here" "$other"
  publish "$work" "$cache/llama.cpp-$version"
}

# unpack_testing WORK OTHER PACKAGE...: these and all they need, from Debian's testing suite, under WORK/root. OTHER is what to do if it fails.
unpack_testing() {
  local work=$1 other=$2 mirrors mirror keys deb
  shift 2
  mirrors=$(debian_mirrors)
  [ -n "$mirrors" ] || die "no llama-server in PATH or Homebrew, and this machine's apt sources name no Debian mirror to fetch $* from" \
    "add a Debian source (any mirror, suite testing, component main) to apt" "$other"
  for mirror in $mirrors; do
    say "fetching $* from $mirror (suite testing)"
    download_testing "$work" "$mirror" "$archive_keys" "$@" && break
    say "trying again with the newest Debian archive keys"
    keys=$(newest_keyring "$work") && download_testing "$work" "$mirror" "$keys" "$@" && break
  done
  mkdir "$work/debs"
  mv "$work"/apt/archives/*.deb "$work/debs/" 2>/dev/null || die "no mirror gave $* (tried: ${mirrors//$'\n'/, })" \
    "check that it can be reached (apt-get update) and verified (package debian-archive-keyring)" "$other"
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
  rm -rf "$work"/{apt,state,lists,keys,apt.conf,sources.list,log}
}

# tools_version WORK: of the llama.cpp-tools that were unpacked there.
tools_version() { dpkg-deb -f "$1"/debs/llama.cpp-tools_*.deb Version | sed 's/^[0-9]*://'; }

# write_programs WORK FINAL: writes the two programs that run the unpacked packages with their own loader and
# libraries, and the fastest processor variant that really computes here.
write_programs() {
  local work=$1 final=$2 name
  locate "$work"
  variant=$(variants "$work" 1)
  [ -n "$variant" ] || return 1
  say "llama.cpp runs with the processor variant $variant"
  for name in llama-server llama-quantize; do
    cat >"$work/$name" <<-PROGRAM
	#!/bin/sh
	export GGML_BACKEND_PATH='$final$libs/ggml/backends0/libggml-cpu-$variant.so'
	exec '$final$loader' --library-path '$final$libs:$final$libs/llama' '$final/root/usr/bin/$name' "\$@"
	PROGRAM
    chmod +x "$work/$name"
  done
}

# locate WORK: sets libs and loader, both as they are called below WORK.
locate() {
  libs=$(dirname "$(find "$1/root/usr/lib" -name 'libllama.so*' -print -quit)")
  libs=${libs#"$1"}
  loader=$(find "$1/root" -name 'ld-linux*.so.*' -print -quit)
  loader=${loader#"$1"}
}

# variants WORK MOST: the processor variants that really compute here, at most so many, the best first. Flags alone do not tell which do.
variants() {
  local work=$1 most=$2 backends=$1$libs/ggml/backends0 name
  probe_model >"$work/probe.gguf"
  # Best first on x86-64 (zen4 before sapphirerapids: no AMX to be surprised by), then whatever else there is, on Arm newest first.
  # Not with $backends as the working folder: there ggml would load a variant of its own choice.
  for name in $({
    printf '%s\n' zen4 sapphirerapids cooperlake icelake cascadelake cannonlake skylakex alderlake haswell piledriver ivybridge sandybridge sse42 x64
    find "$backends" -name 'libggml-cpu-*.so' | sed 's/.*libggml-cpu-//; s/\.so$//' | sort -r
  } | awk '!seen[$0]++'); do
    [ "$most" -gt 0 ] || break
    [ -r "$backends/libggml-cpu-$name.so" ] || continue
    if GGML_BACKEND_PATH="$backends/libggml-cpu-$name.so" "$work$loader" --library-path "$work$libs:$work$libs/llama" \
      "$work/root/usr/bin/llama-bench" -m "$work/probe.gguf" -p 8 -n 2 -r 1 -t 1 >/dev/null 2>&1; then
      echo "$name"
      most=$((most - 1))
    fi
  done
  rm "$work/probe.gguf"
}

# probe_model: the smallest llama model that makes a processor variant compute: one layer, 32 wide, zero weights
# in q8_0 (34 bytes for 32 weights), no vocabulary. 10 kB in GGUF version 3.
probe_model() {
  local pair name offset=0
  printf GGUF; le 4 3; le 8 11; le 8 9
  gguf_string general.architecture; le 4 8; gguf_string llama
  gguf_string tokenizer.ggml.model; le 4 8; gguf_string no_vocab
  for pair in vocab_size=32 context_length=64 block_count=1 embedding_length=32 feed_forward_length=32 attention.head_count=1; do
    gguf_string "llama.${pair%=*}"; le 4 4; le 4 "${pair#*=}"
  done
  gguf_string llama.attention.layer_norm_rms_epsilon; le 4 6; le 4 925353388 # the bits of float32 1e-5
  for name in blk.0.attn_norm blk.0.ffn_norm output_norm; do
    gguf_string $name.weight; le 4 1; le 8 32; le 4 0; le 8 $offset
    offset=$((offset + 128))
  done
  for name in token_embd blk.0.attn_q blk.0.attn_k blk.0.attn_v blk.0.attn_output blk.0.ffn_gate blk.0.ffn_up blk.0.ffn_down; do
    gguf_string $name.weight; le 4 2; le 8 32; le 8 32; le 4 8; le 8 $offset
    offset=$((offset + 32 * 34))
  done
  head -c $((offset + 32)) /dev/zero # and the padding that aligns the first tensor
}
gguf_string() { le 8 ${#1}; printf %s "$1"; }
le() { # le BYTES NUMBER: little-endian
  local i n=$2
  for ((i = 0; i < $1; i++)); do printf %b "\\x$(printf %02x $((n & 255)))"; n=$((n >> 8)); done
}

# ---- other backends of llama.cpp, for tests ---------------------------------------------------------------

# find_backends: the folder of their programs.
find_backends() {
  local found
  for found in "$cache"/backends-*/; do
    if [ -x "$found/llama-server-vulkan" ]; then echo "${found%/}"; return; fi
  done
  return 1
}

fetch_backends() {
  local work final best plain
  work=$(mktemp -d "$cache/tmp.backends.$$.XXXXXX")
  unpack_testing "$work" "or run the tests where apt-get reaches a Debian mirror" \
    llama.cpp-tools libggml0-backend-vulkan mesa-vulkan-drivers libvulkan1 libggml0-backend-blas
  final=$cache/backends-$(tools_version "$work")
  locate "$work"
  best=$(variants "$work" 99)
  plain=${best##*$'\n'} best=${best%%$'\n'*}
  [ -n "$best" ] || die "llama.cpp-tools were fetched, but none of their processor variants runs here" "run the tests on another machine"
  sed "s#\"library_path\": *\"#&$final$libs/#" "$work/root/usr/share/vulkan/icd.d/lvp_icd.json" >"$work/lavapipe.json"
  rm -rf "$work/debs"
  mkdir "$work/shaders" # compiled once; whoever may not write there compiles at each start
  write_backend "$work" "$final" plain "cpu-$plain"
  write_backend "$work" "$final" blas "cpu-$best" blas
  write_backend "$work" "$final" vulkan "cpu-$best" vulkan
  publish "$work" "$final"
}

# write_backend WORK FINAL NAME BACKEND...: a llama-server with exactly these, and all layers on what is no processor. ggml loads what lies in
# the working folder, so files are to be named by absolute paths.
write_backend() {
  local work=$1 final=$2 name=$3 backend
  shift 3
  mkdir "$work/$name"
  for backend in "$@"; do ln -s "$final$libs/ggml/backends0/libggml-$backend.so" "$work/$name/"; done
  cat >"$work/llama-server-$name" <<-PROGRAM
	#!/bin/sh
	cd '$final/$name' || exit
	export GGML_VK_VISIBLE_DEVICES=0 VK_DRIVER_FILES='$final/lavapipe.json' MESA_SHADER_CACHE_DIR='$final/shaders'
	exec '$final$loader' --library-path '$final$libs:$final$libs/llama:$final$libs/openblas-pthread:$final$libs/blas' '$final/root/usr/bin/llama-server' --n-gpu-layers 99 "\$@"
	PROGRAM
  chmod +x "$work/llama-server-$name"
}

backends() {
  local folder name
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    say "no apt-get here, so llama.cpp's other backends are not fetched"
    return
  fi
  (have find_backends fetch_backends backends)
  folder=$(find_backends)
  for name in plain blas vulkan; do echo "$name=$folder/llama-server-$name"; done
}

# ---- Python with others' clients, for tests ---------------------------------------------------------------

# find_python: the program.
find_python() {
  local found
  for found in "$cache"/python-*/python; do
    if [ -x "$found" ]; then echo "$found"; return; fi
  done
  return 1
}

fetch_python() {
  local work final
  work=$(mktemp -d "$cache/tmp.python.$$.XXXXXX")
  unpack_testing "$work" "or run the tests where apt-get reaches a Debian mirror" python3 python3-ollama python3-openai
  final=$cache/python-$(dpkg-deb -f "$work"/debs/python3_*.deb Version)
  loader=$(find "$work/root" -name 'ld-linux*.so.*' -print -quit)
  loader=${loader#"$work"} libs=$(dirname "$(find "$work/root/usr/lib" -name 'libc.so.6' -print -quit)")
  libs=${libs#"$work"}
  rm -rf "$work/debs"
  cat >"$work/python" <<-PROGRAM
	#!/bin/sh
	export PYTHONHOME='$final/root/usr' PYTHONPATH='$final/root/usr/lib/python3/dist-packages' PYTHONDONTWRITEBYTECODE=1
	exec '$final$loader' --library-path '$final$libs' '$final/root/usr/bin/python3' "\$@"
	PROGRAM
  chmod +x "$work/python"
  publish "$work" "$final"
  "$final/python" -c 'import ollama, openai' || { rm -rf "$final"; false; } || die "the Python that was fetched does not run" "run the tests on another machine"
}

python() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    say "no apt-get here, so no Python with others' clients is fetched"
    return
  fi
  (have find_python fetch_python python)
  echo "PYTHON=$(find_python)"
}

# ---- both -----------------------------------------------------------------------------------------------

main() {
  local fetching ollama server quantize
  (have find_llama get_llama llama.cpp) & fetching=$!
  trap wait EXIT # the fetch is never left behind
  (have find_ollama build_ollama ollama)
  wait $fetching

  ollama=$(find_ollama)
  server=$(find_llama)
  quantize=$(quantize_beside "$server")
  echo "TANDEM_OLLAMA=$ollama"
  echo "TANDEM_OLLAMA_VERSION=$(ollama_version "$ollama")"
  echo "TANDEM_LLAMA_SERVER=$server"
  echo "TANDEM_LLAMA_QUANTIZE=$quantize"
  echo "TANDEM_LLAMA_VERSION=$(llama_version "$server")"
}

case ${1:-} in
  "") main ;;
  backends) backends ;;
  python) python ;;
  *) die "there is no '$1' to get" "call engines.sh without an argument, or with 'backends' or 'python'" ;;
esac
