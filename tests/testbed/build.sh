#!/usr/bin/env bash
# Builds vidra-testbed and prints its path; kubectl is beside it. Needs Go and a
# module proxy; the first build takes several minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../build-common.sh

kubernetes=$(sed -n 's/^\tk8s\.io\/kubernetes \(v[0-9.]*\)$/\1/p' go.mod)
flags=$(kubernetes_version "$kubernetes")
beside() { ln -sf vidra-testbed "$1/kubectl"; }
build_once testbed vidra-testbed "building vidra-testbed (Kubernetes $kubernetes); the first time takes several minutes" -ldflags "$flags" .
