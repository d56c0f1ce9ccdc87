#!/usr/bin/env bash
# Builds an older kubectl and prints its path. Needs Go and a module proxy; the
# first build takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../build-common.sh

release=$(sed -n 's/^\tk8s\.io\/kubectl v0\.\([0-9.]*\)$/v1.\1/p' go.mod)
flags=$(kubernetes_version "$release")
build_once kubectl kubectl "building kubectl $release; the first time takes minutes" -ldflags "$flags" .
