package bed

// The one etcd behind all API servers; each has its own key prefix.

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// attempts bounds how often a server is started when its port was taken.
const attempts = 5

type etcd struct {
	run *child
	url string
}

func startEtcd(ctx context.Context, procs *children, free *ports, dir string) (*etcd, error) {
	var lost error
	for i := range attempts {
		port, err := free.free()
		if err != nil {
			return nil, err
		}
		peerPort, err := free.free()
		if err != nil {
			return nil, err
		}
		url := fmt.Sprintf("http://127.0.0.1:%d", port)
		peer := fmt.Sprintf("http://127.0.0.1:%d", peerPort)
		// A member's peer address is part of its data, so each attempt has its own.
		data := filepath.Join(dir, fmt.Sprintf("data-%d", i))
		run, err := procs.start("etcd", filepath.Join(dir, "etcd.log"), "etcd", []string{
			"--name=testbed",
			"--data-dir=" + data,
			"--listen-client-urls=" + url,
			"--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=testbed=" + peer,
			"--unsafe-no-fsync",
			"--quota-backend-bytes=8589934592", // 8 GiB: benchmarks outgrow the default of 2
			"--log-level=warn",
		})
		if err != nil {
			return nil, err
		}
		probe := &client{url: url, http: &http.Client{Timeout: 5 * time.Second}}
		err = probe.await(ctx, run, "/health", http.StatusOK)
		if err == nil {
			return &etcd{run: run, url: url}, nil
		}
		lost = err
		if !run.ended() || !run.portTaken() {
			return nil, err
		}
	}
	return nil, lost
}
