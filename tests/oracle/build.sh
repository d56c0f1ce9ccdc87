#!/usr/bin/env bash
# Builds vidra-oracle, unless the same sources were built before with the same
# Go, and prints the path of the binary as its only line on standard output.
# Needs Go and a module proxy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export CGO_ENABLED=0
hash=$({
	go version
	cat main.go go.mod go.sum build.sh
} | sha256sum | cut -c1-16)
cache=${VIDRA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vidra-hub}/oracle-$hash
binary=$cache/vidra-oracle

if [[ ! -x $binary ]]; then
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	if [[ ! -x $binary ]]; then
		echo "building vidra-oracle" >&2
		go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$binary.new" . >&2
		mv "$binary.new" "$binary"
	fi
fi
echo "$binary"
