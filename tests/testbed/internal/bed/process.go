package bed

// Child processes: started from one thread, logged to a file, gone with us.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// assetsVariable is what envtest calls a directory of ready-made binaries.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Asset finds name in KUBEBUILDER_ASSETS; empty when the variable is not set or
// the directory has no such program.
func Asset(name string) string {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return ""
	}
	return path
}

// program says how to run one of the servers: from the assets, or by this very
// binary.
func program(name string, args []string) (string, []string, error) {
	if path := Asset(name); path != "" {
		return path, args, nil
	}
	if dir := os.Getenv(assetsVariable); dir != "" && name != "kube-controller-manager" {
		return "", nil, fmt.Errorf("%s is set to %s, but there is no %s", assetsVariable, dir, name)
	}
	self, err := os.Executable()
	return self, append([]string{name}, args...), err
}

// child is a process that was started.
type child struct {
	what string // for people: "berlin: kube-apiserver"
	log  string
	pid  int
	done chan struct{} // closed when it ended
	err  error         // how it ended; valid after done
}

// ended reports whether the process is gone.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// portTaken reports whether the process ended because its port was in use.
func (c *child) portTaken() bool {
	return strings.Contains(tail(c.log, 50), "address already in use")
}

// failure says how it ended, with the end of its log.
func (c *child) failure() error {
	return fmt.Errorf("%s ended: %v\n%s:\n%s", c.what, c.err, c.log, tail(c.log, 20))
}

// children starts processes and can end all of them.
//
// Linux delivers a parent-death signal when the *thread* that started the child
// ends (prctl(2), PR_SET_PDEATHSIG), so one goroutine keeps one thread for good
// and starts them all.
type children struct {
	requests chan func()
	mu       sync.Mutex
	all      []*child
	closed   bool
}

// newChildren runs prepare once on the thread that starts processes.
func newChildren(prepare func()) *children {
	c := &children{requests: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread lives as long as we do
		prepare()
		for request := range c.requests {
			request()
		}
	}()
	return c
}

var errStopping = errors.New("stopping")

// start runs a server; its output goes to the file log, emptied first.
func (c *children) start(what, log, name string, args []string) (*child, error) {
	path, args, err := program(name, args)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own copy
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = childAttributes()

	started := make(chan error)
	run := &child{what: what, log: log, done: make(chan struct{})}
	c.requests <- func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			started <- errStopping
			return
		}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		run.pid = cmd.Process.Pid
		c.all = append(c.all, run)
		started <- nil
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", what, err)
	}
	go func() {
		run.err = cmd.Wait()
		close(run.done)
	}()
	return run, nil
}

// living lists the processes that have not ended.
func (c *children) living() []*child {
	c.mu.Lock()
	defer c.mu.Unlock()
	var living []*child
	for _, run := range c.all {
		if !run.ended() {
			living = append(living, run)
		}
	}
	return living
}

// stop ends all processes and starts no more. Nothing of theirs is worth a
// graceful end: the audit log is written before each answer.
func (c *children) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	living := c.living()
	for _, run := range living {
		if process, err := os.FindProcess(run.pid); err == nil {
			_ = process.Kill() // SIGKILL ends a stopped process too
		}
	}
	deadline := time.After(10 * time.Second)
	for _, run := range living {
		select {
		case <-run.done:
		case <-deadline:
			return
		}
	}
}

// tail returns the last lines of a file, read from its last 64 KiB.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	const most = 64 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
