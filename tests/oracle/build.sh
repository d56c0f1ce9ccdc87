#!/usr/bin/env bash
# Builds vidra-oracle and prints its path. Needs Go and a module proxy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../build-common.sh

build_once oracle vidra-oracle "building vidra-oracle" -ldflags "-s -w" .
