#!/usr/bin/env bash
# Prints a kubeconfig with which the hub reaches a member, made of a context of your own kubeconfig (address, CA)
# and the token that one of clusters/member-*.yaml made there:
#   clusters/kubeconfig.sh CONTEXT > MEMBER.kubeconfig
# KUBECTL names another kubectl. The address must be one that the hub reaches; tls-server-name and proxy-url of your
# own are not carried over.
set -euo pipefail
umask 077
context=${1:?give the context of the member in your kubeconfig}
ask() { "${KUBECTL:-kubectl}" --context "$context" "$@"; }

cluster=$(ask config view --minify --flatten --raw -o jsonpath='{.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}')
read -r server authority <<<"$cluster"
token='' tries=0
# The cluster fills the Secret in a moment after it was made.
until token=$(ask -n vidra-member get secret vidra-hub-token -o jsonpath='{.data.token}') && [[ -n $token ]]; do
	tries=$((tries + 1))
	[[ $tries -lt 30 ]] || { echo "the Secret vidra-member/vidra-hub-token has no token: apply one of clusters/member-*.yaml there first" >&2; exit 1; }
	sleep 1
done
# Where your own kubeconfig names no CA, the cluster's.
[[ -n $authority ]] || authority=$(ask -n vidra-member get secret vidra-hub-token -o jsonpath='{.data.ca\.crt}')

cat <<END
apiVersion: v1
kind: Config
current-context: member
contexts:
- name: member
  context: {cluster: member, user: vidra-hub}
clusters:
- name: member
  cluster:
    server: $server
    certificate-authority-data: $authority
users:
- name: vidra-hub
  user:
    token: $(base64 -d <<<"$token")
END
