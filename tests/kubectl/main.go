// Command kubectl is an older release of kubectl, built for tests: clients that
// people have on their machines are older than the servers that they talk to.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and OIDC plug-ins
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
