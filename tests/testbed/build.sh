#!/usr/bin/env bash
# Builds vidra-testbed, unless the same sources were built before with the same
# Go, and prints the path of the binary as its only line on standard output.
# Needs Go and a module proxy; the first build takes several minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export CGO_ENABLED=0
kubernetes=$(sed -n 's/^\tk8s\.io\/kubernetes \(v[0-9.]*\)$/\1/p' go.mod)
[[ $kubernetes =~ ^v([0-9]+)\.([0-9]+)\.[0-9]+$ ]] || { echo "go.mod names no release of k8s.io/kubernetes" >&2; exit 1; }

# What the servers and kubectl say their version is.
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=${BASH_REMATCH[1]} -X $package.gitMinor=${BASH_REMATCH[2]} -X $package.gitTreeState=clean"
done

hash=$({
	go version
	find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -name build.sh \) ! -name '*_test.go' -print0 |
		LC_ALL=C sort -z | while IFS= read -r -d '' file; do
			echo "$file"
			cat "$file"
		done
} | sha256sum | cut -c1-16)
cache=${VIDRA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vidra-hub}/testbed-$hash
binary=$cache/vidra-testbed

if [[ ! -x $binary ]]; then
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	if [[ ! -x $binary ]]; then
		echo "building vidra-testbed (Kubernetes $kubernetes); the first time takes several minutes" >&2
		go build -trimpath -buildvcs=false -ldflags "$flags" -o "$binary.new" . >&2
		ln -sf vidra-testbed "$cache/kubectl"
		mv "$binary.new" "$binary"
	fi
fi
echo "$binary"
