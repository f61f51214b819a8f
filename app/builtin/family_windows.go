package builtin

import (
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"
)

// family is a process in a job object of its own, with all that it has started. A process that it starts in the moment
// before it is put there is not in it.
type family struct {
	job     windows.Handle
	process *os.Process
}

func start(process *exec.Cmd) (family, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return family{}, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return family{}, err
	}
	const rights = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	if handle, err := windows.OpenProcess(rights, false, uint32(process.Process.Pid)); err == nil {
		_ = windows.AssignProcessToJobObject(job, handle)
		_ = windows.CloseHandle(handle)
	}
	return family{job: job, process: process.Process}, nil
}

// ask ends them: Windows has no way to ask a program without a window.
func (f family) ask() { f.kill() }

// kill ends them. That there is nobody left is as good.
func (f family) kill() {
	_ = windows.TerminateJobObject(f.job, 1)
	_ = f.process.Kill()
}

func (f family) release() { _ = windows.CloseHandle(f.job) }
