#!/usr/bin/env bash
# Unpack Debian packages of given suites, with all that they depend on, into a folder: without root, and with nothing
# outside the cache changed. `sweep setup-shims` holds this script and runs it once for each folder.
#
#   fetch.sh FOLDER RECIPE "SUITE ..." PACKAGE[/SUITE] ...
#
# FOLDER's parent is the cache. RECIPE is written to FOLDER/recipe at the very end, so that a folder with the right
# recipe is a complete one. FOLDER/versions.txt records package, version, architecture and SHA-256 of each archive, and
# FOLDER/vulkan/ holds the drivers' manifests with absolute paths.
#
#   ZINC_BARRIER_MIRROR   a Debian mirror (default: see mirrors.sh, which stands before this script)
#
# Exit: 0 there, 1 could not be fetched, 2 usage, 3 something that this script needs is missing.
set -euo pipefail

say() { printf 'setup-shims: %s\n' "$*" >&2; }
die() { local code=$1; shift; printf 'setup-shims: error: %s\n' "$*" >&2; exit "$code"; }

(($# >= 4)) || die 2 'the arguments are FOLDER RECIPE "SUITE ..." PACKAGE[/SUITE] ...'
root=$1 recipe=$2
read -ra suites <<<"$3"
shift 3
wanted=("$@")
cache=$(dirname "$root") name=$(basename "$root")

[[ $(uname -m) == x86_64 ]] || die 3 "made for x86-64, and this machine is $(uname -m)"
for program in apt-get apt-cache dpkg-deb flock sha256sum; do
  command -v "$program" >/dev/null || die 3 "$program is missing: this needs a Debian or Ubuntu machine"
done
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -r $keys ]] || die 3 "Debian's archive keys are missing: install the package debian-archive-keyring first"

mkdir -p "$cache" || die 1 "cannot create $cache: set XDG_CACHE_HOME to a folder that can be written"
exec 9>"$cache/.lock" || die 1 "cannot write in $cache: set XDG_CACHE_HOME to a folder that can be written"
if ! flock -n 9; then
  say "another run is fetching, waiting for it"
  flock 9
  # What it fetched may be just this. A refresh, too, has then been made a moment ago.
  if [[ -f $root/recipe && $(<"$root/recipe") == "$recipe" ]]; then say "already there: $root"; exit 0; fi
fi

