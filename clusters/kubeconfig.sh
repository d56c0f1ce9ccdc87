#!/usr/bin/env bash
# Writes a kubeconfig with which the hub reaches a member, made of a context of your own kubeconfig (address, CA)
# and the token that one of clusters/member-*.yaml made there:
#   clusters/kubeconfig.sh CONTEXT -o MEMBER.kubeconfig
# Only you may read the file; delete it when its Secret is on the hub. Without -o it is printed. KUBECTL names another
# kubectl. The address must be one that the hub reaches; tls-server-name and proxy-url of your own are not carried over.
set -euo pipefail
umask 077
usage='kubeconfig.sh CONTEXT [-o FILE], CONTEXT being that of the member in your kubeconfig'
context=${1:?$usage}
file=''
if [[ $# -gt 1 ]]; then
	[[ $# -eq 3 && $2 == -o && -n $3 ]] || { echo "$usage" >&2; exit 2; }
	file=$3
fi
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
# Where your own kubeconfig names no CA, the cluster's; but a server that was not verified may say anything.
if [[ -z $authority && $(ask config view --minify -o jsonpath='{.clusters[0].cluster.insecure-skip-tls-verify}') == true ]]; then
	echo "your kubeconfig does not verify the member (insecure-skip-tls-verify): put the member's certificate-authority-data into it" >&2
	exit 1
fi
[[ -n $authority ]] || authority=$(ask -n vidra-member get secret vidra-hub-token -o jsonpath='{.data.ca\.crt}')

if [[ -n $file ]]; then
	# A file that is there keeps its mode, which may be anybody's to read.
	rm -f -- "$file"
	exec >"$file"
	echo "$file holds a token with all rights of the hub there: delete it when its Secret is on the hub" >&2
fi
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
