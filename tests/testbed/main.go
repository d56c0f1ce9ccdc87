// Command vidra-testbed starts real Kubernetes API servers on loopback. It is
// one binary with several names: `up` starts the others as child processes, so
// each server has a process id that can be stopped, continued and measured.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	_ "time/tzdata" // CronJobs with a time zone

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and OIDC plug-ins for kubectl
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"vidra-testbed/internal/bed"
)

const usage = `vidra-testbed: real Kubernetes API servers on loopback, for tests

  vidra-testbed up [flags]                        start a hub and its members (up --help)
  vidra-testbed kubectl [args]                    kubectl; a link named kubectl does the same
  vidra-testbed kube-apiserver [flags]            one API server
  vidra-testbed kube-controller-manager [flags]   one controller manager
  vidra-testbed etcd [flags]                      etcd
`

func main() {
	// A link named kubectl is kubectl.
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(run("kubectl"))
	}
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	name := os.Args[1]
	// The programs parse os.Args themselves and expect their own name first.
	os.Args = append([]string{filepath.Join(filepath.Dir(os.Args[0]), name)}, os.Args[2:]...)
	os.Exit(run(name))
}

// run is the program called name; it returns the exit code.
func run(name string) int {
	switch name {
	case "up":
		return bed.Main(os.Args[1:])
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		return cli.Run(controllermanager.NewControllerManagerCommand())
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kubectl":
		return runKubectl()
	case "-h", "--help", "help":
		fmt.Print(usage)
		return 0
	}
	fmt.Fprintf(os.Stderr, "vidra-testbed: unknown command %q\n\n%s", name, usage)
	return 2
}

func runKubectl() int {
	if path := bed.Asset("kubectl"); path != "" {
		err := syscall.Exec(path, os.Args, os.Environ())
		fmt.Fprintf(os.Stderr, "vidra-testbed: %s: %v\n", path, err)
		return 1
	}
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck // the flag is parsed again later
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}
