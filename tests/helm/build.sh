#!/usr/bin/env bash
# Builds helm and prints its path. Needs Go and a module proxy; the first build
# takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../build-common.sh

package=helm.sh/helm/v3
version=$(sed -n 's/^require helm\.sh\/helm\/v3 \(v[0-9.]*\).*$/\1/p' go.mod)
minor=$(sed -n 's/^\tk8s\.io\/client-go v0\.\([0-9]*\)\..*$/\1/p' go.mod)
flags="-s -w -X $package/internal/version.version=$version"
# The cluster for which it renders where it asks none.
for where in chartutil lint/rules; do
	flags+=" -X $package/pkg/$where.k8sVersionMajor=1 -X $package/pkg/$where.k8sVersionMinor=$minor"
done
build_once helm helm "building helm $version; the first time takes minutes" -ldflags "$flags" "$package/cmd/helm"
