//go:build unix

package builtin

import (
	"os/exec"
	"syscall"
)

// family is a process and all that it has started, unless they left its process group.
type family struct{ group int }

func start(process *exec.Cmd) (family, error) {
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := process.Start(); err != nil {
		return family{}, err
	}
	return family{group: process.Process.Pid}, nil
}

// ask tells them to end. That there is nobody left is as good.
func (f family) ask() { _ = syscall.Kill(-f.group, syscall.SIGTERM) }

func (f family) kill() { _ = syscall.Kill(-f.group, syscall.SIGKILL) }

func (f family) release() {}
