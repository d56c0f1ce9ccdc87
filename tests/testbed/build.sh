#!/usr/bin/env bash
# build.sh [RELEASE]: builds vidra-testbed and prints its path; kubectl is beside it. RELEASE is an older one of
# Kubernetes, as releases/ has them: 1.35. Needs Go and a module proxy; the first build takes several minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../build-common.sh

release=${1:-}
module=go.mod name=testbed other=()
if [[ -n $release ]]; then
	module=releases/$release/go.mod name=testbed-$release other=(-modfile "$module")
	[[ -f $module ]] || { echo "tests/testbed has no Kubernetes $release; it has $(ls releases | xargs), and without a word the newest" >&2; exit 1; }
fi
kubernetes=$(sed -n 's/^\tk8s\.io\/kubernetes \(v[0-9.]*\)$/\1/p' "$module")
flags=$(kubernetes_version "$kubernetes")
beside() { ln -sf vidra-testbed "$1/kubectl"; }
build_once "$name" vidra-testbed "building vidra-testbed (Kubernetes $kubernetes); the first time takes several minutes" "${other[@]}" -ldflags "$flags" .
