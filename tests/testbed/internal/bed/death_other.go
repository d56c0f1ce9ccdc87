//go:build !linux

package bed

// Without a parent-death signal: a SIGKILL to `up` leaves its children running.

import "syscall"

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// onParentDeath does nothing here; the end of standard input still stops us.
func onParentDeath(func()) {}
