package bed

// The flags of `vidra-testbed up`. Nothing is started here.

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// hubName is the hub's cluster name; no member may have it.
const hubName = "hub"

// hubControllers are all that the hub needs: namespaces that go away, owned
// objects that go with their owner, and roles that are made of others.
const hubControllers = "namespace,garbagecollector,clusterrole-aggregation-controller"

// memberControllers make workloads come to life as far as they can without nodes.
const memberControllers = "namespace,garbagecollector,deployment,replicaset,statefulset,daemonset,job,serviceaccount,endpointslice"

// cityNames are the first members' names; m6, m7, ... follow.
var cityNames = []string{"berlin", "tokyo", "austin", "oslo", "lima"}

// clusterNamePattern is a DNS label (RFC 1123), because the name becomes a
// directory, an etcd prefix and a kubeconfig context.
var clusterNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// options say what `up` starts and how it ends.
type options struct {
	members          []string // their names
	dir              string   // empty: a fresh directory under the system's temporary one
	controllers      string   // for members, as kube-controller-manager takes them
	noControllers    bool
	keep             bool
	untilStdinCloses bool
	timeout          time.Duration
}

const upUsage = `vidra-testbed up: start a hub and its members on loopback

It prints one line of JSON when all of them are ready, and runs until SIGTERM or
SIGINT. KUBEBUILDER_ASSETS may name a directory whose etcd and kube-apiserver
(and kube-controller-manager, if there is one) are started in place of its own.

`

// parseOptions reads the arguments after `up`.
func parseOptions(args []string, errOut io.Writer) (options, error) {
	var o options
	var count int
	var names string
	fs := flag.NewFlagSet("vidra-testbed up", flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.Usage = func() {
		fmt.Fprint(errOut, upUsage)
		fs.PrintDefaults()
	}
	fs.IntVar(&count, "members", 3, "how many members; --names alone sets it too")
	fs.StringVar(&names, "names", "", "the first members' names, with commas (default berlin,tokyo,austin,oslo,lima,m6,...)")
	fs.StringVar(&o.dir, "dir", "", "directory for all files; it must be empty or absent (default: a fresh one in the temporary directory)")
	fs.StringVar(&o.controllers, "controllers", memberControllers, "controllers that run for each member")
	fs.BoolVar(&o.noControllers, "no-controllers", false, "start no controller manager, not even the hub's")
	fs.BoolVar(&o.keep, "keep", false, "leave the directory when stopping")
	fs.BoolVar(&o.untilStdinCloses, "until-stdin-closes", false, "stop at the end of standard input too, and when the parent process ends")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long starting may take")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	countSet := false
	fs.Visit(func(f *flag.Flag) { countSet = countSet || f.Name == "members" })
	var given []string
	if names != "" {
		given = strings.Split(names, ",")
		if !countSet {
			count = len(given)
		}
	}
	var err error
	o.members, err = memberNames(count, given)
	return o, err
}

// memberNames takes the given names first, then the default ones not yet taken.
func memberNames(count int, given []string) ([]string, error) {
	if count < 0 {
		return nil, errors.New("--members must not be negative")
	}
	if len(given) > count {
		return nil, fmt.Errorf("--names has %d names, but --members is %d", len(given), count)
	}
	for i, name := range given {
		if !clusterNamePattern.MatchString(name) {
			return nil, fmt.Errorf("member name %q is not a DNS label", name)
		}
		if name == hubName || slices.Contains(given[:i], name) {
			return nil, fmt.Errorf("member name %q is taken", name)
		}
	}
	names := slices.Clone(given)
	for i := 0; len(names) < count; i++ {
		name := fmt.Sprintf("m%d", i+1)
		if i < len(cityNames) {
			name = cityNames[i]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
