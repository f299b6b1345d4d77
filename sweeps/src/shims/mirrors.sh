# Where Debian's packages can be had: sourced by tests/oracles, and part of the script of `sweep setup-shims`.
#
# debian_mirrors prints them, one a line, in the order in which to try them: the one that ZINC_BARRIER_MIRROR names and
# no other; or those that the system installs packages from; or, where these are none of Debian's, as on Ubuntu, the one
# that its debootstrap would take. Security archives lack the suites that are wanted here, and what is no Debian archive
# at all falls out later, when its signature is checked.
debian_mirrors() {
  if [[ -n ${ZINC_BARRIER_MIRROR-} ]]; then
    printf '%s\n' "$ZINC_BARRIER_MIRROR"
    return
  fi
  # ETC and DEBOOTSTRAP are other places for tests.
  local etc=${1:-/etc/apt} debootstrap=${2:-/usr/sbin/debootstrap} found
  found=$({
    cat "$etc"/sources.list.d/*.sources 2>/dev/null | awk '/^[Uu][Rr][Ii]s:/ { for (i = 2; i <= NF; i++) print $i }'
    cat "$etc"/sources.list "$etc"/sources.list.d/*.list 2>/dev/null |
      awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /:\//) { print $i; break } }'
  } | grep -v -e security -e ubuntu | awk '!seen[$0]++' || true)
  if [[ -n $found ]]; then
    printf '%s\n' "$found"
  else
    sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$debootstrap" 2>/dev/null || true
  fi
}