# `sweep` has put mirrors.sh before this script.
mapfile -t mirrors < <(debian_mirrors)
((${#mirrors[@]})) ||
  die 3 "neither this system's package sources nor debootstrap name a Debian mirror: install debootstrap, or set \
ZINC_BARRIER_MIRROR to one (http://HOST/debian)"

# An apt of our own: its own lists and status, and of the system's settings only how to reach the network. The
# system's hooks must not run, since they clean the system's caches. Signatures are checked; the date on them is not,
# so that snapshots and mirrors that lag serve too.
work=$cache/$name.work archives=$cache/$name.work/archives
mkdir -p "$work/lists/partial" "$archives/partial" || die 1 "cannot write in $cache: is the disk full?"
: >"$work/status"
{
  apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Retries|ForceIPv4|ForceIPv6)' || true
  cat <<CONF
Dir::Etc::Parts "/dev/null";
Dir::Etc::Main "/dev/null";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::status "$work/status";
Dir::State::extended_states "$work/extended_states";
Dir::Cache "$work";
Dir::Cache::Archives "$archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "$work";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
CONF
} >"$work/apt.conf"
export APT_CONFIG=$work/apt.conf LC_ALL=C

found=
for mirror in "${mirrors[@]}"; do
  say "$name: reading the package lists of ${suites[*]} from $mirror"
  for suite in "${suites[@]}"; do
    printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$mirror" "$suite"
  done >"$work/sources.list"
  if apt-get -q -o APT::Update::Error-Mode=any update >"$work/update.log" 2>&1 </dev/null; then
    found=$mirror
    break
  fi
done
[[ -n $found ]] || {
  tail -n 5 "$work/update.log" >&2
  die 1 "no mirror of Debian's ${suites[*]} among: ${mirrors[*]}. Is the network there? ZINC_BARRIER_MIRROR may name \
another one"
}

# The plan: for each package its file's name, size and checksum, out of the signed lists. A folder for archives that
# stays empty makes apt name those that it has already, too.
mkdir -p "$work/empty/partial"
apt-get -q -y --print-uris -o Dir::Cache::Archives="$work/empty" install "${wanted[@]}" 2>"$work/plan.log" </dev/null |
  awk '/^\x27/ { print $2, $3 }' >"$work/plan" || true
[[ -s $work/plan ]] || {
  tail -n 5 "$work/plan.log" >&2
  die 1 "apt can't tell what ${wanted[*]} depend on: see its message above"
}

# What an interrupted run has downloaded is kept and checked again by apt, so this resumes.
total=$(wc -l <"$work/plan")
say "$name: downloading $total packages, $(awk '{ n += $2 } END { printf "%d MB", n / 1e6 }' "$work/plan"), less what is here"
progress() {
  local tty=0
  if [[ -t 2 ]]; then tty=1; fi
  tee "$work/download.log" | awk -v name="$name" -v total="$total" -v tty=$tty '
    /^Get:/ {
      n++
      if (tty) printf "\rsetup-shims: %s: package %d of at most %d\033[K", name, n, total > "/dev/stderr"
      else if (n % 25 == 0) printf "setup-shims: %s: package %d of at most %d\n", name, n, total > "/dev/stderr"
    }
    END { if (tty && n) printf "\n" > "/dev/stderr" }'
}
apt-get -q -y --download-only install "${wanted[@]}" 2>&1 </dev/null | progress || {
  tail -n 5 "$work/download.log" >&2
  die 1 "download failed: run \`sweep setup-shims\` again to resume it"
}

# Everything is laid out beside its final place and then moved there at once, so nobody ever sees half of it.
new=$cache/$name.new
rm -rf "$new"
mkdir -p "$new/vulkan"
say "$name: unpacking"
while read -r file _; do
  deb=$archives/$file
  dpkg-deb -x "$deb" "$new" || die 1 "$deb does not unpack: is the disk full? If not, delete it and run this again"
  printf '%s %s\n' "$(dpkg-deb -W --showformat='${Package} ${Version} ${Architecture}' "$deb")" \
    "$(sha256sum <"$deb" | cut -d' ' -f1)"
done <"$work/plan" >"$work/versions"
sort "$work/versions" >"$new/versions.txt"
rm -rf "$new"/usr/share/{doc,man,info,locale,lintian,bug} "$new"/{dev,proc,sys,run,tmp}

# The drivers' manifests, naming their libraries by absolute path: a bare name could be found on the system instead.
libraries=$root/usr/lib/x86_64-linux-gnu
for manifest in "$new"/usr/share/vulkan/icd.d/*.json; do
  [[ -e $manifest ]] || continue
  driver=$(basename "$manifest")
  sed -E "s#(\"library_path\" *: *\")[^\"]*/?(lib[^/\"]+)\"#\1$libraries/\2\"#" "$manifest" >"$new/vulkan/${driver%%_icd*}.json"
done

# One way to its dynamic loader, wherever the suite puts it.
loader=$(compgen -G "$new/usr/lib64/ld-linux-x86-64.so.2" || compgen -G "$new/lib64/ld-linux-x86-64.so.2" ||
  compgen -G "$new/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" ||
  compgen -G "$new/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2") || die 1 "the packages hold no dynamic loader any more"
mkdir -p "$new/start"
cp -L "$loader" "$new/start/ld.so"

# ggml looks for its backends next to the program that runs.
if [[ -d $new/usr/lib/x86_64-linux-gnu/ggml ]]; then
  find "$new/usr/lib/x86_64-linux-gnu/ggml" -name 'libggml-*.so' -printf '%P\n' | while read -r backend; do
    ln -s "../lib/x86_64-linux-gnu/ggml/$backend" "$new/usr/bin/${backend##*/}"
  done
fi

printf '%s' "$recipe" >"$new/recipe"
rm -rf "$root.old"
if [[ -e $root ]]; then mv "$root" "$root.old"; fi
mv "$new" "$root"
rm -rf "$root.old" "$work"
say "$name: ready: $root ($(du -sh "$root" | cut -f1), from $found)"
