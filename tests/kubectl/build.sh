#!/usr/bin/env bash
# Builds an older kubectl, unless the same sources were built before with the
# same Go, and prints the path of the binary as its only line on standard
# output. Needs Go and a module proxy; the first build takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export CGO_ENABLED=0
release=$(sed -n 's/^\tk8s\.io\/kubectl v0\.\([0-9.]*\)$/\1/p' go.mod)
[[ $release =~ ^([0-9]+)\.[0-9]+$ ]] || { echo "go.mod names no release of k8s.io/kubectl" >&2; exit 1; }

# What it says its version is.
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=v1.$release -X $package.gitMajor=1 -X $package.gitMinor=${BASH_REMATCH[1]} -X $package.gitTreeState=clean"
done

hash=$({
	go version
	cat build.sh go.mod go.sum main.go
} | sha256sum | cut -c1-16)
cache=${VIDRA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vidra-hub}/kubectl-$hash
binary=$cache/kubectl

if [[ ! -x $binary ]]; then
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	if [[ ! -x $binary ]]; then
		echo "building kubectl v1.$release; the first time takes minutes" >&2
		go build -trimpath -buildvcs=false -ldflags "$flags" -o "$binary.new" . >&2
		mv "$binary.new" "$binary"
	fi
fi
echo "$binary"
