#!/usr/bin/env bash
# Fetches what `cargo run -p memkube --bin schemas` packs: aggregated discovery and the OpenAPI v3 documents
# of a real API server. Usage: fetch.sh KUBECTL KUBECONFIG DIRECTORY. Needs curl.
set -euo pipefail
kubectl=$1 kubeconfig=$2 directory=$3
mkdir -p "$directory/openapi"
exec {proxy}< <(exec "$kubectl" --kubeconfig "$kubeconfig" proxy --port=0)
trap 'kill $!' EXIT
read -r line <&"$proxy"
server=http://${line##* }
discovery='application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
curl -sSf -H "Accept: $discovery" "$server/api" >"$directory/api.json"
curl -sSf -H "Accept: $discovery" "$server/apis" >"$directory/apis.json"
curl -sSf "$server/openapi/v3" | grep -oE '"(api|apis)(/[^"]+)?":' | tr -d '":' | while read -r path; do
	curl -sSf "$server/openapi/v3/$path" >"$directory/openapi/${path//\//_}.json"
done
