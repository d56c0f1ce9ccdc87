// Package bed starts a hub and member clusters, each a real kube-apiserver with
// its controller manager, all on loopback and on one etcd, and ends them again.
//
// It knows the servers as programs only: it starts processes, waits, and makes a
// few HTTP calls. What runs inside them is linked into package main.
package bed

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// report is the line of JSON on standard output.
type report struct {
	Dir        string          `json:"dir"`
	Kubeconfig string          `json:"kubeconfig"`
	Etcd       etcdReport      `json:"etcd"`
	Hub        clusterReport   `json:"hub"`
	Members    []clusterReport `json:"members"`
}

type etcdReport struct {
	Pid int    `json:"pid"`
	URL string `json:"url"`
}

type clusterReport struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	CAFile string `json:"caFile"`
	Pid    int    `json:"pid"` // the API server's
	// null when the cluster has no controller manager
	ControllerManagerPid *int              `json:"controllerManagerPid"`
	Audit                string            `json:"audit"`
	Kubeconfigs          map[string]string `json:"kubeconfigs"`
}

// Main is `vidra-testbed up`; it returns the exit code: 0 after a stop that was
// asked for, 1 when starting failed, 2 for wrong flags.
func Main(args []string) int {
	opts, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		progress("%v", err)
		return 2
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	procs := newChildren(func() {
		if opts.untilStdinCloses {
			onParentDeath(stop)
		}
	})
	if opts.untilStdinCloses {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	dir, err := makeDir(opts.dir)
	if err != nil {
		progress("%v", err)
		return 1
	}
	code := run(stopped, procs, opts, dir)
	procs.stop()
	if opts.keep || code != 0 && stopped.Err() == nil {
		progress("files are left in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		progress("%v", err)
	}
	return code
}

// run starts everything, reports it, and waits for the stop.
func run(stopped context.Context, procs *children, opts options, dir string) int {
	began := time.Now()
	ctx, cancel := context.WithTimeout(stopped, opts.timeout)
	defer cancel()
	ready, err := start(ctx, procs, opts, dir)
	if stopped.Err() != nil {
		progress("stopped while starting")
		return 1
	}
	if err != nil {
		progress("cannot start: %v", err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		progress("cannot report: %v", err)
		return 1
	}
	progress("hub and %d members ready after %s", len(opts.members), time.Since(began).Round(100*time.Millisecond))
	for _, run := range procs.living() {
		go func() {
			<-run.done
			if stopped.Err() == nil {
				progress("%s (pid %d) ended: %v", run.what, run.pid, run.err)
			}
		}()
	}
	<-stopped.Done()
	return 0
}

// start brings up etcd and then all clusters side by side.
func start(ctx context.Context, procs *children, opts options, dir string) (*report, error) {
	free := newPorts()
	etcdDir := filepath.Join(dir, "etcd")
	if err := os.Mkdir(etcdDir, 0o700); err != nil {
		return nil, err
	}
	store, err := startEtcd(ctx, procs, free, etcdDir)
	if err != nil {
		return nil, err
	}
	clusters := make([]*cluster, 0, len(opts.members)+1)
	for _, name := range append([]string{hubName}, opts.members...) {
		controllers := opts.controllers
		if name == hubName {
			controllers = hubControllers
		}
		if opts.noControllers {
			controllers = ""
		}
		c, err := newCluster(filepath.Join(dir, name), name, controllers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		clusters = append(clusters, c)
	}
	reports := make([]clusterReport, len(clusters))
	err = inParallel(ctx, len(clusters), func(ctx context.Context, i int) error {
		var err error
		reports[i], err = clusters[i].start(ctx, procs, free, store.url)
		return err
	})
	if err != nil {
		return nil, err
	}
	merged := filepath.Join(dir, "kubeconfig")
	var all []access
	for _, c := range clusters {
		all = append(all, c.admin())
	}
	if err := writeKubeconfig(merged, all...); err != nil {
		return nil, err
	}
	return &report{
		Dir:        dir,
		Kubeconfig: merged,
		Etcd:       etcdReport{Pid: store.run.pid, URL: store.url},
		Hub:        reports[0],
		Members:    reports[1:],
	}, nil
}

// start brings up one cluster.
func (c *cluster) start(ctx context.Context, procs *children, free *ports, etcdURL string) (clusterReport, error) {
	began := time.Now()
	var r clusterReport
	if err := c.startServer(ctx, procs, free, etcdURL); err != nil {
		return r, err
	}
	if err := c.bindUsers(ctx); err != nil {
		return r, err
	}
	kubeconfigs, err := c.writeKubeconfigs()
	if err != nil {
		return r, err
	}
	serving := time.Since(began)
	if err := c.startManager(ctx, procs); err != nil {
		return r, err
	}
	progress("%s: serving after %s, ready after %s", c.name, serving.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	r = clusterReport{
		Name:        c.name,
		URL:         c.url,
		CAFile:      c.path("pki/ca.crt"),
		Pid:         c.server.pid,
		Audit:       c.path("audit.log"),
		Kubeconfigs: kubeconfigs,
	}
	if c.manager != nil {
		r.ControllerManagerPid = &c.manager.pid
	}
	return r, nil
}

// inParallel runs n jobs; the first error ends the others and is returned.
func inParallel(ctx context.Context, n int, job func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	var first error
	var once sync.Once
	for i := range n {
		wait.Go(func() {
			if err := job(ctx, i); err != nil {
				once.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	wait.Wait()
	return first
}

// makeDir returns an absolute path to an empty directory. A directory with files
// in it is refused, because it is removed at the end.
func makeDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "vidra-testbed-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	return dir, nil
}

// progress tells people what happens; programs read standard output.
func progress(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "vidra-testbed: "+format+"\n", values...)
}
