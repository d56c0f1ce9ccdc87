package bed

// The kernel's help in leaving no process behind.

import (
	"os"
	"os/signal"
	"syscall"
)

// childAttributes make a child die with us, whatever ends us. Its own process
// group keeps a terminal's Ctrl-C from it: we end it in our own time.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// onParentDeath calls gone when the parent process ends. The thread that calls
// it must live on. The signal also comes when only the parent's *thread* that
// started us ends, such as one of a test runner; then the parent's id is still
// the same and nothing is done.
func onParentDeath(gone func()) {
	parent := os.Getppid()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGUSR1), 0)
	go func() {
		for range signals {
			if os.Getppid() != parent {
				gone()
			}
		}
	}()
}
