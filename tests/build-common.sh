# Sourced by the build.sh of each Go program for tests, in that program's directory.
# build_once NAME BINARY MESSAGE GO-BUILD-ARGUMENTS...
#   Builds BINARY, unless the same sources were built before with the same Go, and prints its path as the only
#   line on standard output. A function `beside DIRECTORY`, if there is one, puts more beside it.
export CGO_ENABLED=0

build_once() {
	local name=$1 binary=$2 message=$3 hash cache
	shift 3
	hash=$({
		go version
		find . ../build-common.sh -type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -name '*.sh' \) ! -name '*_test.go' -print0 |
			LC_ALL=C sort -z | while IFS= read -r -d '' file; do
				echo "$file"
				cat "$file"
			done
	} | sha256sum | cut -c1-16)
	cache=${VIDRA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vidra-hub}/$name-$hash
	if [[ ! -x $cache/$binary ]]; then
		mkdir -p "$cache"
		exec 9>"$cache/lock"
		flock 9
		if [[ ! -x $cache/$binary ]]; then
			echo "$message" >&2
			go build -trimpath -buildvcs=false -o "$cache/$binary.new" "$@" >&2
			if declare -F beside >/dev/null; then beside "$cache"; fi
			mv "$cache/$binary.new" "$cache/$binary"
		fi
	fi
	echo "$cache/$binary"
}

# kubernetes_version VERSION: the linker's flags by which Kubernetes' programs say that this is their version.
kubernetes_version() {
	[[ $1 =~ ^v([0-9]+)\.([0-9]+)\.[0-9]+$ ]] || { echo "go.mod names no release of Kubernetes, but \"$1\"" >&2; exit 1; }
	local flags="-s -w" package
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$1 -X $package.gitMajor=${BASH_REMATCH[1]} -X $package.gitMinor=${BASH_REMATCH[2]} -X $package.gitTreeState=clean"
	done
	echo "$flags"
}
